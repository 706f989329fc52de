"""Which operation answers which request; the table that serves is the one that OpenAPI is written from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Mapping
from urllib.parse import parse_qsl, unquote

from .answers import invalid, refused
from .fields import Field

PARAMETER = re.compile(r"\{(\w+)\}")
QUERY_FIELDS = 200


@dataclass(frozen=True)
class Route:
    """One operation.

    Args:
        method: GET or POST; HEAD comes with GET.
        path: With `{name}` for what differs.
        operation: Answers a call.
        summary: What it does, in a line.
        fields: What a query may say.
        body: Whether the fields may come in a body instead.
        public: Whether it needs no token.
        follows: Whether it may take as long as a job does.
        lenient: Whether a request may say other things too (which a client's library adds).
        errors: What can go wrong, beside what can with each: status code and meaning.
        media: Content type of its answer.
        example: What its answer looks like.
    """

    method: str
    path: str
    operation: Callable[[Any], Any]
    summary: str
    fields: tuple[Field, ...] = ()
    body: bool = False
    public: bool = False
    follows: bool = False
    lenient: bool = False
    errors: tuple[tuple[int, str], ...] = ()
    media: str = "application/json"
    example: Any = None

    @property
    def parameters(self) -> list[str]:
        """The names in the path."""
        return PARAMETER.findall(self.path)


class Routes:
    """Finds the route of a request. Paths without names in them go first."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self.all = routes
        by_path: dict[str, dict[str, Route]] = {}
        for route in sorted(routes, key=lambda route: len(route.parameters)):
            by_path.setdefault(route.path, {})[route.method] = route
        self._paths = [(_pattern(path), methods) for path, methods in by_path.items()]

    def methods(self, path: str) -> list[str]:
        """What can be done with a path; nothing for one that does not exist."""
        found = self._find(path)
        if found is None:
            return []
        return sorted({*found[0], "OPTIONS", *(["HEAD"] if "GET" in found[0] else [])})

    def match(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route of a request, and the values of the names in its path.

        Raises:
            Problem: 404 for another path, 405 for another method.
        """
        found = self._find(path)
        if found is None:
            raise refused(404, "Not Found: /docs lists what there is")
        methods, values = found
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = ", ".join(self.methods(path))
            raise refused(405, f"Method Not Allowed: {path} takes {allowed}", ("Allow", allowed))
        return route, values

    def _find(self, path: str) -> tuple[dict[str, Route], dict[str, str]] | None:
        path = path.rstrip("/") or "/"
        for pattern, methods in self._paths:
            match = pattern.match(path)
            if match:
                return methods, {name: unquote(value) for name, value in match.groupdict().items()}
        return None


def split_target(target: str) -> tuple[str, str]:
    """Path and query of a request's target, which may be a whole URL (RFC 9112, 3.2.2)."""
    if not target.startswith("/"):
        target = "/" + target.partition("://")[2].partition("/")[2]
    path, _, query = target.partition("#")[0].partition("?")
    return path, query


def parse_form(text: str, where: str) -> dict[str, Any]:
    """A query's or a form's names and values.

    Raises:
        Problem: 400 for what is none, 422 for a name that comes twice.
    """
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=QUERY_FIELDS, errors="strict")
    except ValueError as error:
        reason = "it is no text in UTF-8" if isinstance(error, UnicodeError) else f"more than {QUERY_FIELDS} fields"
        raise refused(400, f"The {where} cannot be read: {reason}") from None
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise invalid(where, name, "given twice: give it once")
        found[name] = value
    return found


def known_only(route: Route, given: Mapping[str, Any]) -> dict[str, Any]:
    """What of what was given the route knows, where it may say other things too."""
    names = {name for each in route.fields for name in (each.name, *each.aliases)}
    return {name: value for name, value in given.items() if name in names}


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(PARAMETER.sub(r"(?P<\1>[^/]+)", path.replace(".", r"\.")) + r"\Z")
