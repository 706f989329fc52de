"""From a request to its operation: routing, authentication, reading what was asked for, and what went wrong."""

from __future__ import annotations

import json
import logging
import threading
from contextlib import ExitStack
from typing import Any, Callable, Mapping

from .answers import Abandoned, Answer, Problem, failed, invalid, refused
from .auth import Gate
from .fields import environment, read_fields
from .launcher import Launchers
from .routes import Route, Routes, known_only, parse_form, split_target
from .server import Request
from .settings import Limits

log = logging.getLogger(__name__)

FORM = "application/x-www-form-urlencoded"


class App:
    """What all requests share.

    Args:
        routes: What can be asked for.
        gate: Who may ask.
        connect: Opens a connection to Flux (`cluster.Cluster`).
        job_env: The environment that jobs inherit.
        workdir: Where jobs run that say nothing about it.
        options: Job shell options of every job that does not say otherwise.
        stop: Ends the server.
        limits: What is too much.
    """

    def __init__(
        self,
        routes: Routes,
        gate: Gate,
        connect: Callable[[], Any],
        *,
        job_env: Mapping[str, str],
        workdir: str,
        options: Mapping[str, Any],
        stop: Callable[[], None],
        limits: Limits,
    ) -> None:
        self.routes, self.gate, self.connect, self.stop = routes, gate, connect, stop
        self.job_env, self.workdir, self.options, self.limits = job_env, workdir, options, limits
        self.launchers = Launchers()
        self.followers = threading.BoundedSemaphore(limits.followers)

    def serve(self, request: Request, send: Callable[[Answer], None]) -> None:
        """Answer a request."""
        with Call(self, request) as call:
            answer = self._answer(call)
            try:
                send(answer)
            finally:
                if not isinstance(answer.body, bytes):
                    answer.body.close()

    def _answer(self, call: Call) -> Answer:
        try:
            return self._operate(call)
        except Problem as problem:
            return problem.answer()
        except Abandoned:
            raise
        except Exception:
            log.exception("a request failed")
            return failed(500, "Internal Server Error: the server's log says more").answer()

    def _operate(self, call: Call) -> Answer:
        request = call.request
        path, query = split_target(request.target)
        if request.method == "OPTIONS":
            return self._options(path)
        route, call.path = self.routes.match(request.method, path)
        if not route.public:
            self.gate.check(request.header("Authorization"))
        call.values = read_values(route, query, request.header("Content-Type"), request.read())
        if route.follows:
            call.follow()
        answer: Answer = route.operation(call)
        return answer

    def _options(self, path: str) -> Answer:
        methods = self.routes.methods(path)
        if not methods:
            raise refused(404, "Not Found")
        return Answer(status=204, headers=(("Allow", ", ".join(methods)),))


class Call:
    """One request on its way, and what it holds until its answer has been sent.

    Args:
        app: What all requests share.
        request: The request.
    """

    def __init__(self, app: App, request: Request) -> None:
        self.app, self.request = app, request
        self.path: dict[str, str] = {}
        self.values: dict[str, Any] = {}
        self._cluster: Any = None
        self._held = ExitStack()

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster = None
        self._held.close()

    @property
    def cluster(self) -> Any:
        """The connection to Flux: one for this request."""
        if self._cluster is None:
            self._cluster = self.app.connect()
        return self._cluster

    def follow(self) -> None:
        """Become one of those that may take as long as a job does.

        Raises:
            Problem: 503 when there are too many.
        """
        if not self.app.followers.acquire(blocking=False):
            many = f"{self.app.limits.followers} requests follow a job already: try again later"
            raise refused(503, many, ("Retry-After", "5"))
        self._held.callback(self.app.followers.release)


def read_values(route: Route, query: str, media: str | None, body: bytes) -> dict[str, Any]:
    """Read what a request asks for, from its query and its body.

    Args:
        route: What it is for.
        query: The query of its target.
        media: Its Content-Type.
        body: Its body.

    Raises:
        Problem: 400, 415 or 422: it cannot be read, or says what cannot be.
    """
    given = parse_form(query, "query")
    values = read_fields(route.fields, known_only(route, given) if route.lenient else given, "query")
    if not (route.body and body):
        return values
    more = _read_body(media, body)
    if "command" in values and "command" not in more:
        # as in flux-restful-api, where the options are in the query and the body is the environment
        return {**values, "envars": {**values.get("envars", {}), **_environment(more)}}
    found = read_fields(route.fields, known_only(route, more) if route.lenient else more, "body")
    for name in found:
        if name in values:
            raise invalid("body", name, "given in the query too: give it once")
    return {**values, **found}


def _read_body(media: str | None, body: bytes) -> dict[str, Any]:
    kind = (media or "application/json").partition(";")[0].strip().lower()
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise refused(400, "The body is no text in UTF-8") from None
    if kind == FORM:
        return parse_form(text, "body")
    if kind != "application/json" and not kind.endswith("+json"):
        raise refused(415, f"Unsupported Media Type {kind}: send application/json")
    try:
        found = json.loads(text)
    except RecursionError:
        raise refused(400, "The body is no JSON that can be read: it is nested too deeply") from None
    except ValueError as error:
        raise refused(400, f"The body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise refused(422, 'The body must be an object: {"command": "hostname"}')
    return found


def _environment(given: Mapping[str, Any]) -> dict[str, str]:
    try:
        return environment(given)
    except ValueError as error:
        raise invalid("body", "envars", str(error)) from None
