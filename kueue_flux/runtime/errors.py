"""What can go wrong with a request, as one exception type that a caller can act on.

Callers decide by status and reason (retry, relist, give up), never by the transport's own exception types:
those would tie every reconcile to the HTTP library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """A request that the API server refused, or that never got an answer.

    Args:
        status: HTTP status code; 0 when there was no (complete) answer.
        reason: `metav1.Status.reason` ("NotFound", "Conflict", "Expired" ...), or "Unreachable", "Timeout",
            "BadResponse" or "Credentials" for failures on this side.
        message: what the server said, in words.
        retry_after: seconds that the server asked to wait, None when it did not.
        request: method and path, for the log.

    Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
    """

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None, request: str = ""
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.request = request

    def __str__(self) -> str:
        code = f"{self.status} " if self.status else ""
        return f"{self.request + ': ' if self.request else ''}{code}{self.reason}: {self.message}"

    @property
    def not_found(self) -> bool:
        """The object, or its whole resource type, is not there."""
        return self.status == 404

    @property
    def already_exists(self) -> bool:
        """A create met an object of the same name."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """A write met a newer resourceVersion, another uid, or another field manager's field."""
        return self.status == 409 and self.reason != "AlreadyExists"

    @property
    def expired(self) -> bool:
        """The resourceVersion or continue token is too old: list again."""
        return self.status == 410

    @property
    def unreachable(self) -> bool:
        """No answer: connection refused, cut, or timed out. A write may or may not have happened."""
        return self.status == 0 and self.reason in ("Unreachable", "Timeout")

    @classmethod
    def from_status(
        cls, body: Mapping[str, Any], status: int = 0, retry_after: float | None = None, request: str = ""
    ) -> ApiError:
        """Read a `metav1.Status` (an error response's body or a watch's ERROR event).

        Args:
            body: the Status; other JSON objects give an error with empty fields.
            status: HTTP status to use where the Status has no code.
            retry_after: seconds from the Retry-After header; `details.retryAfterSeconds` counts where it is
                None.
            request: method and path, for the log.
        """
        details = body.get("details") or {}
        if retry_after is None and details.get("retryAfterSeconds"):
            retry_after = float(details["retryAfterSeconds"])
        return cls(
            status=int(body.get("code") or status),
            reason=str(body.get("reason") or "Unknown"),
            message=str(body.get("message") or ""),
            retry_after=retry_after,
            request=request,
        )
