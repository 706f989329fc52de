"""What can go wrong between a caller and the cluster, each with what to do about it.

The command prints `message` and `remedy` as they are, so both are written for the person who reads them.
"""

import json
from collections.abc import Mapping
from typing import Any

INSTALL = "ask your cluster's admin for it, or install it: see README.md of kueue-flux, Install"


class ClientError(Exception):
    """Something that the caller can act on.

    Attributes:
        message: What happened, one sentence without its full stop.
        remedy: What to do about it, or an empty string.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.message = message
        self.remedy = remedy


class NoCluster(ClientError):
    """No cluster is configured, or its credentials cannot be used."""


class Unreachable(ClientError):
    """The API server does not answer; it may do so later."""


class Unavailable(ClientError):
    """The API server answers that it cannot serve now (429, 5xx); it may do so later."""


class Unauthorized(ClientError):
    """The cluster does not accept the credentials (401)."""


class Forbidden(ClientError):
    """The cluster knows the caller and does not permit the request (403)."""


class NotInstalled(ClientError):
    """The cluster serves no MiniClusters."""


class NotFound(ClientError):
    """There is no such object, or no such namespace (404)."""


class AlreadyExists(ClientError):
    """An object of that name exists (409)."""


class Rejected(ClientError):
    """The API server refuses the object or the request (400, 422).

    Attributes:
        problems: (field, message) for each cause that the API server names.
    """

    def __init__(self, message: str, remedy: str = "", problems: list[tuple[str, str]] | None = None) -> None:
        super().__init__(message, remedy)
        self.problems = problems or []


class Expired(ClientError):
    """The resourceVersion is too old to watch from (410); list again."""


class Refused(ClientError):
    """kueue-flux does not run this MiniCluster: its specification is invalid or not supported."""


class Deleted(ClientError):
    """The MiniCluster was deleted while someone waited for it."""


class NotStarted(ClientError):
    """There is no output, because no command has been started yet."""


class NotRunning(ClientError):
    """The MiniCluster's Flux instance is not up, or not any more."""


class JobRejected(ClientError):
    """Flux does not take a job: an option that it does not know, or more than its nodes have."""


class WaitTimeout(ClientError):
    """What was waited for did not come in time; the MiniCluster goes on."""


class Unanswered(WaitTimeout):
    """The cluster has not answered in that time, so nothing is known of the MiniCluster."""

    def __init__(self, name: str, seconds: float | None) -> None:
        super().__init__(
            f"the cluster has not answered within {seconds:g} s: where MiniCluster {name} stands is not known",
            "is the cluster running, and is it the right one? see kubectl cluster-info",
        )


def from_response(status: int, body: bytes, path: str) -> ClientError:
    """Turn an API server's refusal into the error that says what to do.

    Args:
        status: HTTP status, 400 or more.
        body: The answer's body: a `Status` object (Kubernetes API conventions), or plain text.
        path: The path that was asked for.

    Returns:
        The error, not raised.
    """
    answer = _status(body)
    message = str(answer.get("message") or body.decode(errors="replace").strip() or f"HTTP {status}")
    details: Mapping[str, Any] = answer.get("details") or {}
    match status:
        case 401:
            return Unauthorized(
                "the cluster does not accept these credentials", "log in again, or choose another --context"
            )
        case 403:
            return Forbidden(message, "ask for that permission, or choose another --namespace")
        case 404:
            return _not_found(message, details, path)
        case 409:
            return AlreadyExists(message, "choose another name, or delete that one first")
        case 410:
            return Expired(message)
        case 400 | 422:
            causes = details.get("causes") or []
            problems = [(str(c.get("field", "")), str(c.get("message", ""))) for c in causes]
            return Rejected(message, problems=problems)
        case _ if status == 429 or status >= 500:
            return Unavailable(f"the API server answers {status}: {message}", "try again in a moment")
        case _:
            return ClientError(f"the API server answers {status}: {message}")


def _status(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _not_found(message: str, details: Mapping[str, Any], path: str) -> ClientError:
    # An API server answers for an object by its name; for a kind that it does not serve it has none
    # (plain text "404 page not found" for an unknown group).
    if not details.get("name"):
        if "/flux-framework.org/" in path:
            return NotInstalled("this cluster has no MiniClusters: kueue-flux is not installed", INSTALL)
        return NotFound(f"this cluster does not serve {path}: {message}")
    if details.get("kind") == "namespaces":
        return NotFound(
            f"there is no namespace {details['name']}",
            f"create it: kubectl create namespace {details['name']}",
        )
    return NotFound(message)
