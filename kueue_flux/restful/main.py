"""Starts the server, and ends it when it is told to."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Callable

from .answers import Problem
from .api import ROUTES
from .auth import Gate
from .call import App
from .routes import Routes
from .server import Server
from .settings import ENV_PORT, CannotStart, Settings, job_environment, read_settings

log = logging.getLogger(__name__)

FAREWELL = 3.0
"""Seconds that answers have to be sent when the server ends."""
LOOK = 5.0
"""Seconds between looks at whether the broker is still there."""


def main() -> int:
    """Serve until told to end.

    Returns:
        The exit code: 0 when told to end, 1 when it could not start or lost its broker.
    """
    logging.basicConfig(format="kueue-flux restful: %(levelname)s: %(message)s", stream=sys.stderr)
    stop = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: stop.set())
    try:
        settings = read_settings(os.environ, sys.argv[1:])
        logging.getLogger().setLevel(settings.log_level)
        app = App(
            Routes(ROUTES),
            Gate(settings.token, settings.user),
            _connector(),
            job_env=job_environment(os.environ),
            workdir=str(Path.cwd()),
            options=settings.options,
            stop=stop.set,
            limits=settings.limits,
        )
        server = _listen(settings, app)
    except CannotStart as error:
        log.critical("cannot start: %s", error)
        return 1
    return _serve(server, app, stop)


def _serve(server: Server, app: App, stop: threading.Event) -> int:
    if app.gate.open:
        log.warning("authentication is off: whoever reaches port %d may run commands", server.port)
    log.info("serving on port %d", server.port)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    told = until_stopped(stop, app.connect)
    if told:
        log.info("told to end")
    else:
        log.critical("the broker has gone: without it there is nothing to serve")
    server.stop(FAREWELL)
    app.launchers.stop()
    return 0 if told else 1


def until_stopped(stop: threading.Event, connect: Callable[[], Any], look: float = LOOK) -> bool:
    """Wait until the server is told to end, or its broker is found gone twice in a row.

    A broker that is killed takes nobody with it: its initial program would be left to serve nothing for ever.

    Returns:
        Whether it was told to end.
    """
    gone = 0
    while gone < 2:
        if stop.wait(look):
            return True
        try:
            connect()
            gone = 0
        except Problem:
            gone += 1
    return False


def _connector() -> Callable[[], Any]:
    """What opens a connection to Flux, once it has been seen to work."""
    try:
        from .cluster import Cluster
    except ImportError as error:
        raise CannotStart(
            f"there are no Flux Python bindings for {sys.executable} ({error}): run this with `flux python`"
        ) from None
    try:
        log.debug("an instance of %d brokers", Cluster().size)
    except (Problem, OSError) as error:
        reason = error.content["Message"] if isinstance(error, Problem) else error
        raise CannotStart(f"{reason}. FLUX_URI has to name a broker: run this as its initial program") from None
    return Cluster


def _listen(settings: Settings, app: App) -> Server:
    try:
        return Server(settings.host, settings.port, app.serve, settings.limits)
    except OSError as error:
        where = f"port {settings.port}" + (f" of {settings.host}" if settings.host else "")
        raise CannotStart(f"cannot listen on {where} ({ENV_PORT}): {error.strerror or error}") from None
