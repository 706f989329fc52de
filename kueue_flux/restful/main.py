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


def main() -> int:
    """Serve until told to end.

    Returns:
        The exit code: 0 when told to end, 1 when it could not start.
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
    _serve(server, app, stop)
    return 0


def _serve(server: Server, app: App, stop: threading.Event) -> None:
    if app.gate.open:
        log.warning("authentication is off: whoever reaches port %d may run commands", server.port)
    log.info("serving on port %d", server.port)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    stop.wait()
    log.info("told to end")
    server.stop(FAREWELL)
    app.launchers.stop()


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
