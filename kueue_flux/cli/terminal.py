"""The two streams: results go to stdout, everything for the reader's eyes to stderr, colour only where it shows."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO

from kueue_flux.cli.visible import visible

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


# How the command was run: `kueue-flux`, or `kubectl kueue-flux`.
_PROGRAM = ContextVar("program", default="kueue-flux")
# Where a text says what to type: our name before that of one of our commands.
_COMMANDS = (
    "submit", "list", "status", "logs", "wait", "delete", "shell", "run", "submit-job", "jobs", "resources", "top",
    "queue", "port-forward", "stop", "dev", "version", "setup",
)  # fmt: skip
_TO_TYPE = re.compile(rf"\bkueue-flux(?= (?:{'|'.join(_COMMANDS)})\b)")


@contextmanager
def run_as(program: str) -> Iterator[None]:
    """Within this, hints say `program` where one is to type `kueue-flux`."""
    token = _PROGRAM.set(program)
    try:
        yield
    finally:
        _PROGRAM.reset(token)


def as_run(text: str) -> str:
    """A text whose hints name the command as it was run, wherever they come from."""
    return _TO_TYPE.sub(_PROGRAM.get(), text)


def coloured(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether colours go to that stream: a terminal, and nobody said no (https://no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def painter(stream: TextIO) -> Any:
    """A function (text, colour) -> text for that stream."""
    if not coloured(stream):
        return lambda text, _colour: text

    def paint(text: str, colour: str) -> str:
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if colour in _CODES else text

    return paint


def show(text: str) -> None:
    """Print a result, one that is not painted."""
    print(visible(text), flush=True)


def say(text: str) -> None:
    """Tell the reader something."""
    _tell(visible(as_run(text)))


def complain(message: str, remedy: str = "") -> None:
    """Report an error and what to do about it."""
    paint = painter(sys.stderr)
    _tell(f"{paint('Error:', 'red')} {visible(as_run(message))}")
    if remedy:
        say(f"  {remedy}")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def emit(data: Any, form: str) -> None:
    """Print data as JSON or YAML."""
    if form == "json":
        print(json.dumps(data, indent=2))
        return
    import yaml

    print(yaml.safe_dump(data, sort_keys=False, width=10_000).rstrip())
