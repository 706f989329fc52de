"""What the server can do, told to programs (OpenAPI 3) and to people (a page), both from the table of routes."""

from __future__ import annotations

import re
from html import escape
from typing import Any, Iterable, Mapping

from . import VERSION
from .auth import ONE_USER
from .fields import Field
from .routes import Route

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The page's Content-Security-Policy: it needs nothing of anybody."""

ABOUT = (
    "Submit jobs to the Flux instance of this MiniCluster, and follow, list and cancel them. "
    f"Clients of flux-restful-api v1 work unchanged, with one difference: {ONE_USER}."
)
SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "The token, or an access token of /v1/token."},
    "user": {"type": "http", "scheme": "basic", "description": "The user name, and the token as password."},
}
DETAIL = {"type": "object", "properties": {"detail": {}, "Message": {"type": "string"}, "Errors": {"type": "array"}}}
INVALID = (422, "A parameter does not exist or has a wrong value; detail names it.")
UNKNOWN = (401, "The token is missing or wrong.")
FLUX = (503, "Flux does not answer, or too much is asked at once.")


def openapi(routes: Iterable[Route]) -> dict[str, Any]:
    """The OpenAPI 3.0 document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.0.3",
        "info": {"title": "kueue-flux RESTful API", "version": VERSION, "description": ABOUT},
        "paths": paths,
        "components": {"securitySchemes": SECURITY},
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").rstrip("_"),
        "summary": route.summary,
        "parameters": [*map(_path_parameter, route.parameters), *map(_query_parameter, _in_query(route))],
        "responses": _responses(route),
        "security": [] if route.public else [{name: []} for name in SECURITY],
    }
    if route.body:
        schema = _object(route)
        media = ("application/json", "application/x-www-form-urlencoded")
        operation["requestBody"] = {"content": {kind: {"schema": schema} for kind in media}}
    return operation


def _in_query(route: Route) -> list[Field]:
    """What may be in the query; of a secret nobody is told that it may."""
    return [each for each in route.fields if each.schema.get("format") != "password"]


def _path_parameter(name: str) -> dict[str, Any]:
    description = "A job's id: decimal, or as the flux command prints it (f58)."
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "description": description}


def _query_parameter(field: Field) -> dict[str, Any]:
    # an object is written into a query as JSON
    is_object = field.schema.get("type") == "object"
    kind = {"content": {"application/json": {"schema": field.schema}}} if is_object else {"schema": field.schema}
    return {"name": field.name, "in": "query", "description": field.description, **kind}


def _object(route: Route) -> dict[str, Any]:
    properties = {field.name: {**field.schema, "description": field.description} for field in route.fields}
    return {"type": "object", "properties": properties, "additionalProperties": route.lenient}


def _responses(route: Route) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": {"type": "string"} if route.media.startswith("text/") else {}}
    if route.example is not None:
        content["example"] = route.example
    common = [*route.errors, *([INVALID] if route.fields else []), *([] if route.public else [UNKNOWN, FLUX])]
    errors = {
        str(status): {"description": meaning, "content": {"application/json": {"schema": DETAIL}}}
        for status, meaning in sorted(common)
    }
    return {"200": {"description": route.summary + ".", "content": {route.media.partition(";")[0]: content}}, **errors}


def page(routes: Iterable[Route]) -> str:
    """The page that lists all operations."""
    shown = "".join(_section(route) for route in routes)
    return PAGE.format(about=escape(ABOUT), version=escape(VERSION), sections=shown)


def _section(route: Route) -> str:
    rows = "".join(_row(field.name, field.schema, field.description) for field in route.fields)
    table = f"<table>{rows}</table>" if rows else ""
    errors = "".join(f"<li>{status}: {escape(meaning)}</li>" for status, meaning in route.errors)
    public = "" if not route.public else " <em>needs no token</em>"
    return (
        f"<section><h2><code>{route.method} {escape(route.path)}</code>{public}</h2>"
        f"<p>{escape(route.summary)}.</p>{table}<ul>{errors}</ul></section>"
    )


def _row(name: str, schema: Mapping[str, Any], description: str) -> str:
    kinds = [each.get("type") for each in schema.get("oneOf", [schema])]
    return f"<tr><td><code>{escape(name)}</code></td><td>{' or '.join(kinds)}</td><td>{escape(description)}</td></tr>"


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>kueue-flux RESTful API</title>
<style>
body {{ font: 1em/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }}
h2 {{ font-size: 1.1em; border-top: 1px solid #ccc; padding-top: 1em; }}
td {{ padding: 0 1em 0 0; vertical-align: top; }} pre {{ background: #eee; padding: 1em; overflow: auto; }}
</style></head><body>
<h1>kueue-flux RESTful API</h1>
<p>{about} Version {version}; for programs: <a href="/openapi.json">/openapi.json</a>.</p>
<pre>curl -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
     -d '{{"command": ["hostname"], "num_tasks": 2}}' $SERVER/v1/jobs/submit
curl -H "Authorization: Bearer $TOKEN" $SERVER/v1/jobs/$ID/output/stream</pre>
{sections}
</body></html>
"""
