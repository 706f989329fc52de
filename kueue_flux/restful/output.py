"""A job's output as Flux keeps it (RFC 24), made into what its tasks wrote."""

from __future__ import annotations

import base64
import json
from typing import Any, Iterator, Mapping

LEVELS = {0: "FATAL", 1: "FATAL", 2: "FATAL", 3: "ERROR"}
"""Severities of the job shell's own messages that belong to the output, as `flux job attach` shows them."""

Event = Mapping[str, Any]


def written(event: Event) -> bytes:
    """What an event of the output has to show: a task's output, or why the job shell could not run it.

    Args:
        event: One with `name` and `context`, of guest.output (RFC 24), or an exception (RFC 21).
    """
    context = event["context"]
    if event["name"] == "data":
        return _data(context) * int(context.get("repeat", 1))
    if event["name"] == "log" and context.get("level") in LEVELS:
        return f"flux-shell[{context.get('rank')}]: {LEVELS[context['level']]}: {context.get('message')}\n".encode()
    if event["name"] == "exception":
        note = context.get("note") or ""
        return f"job.exception type={context['type']} severity={context['severity']} {note}".rstrip().encode() + b"\n"
    return b""


def parse_events(log: str) -> Iterator[Event]:
    """The events of an eventlog (RFC 18): one in JSON on each line."""
    for line in log.splitlines():
        event = json.loads(line)
        yield {"name": event["name"], "context": event.get("context", {})}


def redirected(event: Event) -> str:
    """Where the output went, if the event says that it went to a file."""
    context = event["context"]
    if event["name"] != "redirect":
        return ""
    return f"{context.get('stream')} of task {context.get('rank')} goes to {context.get('path')}"


def _data(context: Mapping[str, Any]) -> bytes:
    data = context.get("data") or ""
    return base64.b64decode(data) if context.get("encoding") == "base64" else str(data).encode("utf-8", "replace")
