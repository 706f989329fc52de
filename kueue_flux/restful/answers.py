"""What an operation gives back: an answer, or the problem because of which there is none."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Generator, Mapping

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"


@dataclass
class Answer:
    """One answer.

    Args:
        body: All of it, or its pieces as they come.
        status: HTTP status code.
        media: Content type.
        headers: Further headers, as pairs.
    """

    body: bytes | Generator[bytes, None, None] = b""
    status: int = 200
    media: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


def answer(content: Any, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    """An answer in JSON."""
    return Answer(json.dumps(content, separators=(",", ":")).encode(), status, headers=headers)


@dataclass
class Problem(Exception):
    """A request that cannot be served, and what its answer says about it.

    The keys of `content` are those of flux-restful-api: `detail` for what is wrong with a request as such, `Message`
    (and `Errors`) for what is wrong with what it asks for.
    """

    status: int
    content: Mapping[str, Any]
    headers: tuple[tuple[str, str], ...] = field(default=())

    def answer(self) -> Answer:
        """The answer that tells the client."""
        return answer(self.content, self.status, self.headers)


class Abandoned(Exception):
    """Nobody waits for the answer any more: the client has gone, or the server is to end."""


def refused(status: int, detail: str, *headers: tuple[str, str]) -> Problem:
    """Something is wrong with the request as such."""
    return Problem(status, {"detail": detail}, headers)


def invalid(where: str, name: str, message: str) -> Problem:
    """One field is not what it has to be: 422 in the form that FastAPI, and so flux-restful-api, gives it."""
    return Problem(422, {"detail": [{"loc": [where, name], "msg": f"{name}: {message}", "type": "value_error"}]})


def failed(status: int, message: str, **more: Any) -> Problem:
    """What the request asks for cannot be done."""
    return Problem(status, {"Message": message, **more})
