"""What kubelet and Prometheus ask: is it alive, is it ready, what has it counted.

Readiness names every check and says what is wrong in words, since "not ready" alone sends people to the logs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from kueue_flux.runtime import metrics

Check = Callable[[], str | None]
"""A named health check: None when well, else what is wrong."""

log = structlog.get_logger(__name__)


class HealthServer:
    """HTTP server with /healthz, /readyz (add ?verbose for the checks that pass) and /metrics.

    A path that fails answers 500, as the API server's own health paths do.

    Args:
        host: address to listen on; "" for all.
        port: TCP port; 0 takes a free one.
        live: checks of /healthz by name; the dict may grow later.
        ready: checks of /readyz by name; the dict may grow later.
    """

    def __init__(self, host: str, port: int, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        self._host = host
        self._port = port
        app = web.Application()
        app.router.add_get("/healthz", _answering("healthz", live))
        app.router.add_get("/readyz", _answering("readyz", ready))
        app.router.add_get("/metrics", _metrics)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the port is taken.
        """
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host or None, self._port).start()
        log.info("serving health and metrics", port=self.port)

    @property
    def port(self) -> int:
        """The TCP port that is listened on."""
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()


def report(name: str, checks: Mapping[str, Check], verbose: bool = False) -> tuple[bool, str]:
    """Run checks.

    Args:
        name: of the path, for the last line.
        checks: by name.
        verbose: show also the checks that pass.

    Returns:
        Whether all passed, and the text to show.
    """
    problems = {check: probe() for check, probe in checks.items()}
    lines = [
        f"[-]{check} failed: {problem}" if problem else f"[+]{check} ok"
        for check, problem in problems.items()
        if problem or verbose
    ]
    healthy = not any(problems.values())
    if not lines:
        return healthy, "ok"
    return healthy, "\n".join([*lines, f"{name} check {'passed' if healthy else 'failed'}"])


def _answering(name: str, checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        healthy, text = report(name, checks, "verbose" in request.query)
        return web.Response(text=text + "\n", status=200 if healthy else 500)

    return answer


async def _metrics(_: web.Request) -> web.Response:
    # content_type would refuse the parameters that this header carries
    return web.Response(body=generate_latest(metrics.REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})
