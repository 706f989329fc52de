"""A scripted API server: enough of kube-apiserver to list, watch and write, and every fault on demand.

`fake_server` makes it reachable, with sockets and without. It is written against the API's documentation, and
against what a real kube-apiserver was seen to do, rather than against our client, so that it can say no to it.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from kueue_flux.runtime.resource import Object, Resource

PODS = Resource("", "v1", "pods", "Pod")
JOBS = Resource("batch", "v1", "jobs", "Job")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)


def pod(name: str, namespace: str = "ns", **more: Any) -> Object:
    """A pod as the runtime needs it."""
    metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **more}


@dataclass(slots=True)
class Request:
    """What a client asked."""

    at: float
    verb: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(slots=True)
class Reply:
    """What is answered: a body, or the stream of a watch."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    stream: "Stream | None" = None


def refusal(status: int, reason: str, message: str = "no", **headers: str) -> Reply:
    """An error as the API server puts it; header names with "_" for "-"."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
    raw = json.dumps({**body, "reason": reason, "message": message}).encode()
    return Reply(status, raw, {name.replace("_", "-"): value for name, value in headers.items()})


class Cut(Exception):
    """The connection breaks."""


class Stream:
    """An open watch, seen from the server."""

    def __init__(self, collection: str, namespace: str, selected: Callable[[Object], bool]) -> None:
        self.collection = collection
        self.namespace = namespace
        self.selected = selected
        self.open = True
        self._chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    def send(self, raw: bytes) -> None:
        """Send bytes as they are."""
        self._chunks.put_nowait(raw)

    def event(self, kind: str, obj: Object) -> None:
        """Send a watch event."""
        self.send(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    def bookmark(self, version: int) -> None:
        """Say how far the client has seen."""
        self.event("BOOKMARK", {"kind": "x", "metadata": {"resourceVersion": str(version)}})

    def error(self, status: int, reason: str, message: str = "") -> None:
        """Send an ERROR event."""
        self.event("ERROR", json.loads(refusal(status, reason, message).body))

    def close(self) -> None:
        """End the stream cleanly."""
        self._chunks.put_nowait(None)

    def cut(self) -> None:
        """Break the connection."""
        self._chunks.put_nowait(Cut("connection reset"))

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            while (chunk := await self._chunks.get()) is not None:
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk
        finally:
            self.open = False


@dataclass(slots=True)
class _Address:
    collection: str
    namespace: str
    name: str
    subresource: str


def _address(path: str) -> _Address:
    parts = path.strip("/").split("/")
    head = 3 if parts[0] == "apis" else 2
    group, rest = "/".join(parts[:head]), parts[head:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    rest += [""] * (3 - len(rest))
    return _Address(f"{group}/{rest[0]}", namespace, rest[1], rest[2])


def _merge(into: Object, patch: Mapping[str, Any]) -> Object:
    for name, value in patch.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = deepcopy(value)
    return into


class FakeApi:
    """The server: its objects, its history, what it was asked, and the faults it is told to have."""

    def __init__(self) -> None:
        self.version = 100
        self.compacted = 0
        """Watches and continue tokens below this version are expired."""
        self.collections: dict[str, dict[tuple[str, str], Object]] = {}
        self.requests: list[Request] = []
        self.streams: list[Stream] = []
        self.missing: set[str] = set()
        """Collections of types that are not installed."""
        self.token: str | None = None
        """The bearer token that is asked of clients."""
        self.away = False
        self.silent = False
        """Changes happen, but no watch hears of them."""
        self.latency = 0.0
        self.bookmark_seconds = 60.0
        self._history: list[tuple[int, str, str, Object]] = []
        self._faults: list[tuple[str, str, Reply | Exception]] = []

    # what a test does to the world

    def put(self, resource: Resource, obj: Object) -> Object:
        """Create or replace an object, as somebody else would."""
        kept = deepcopy(obj)
        collection = resource.path()[1:]
        metadata = kept["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        before = self.collections.setdefault(collection, {}).get(key)
        metadata["uid"] = before["metadata"]["uid"] if before else metadata.get("uid") or str(uuid.uuid4())
        return self._store(collection, key, "MODIFIED" if before else "ADDED", kept)

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object, as somebody else would."""
        self._delete(resource.path()[1:], (namespace, name))

    def restore(self, version: int) -> None:
        """Go back in time, as a cluster does that is restored from a backup: history is lost, versions too."""
        self.version = version
        self._history.clear()
        self.compacted = 0
        for objects in self.collections.values():
            for key, obj in list(objects.items()):
                if int(obj["metadata"]["resourceVersion"]) > version:
                    del objects[key]

    def fail(self, verb: str, reply: Reply | Exception, times: int = 1, path: str = "") -> None:
        """Answer the next `times` requests of a verb (LIST, WATCH, GET, POST ...) like this."""
        self._faults += [(verb, path, reply)] * times

    def leave(self) -> None:
        """Go away: connections break, new ones are refused."""
        self.away = True
        for stream in self.live:
            stream.cut()

    def bookmark(self) -> None:
        """Tell every watch how far it has seen."""
        for stream in self.live:
            stream.bookmark(self.version)

    def compact(self) -> None:
        """Forget the history up to now."""
        self.compacted = self.version + 1
        self._history.clear()

    @property
    def live(self) -> list[Stream]:
        """Watches that are open."""
        return [stream for stream in self.streams if stream.open]

    def asked(self, verb: str, path: str = "") -> list[Request]:
        """The requests of a verb so far."""
        return [r for r in self.requests if r.verb == verb and path in r.path]

    # what a client may ask

    async def handle(self, method: str, path: str, query: Mapping[str, str], headers: Any, body: Any) -> Reply:
        """Answer one request."""
        at = _address(path)
        verb = method
        if method == "GET" and not at.name:
            verb = "WATCH" if "watch" in query else "LIST"
        now = asyncio.get_running_loop().time()
        self.requests.append(Request(now, verb, path, dict(query), dict(headers), deepcopy(body)))
        await asyncio.sleep(self.latency)
        if self.away:
            raise Cut("connection refused")
        if self.token and headers.get("Authorization", "").lower() != f"bearer {self.token}":
            return refusal(401, "Unauthorized", "Unauthorized")
        for fault in self._faults:
            if fault[0] == verb and fault[1] in path:
                self._faults.remove(fault)
                if isinstance(fault[2], Exception):
                    raise fault[2]
                return fault[2]
        if at.collection in self.missing:
            return refusal(404, "NotFound", "the server could not find the requested resource")
        objects = self.collections.setdefault(at.collection, {})
        answer: Callable[..., Reply] = getattr(self, f"_{verb.lower()}")
        return answer(at, objects, query, headers, body)

    def _list(self, at: _Address, objects: dict[Any, Object], query: Mapping[str, str], *_: Any) -> Reply:
        version, start = self.version, 0
        if token := query.get("continue"):
            version, start = (int(part) for part in token.split(":"))
            if version < self.compacted:
                return refusal(410, "Expired", "The provided continue parameter is too old")
        found = [o for key, o in sorted(objects.items()) if _in(at, key) and _selected(query)(o)]
        limit = int(query.get("limit", 0)) or len(found) + 1
        metadata = {"resourceVersion": str(version)}
        if start + limit < len(found):
            metadata["continue"] = f"{version}:{start + limit}"
        items = [{k: v for k, v in o.items() if k not in ("apiVersion", "kind")} for o in found[start : start + limit]]
        return _json({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})

    def _watch(self, at: _Address, _: Any, query: Mapping[str, str], *__: Any) -> Reply:
        since = int(query["resourceVersion"])
        if since < self.compacted - 1:
            return refusal(410, "Expired", f"too old resource version: {since} ({self.compacted})")
        stream = Stream(at.collection, at.namespace, _selected(query))
        for version, collection, kind, obj in self._history:
            if version > since:
                self._tell(stream, collection, kind, obj)
        self.streams.append(stream)
        loop = asyncio.get_running_loop()
        loop.call_later(int(query["timeoutSeconds"]), stream.close)
        if self.bookmark_seconds:
            loop.call_later(self.bookmark_seconds, self._bookmark, stream, since)
        return Reply(stream=stream)

    def _bookmark(self, stream: Stream, since: int) -> None:
        if stream.open and not self.away:
            if self.version >= since:  # else silence, as the real server does to a client from its future
                stream.bookmark(self.version)
            asyncio.get_running_loop().call_later(self.bookmark_seconds, self._bookmark, stream, since)

    def _get(self, at: _Address, objects: dict[Any, Object], *_: Any) -> Reply:
        obj = objects.get((at.namespace, at.name))
        return _json(obj) if obj else refusal(404, "NotFound", f"{at.name} not found")

    def _post(self, at: _Address, objects: dict[Any, Object], _: Any, __: Any, body: Object) -> Reply:
        key = (at.namespace, body["metadata"]["name"])
        if key in objects:
            return refusal(409, "AlreadyExists", f"{key[1]} already exists")
        obj = deepcopy(body)
        obj["metadata"]["uid"] = str(uuid.uuid4())
        return _json(self._store(at.collection, key, "ADDED", obj), 201)

    def _put(self, at: _Address, objects: dict[Any, Object], _: Any, __: Any, body: Object) -> Reply:
        key = (at.namespace, at.name)
        if key not in objects:
            return refusal(404, "NotFound")
        wanted = body["metadata"].get("resourceVersion")
        if wanted and wanted != objects[key]["metadata"]["resourceVersion"]:
            return refusal(409, "Conflict", "the object has been modified")
        return _json(self._store(at.collection, key, "MODIFIED", deepcopy(body)))

    def _patch(self, at: _Address, objects: dict[Any, Object], _: Any, headers: Any, body: Any) -> Reply:
        key = (at.namespace, at.name)
        apply = "apply-patch" in headers["Content-Type"]
        if key not in objects:
            if not apply or at.subresource:
                return refusal(404, "NotFound")
            return self._post(at, objects, None, None, body)
        if isinstance(body, list):
            return _json(objects[key])
        patch = {at.subresource: body.get(at.subresource, {})} if at.subresource else body
        new = _merge(deepcopy(objects[key]), patch)
        if new == objects[key]:
            return _json(new)
        return _json(self._store(at.collection, key, "MODIFIED", new))

    def _delete(self, at: Any, objects: Any, _: Any = None, __: Any = None, body: Any = None) -> Any:
        if isinstance(at, str):
            return self._drop(at, objects)
        key = (at.namespace, at.name)
        if not at.name:
            for each in [k for k in objects if _in(at, k)]:
                self._drop(at.collection, each)
            return _json({"kind": "Status", "status": "Success"})
        if key not in objects:
            return refusal(404, "NotFound")
        wanted = (body or {}).get("preconditions", {})
        if "uid" in wanted and wanted["uid"] != objects[key]["metadata"]["uid"]:
            return refusal(409, "Conflict", "the UID in the precondition does not match")
        self._drop(at.collection, key)
        return _json({"kind": "Status", "status": "Success"})

    def _drop(self, collection: str, key: tuple[str, str]) -> None:
        gone = self.collections[collection].pop(key)
        self.version += 1
        gone = deepcopy(gone)
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._record(collection, "DELETED", gone)

    def _store(self, collection: str, key: tuple[str, str], kind: str, obj: Object) -> Object:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.collections.setdefault(collection, {})[key] = obj
        self._record(collection, kind, obj)
        return obj

    def _record(self, collection: str, kind: str, obj: Object) -> None:
        event = (self.version, collection, kind, deepcopy(obj))
        self._history.append(event)
        if not self.silent:
            for stream in self.live:
                self._tell(stream, *event[1:])

    @staticmethod
    def _tell(stream: Stream, collection: str, kind: str, obj: Object) -> None:
        here = stream.namespace in ("", obj["metadata"].get("namespace", ""))
        if stream.collection == collection and here and stream.selected(obj):
            stream.event(kind, obj)


def _in(at: _Address, key: tuple[str, str]) -> bool:
    return at.namespace in ("", key[0])


def _selected(query: Mapping[str, str]) -> Callable[[Object], bool]:
    wanted = [term.split("=") for term in query.get("labelSelector", "").split(",") if term]

    def selected(obj: Object) -> bool:
        labels = obj["metadata"].get("labels", {})
        return all(labels.get(name) == value for name, value in wanted)

    return selected


def _json(obj: Object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(obj).encode())
