"""What the server is told, by environment variables, and what it puts up with.

The names are for whoever writes the pod; a job's environment has none of them.
"""

from __future__ import annotations

import argparse
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, NoReturn, Sequence

from .fields import option

PREFIX = "KUEUE_FLUX_RESTFUL_"
ENV_PORT = PREFIX + "PORT"
"""TCP port to listen on; 0 is any that is free."""
ENV_HOST = PREFIX + "HOST"
"""Address to listen on: all, of IPv4 and IPv6, when it is empty."""
ENV_TOKEN_FILE = PREFIX + "TOKEN_FILE"
"""Path of the file with the token, from a mounted Secret. White space around it is no part of it."""
ENV_REQUIRE_AUTH = PREFIX + "REQUIRE_AUTH"
"""`1` (the default): nothing about jobs without the token. `0`: whoever reaches the port may run commands."""
ENV_USER = PREFIX + "USER"
"""The one user name that goes with the token in HTTP Basic authentication and in the token flow."""
ENV_LOG_LEVEL = PREFIX + "LOG_LEVEL"
"""`debug`, `info` (a line for each request), `warning` or `error`."""
ENV_SERVER_MODE = "FLUX_SERVER_MODE"
"""flux-restful-api's own: `multi-user` there means PAM users, which this server does not have and refuses."""

DEFAULT_PORT = 5000
DEFAULT_USER = "fluxuser"
LOG_LEVELS = ("debug", "info", "warning", "error")


class CannotStart(Exception):
    """The server cannot start; the message says why and what to do."""


@dataclass(frozen=True)
class Limits:
    """What one client can take from the others, at most."""

    body: int = 1 << 20
    """Bytes of a request's body."""
    connections: int = 256
    """Connections at once; one more is answered 503."""
    followers: int = 64
    """Requests at once that wait for output; they may take as long as a job does."""
    idle: float = 20.0
    """Seconds in which the head of a request has to arrive, counted from the end of the one before."""
    receive: float = 30.0
    """Seconds in which a body has to arrive."""
    send: float = 30.0
    """Seconds in which one piece of an answer has to be taken."""
    linger: float = 2.0
    """Seconds for which what a refused client still sends is read and dropped, so that it sees the answer."""
    output: int = 64 << 20
    """Bytes of output that are answered in one piece; what is longer can be streamed."""


@dataclass(frozen=True)
class Settings:
    """What the server was told."""

    port: int = DEFAULT_PORT
    host: str = ""
    user: str = DEFAULT_USER
    token: str | None = field(default=None, repr=False)
    """None: authentication is off."""
    log_level: int = logging.INFO
    options: Mapping[str, Any] = field(default_factory=dict)
    """Job shell options of every job that does not say otherwise."""
    limits: Limits = field(default_factory=Limits)


def read_settings(env: Mapping[str, str], arguments: Sequence[str] = ()) -> Settings:
    """Read the settings, the token included.

    Args:
        env: The environment.
        arguments: Those of the command line: `-o NAME=VALUE` as for `flux run`, as often as wanted.

    Raises:
        CannotStart: One of them makes no sense, or there is no token where one is required.
    """
    if env.get(ENV_SERVER_MODE, "single-user") != "single-user":
        raise CannotStart(
            f"{ENV_SERVER_MODE}={env[ENV_SERVER_MODE]} asks for flux-restful-api's multi-user mode (PAM), which is not "
            "supported: every job runs as the user of this container. Take the variable away"
        )
    required = _choice(env, ENV_REQUIRE_AUTH, ("1", "0"), "1") == "1"
    return Settings(
        port=_port(env),
        host=env.get(ENV_HOST, ""),
        user=env.get(ENV_USER) or DEFAULT_USER,
        token=_token(env.get(ENV_TOKEN_FILE, "")) if required else None,
        log_level=getattr(logging, _choice(env, ENV_LOG_LEVEL, LOG_LEVELS, "info").upper()),
        options=_options(arguments),
    )


def job_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment that jobs inherit: the server's, without what was for the server alone."""
    return {name: value for name, value in env.items() if not name.startswith(PREFIX)}


def _options(arguments: Sequence[str]) -> dict[str, Any]:
    parser = _Arguments(prog="restful", add_help=False, allow_abbrev=False)
    parser.add_argument("-o", "--setopt", action="append", default=[])
    return dict(option(word) for word in parser.parse_args([word for word in arguments if word != "--"]).setopt)


class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CannotStart(
            f"{message}. Jobs are submitted one by one here: the only option for all of them is -o NAME=VALUE"
        )


def _choice(env: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    value = env.get(name) or default
    if value not in choices:
        raise CannotStart(f"{name} is {value!r}: it can be {', '.join(choices)}")
    return value


def _port(env: Mapping[str, str]) -> int:
    text = env.get(ENV_PORT) or str(DEFAULT_PORT)
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 16):
        raise CannotStart(f"{ENV_PORT} is {text!r}: a port is a number from 0 to 65535")
    return int(text)


def _token(path: str) -> str:
    if not path:
        raise CannotStart(
            f"there is no token: {ENV_TOKEN_FILE} names no file. Authentication can only be turned off with "
            f"{ENV_REQUIRE_AUTH}=0"
        )
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise CannotStart(f"cannot read the token from {path} ({ENV_TOKEN_FILE}): {reason}") from None
    if not token:
        raise CannotStart(f"the token file {path} ({ENV_TOKEN_FILE}) is empty")
    return token
