"""A small honest API server in memory, with the verbs that the control loop uses and faults on demand.

Honest: it refuses what kube-apiserver refuses (a name that exists, a stale resourceVersion, another uid, a status
field that the CRD does not have), and a write that changes nothing gives no new version. It is written against the
API's documentation, not against our client, so that it can say no to it.

The N-th write can be made to fail, before or after it takes effect; see `Fault`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from kueue_flux.api.crd import crd
from kueue_flux.controller.resources import MINICLUSTERS
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Object, Resource

STATUS_FIELDS = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]

Kind = Literal["ADDED", "MODIFIED", "DELETED"]
Place = tuple[Resource, str, str]
"""(resource, namespace, name)."""


class Killed(Exception):
    """The process that writes is dead; what it still tries to do does not happen."""


@dataclass(frozen=True)
class Event:
    """A change as a watch tells it; the object of a deletion bears the deletion's version."""

    kind: Kind
    resource: Resource
    obj: Object


@dataclass(frozen=True)
class Write:
    """One write that took effect or changed nothing, for the tests to count and look at."""

    verb: str
    resource: Resource
    name: str
    body: Mapping[str, Any]


@dataclass
class Fault:
    """What goes wrong with a client's writes.

    Args:
        number: which of its writes fails, from 1.
        when: "before" it takes effect, or "after".
        error: what the client sees; None kills it, so that every later call fails too.
    """

    number: int
    when: Literal["before", "after"] = "before"
    error: Callable[[], ApiError] | None = None


def timeout() -> ApiError:
    """No answer: the write may or may not have happened."""
    return ApiError(0, "Timeout", "no answer in 30 s")


def copied(obj: Any) -> Any:
    """A copy by way of JSON, which is also all that a server takes."""
    return orjson.loads(orjson.dumps(obj))


def selects(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether a label selector of equalities (`a=b,c!=d`) matches labels (Kubernetes: Labels and Selectors)."""
    for term in selector.split(","):
        key, operator, value = term.partition("!=") if "!=" in term else term.partition("=")
        if (labels.get(key) == value) == (operator == "!="):
            return False
    return True


@dataclass
class FakeApi:
    """The state of a cluster, its history, and whoever changes objects as they are created.

    Attributes:
        now: The server's clock.
        objects: Everything there is.
        history: Every change, in order; what watches tell.
        webhooks: Called with each object that is created or patched by a client, and may change or refuse it.
    """

    now: datetime = datetime(2030, 1, 31, 12, tzinfo=UTC)
    objects: dict[Place, Object] = field(default_factory=dict)
    history: list[Event] = field(default_factory=list)
    webhooks: list[Callable[[Object], None]] = field(default_factory=list)
    version: int = 0
    _made: dict[Place, int] = field(default_factory=dict)

    # -- what the rest of the cluster does, without counting and without faults

    def get(self, resource: Resource, name: str, namespace: str) -> Object | None:
        """The object, or None."""
        return self.objects.get((resource, namespace, name))

    def all(self, resource: Resource) -> list[Object]:
        """All objects of a resource type, by name."""
        return [obj for place, obj in sorted(self.objects.items(), key=lambda i: i[0][1:]) if place[0] == resource]

    def create(self, resource: Resource, manifest: Object) -> Object:
        """Create an object.

        Raises:
            ApiError: AlreadyExists, or what a webhook says.
        """
        obj = copied(manifest)
        place = self._place(resource, obj)
        for webhook in self.webhooks:
            webhook(obj)
        if place in self.objects:
            raise ApiError(409, "AlreadyExists", f'{resource} "{place[2]}" already exists')
        for key, text in obj.pop("stringData", {}).items():
            obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()
        self._made[place] = incarnation = self._made.get(place, 0) + 1
        obj |= {"apiVersion": resource.api_version, "kind": resource.kind}
        obj["metadata"] |= {
            "uid": f"{incarnation:08}-{resource.plural}-{place[2]}",
            "creationTimestamp": self.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "generation": 1,
        }
        if resource.plural in ("miniclusters", "jobs", "workloads", "pods"):
            obj["status"] = {}  # a status is nobody's to set at creation
        return self._store("ADDED", place, obj)

    def update(self, resource: Resource, obj: Object) -> Object:
        """Put a changed object in place of the old one; without a change nothing happens."""
        place = self._place(resource, obj)
        old = self.objects[place]
        if obj == old:
            return old
        if obj.get("spec") != old.get("spec"):
            obj["metadata"]["generation"] = old["metadata"]["generation"] + 1
        return self._store("MODIFIED", place, obj)

    def delete(self, resource: Resource, name: str, namespace: str) -> Object:
        """Delete an object.

        Raises:
            ApiError: NotFound.
        """
        place = (resource, namespace, name)
        self._found(place)
        gone = copied(self.objects.pop(place))
        gone["metadata"]["resourceVersion"] = self._next()
        self.history.append(Event("DELETED", resource, gone))
        return gone

    def collect_garbage(self) -> None:
        """Delete what belongs to owners that are gone, as Kubernetes' garbage collector does."""
        while orphans := [place for place, obj in self.objects.items() if self._is_orphan(obj)]:
            for resource, namespace, name in orphans:
                self.delete(resource, name, namespace)

    def _is_orphan(self, obj: Object) -> bool:
        owners = {owner["uid"] for owner in obj["metadata"].get("ownerReferences", [])}
        return bool(owners) and owners.isdisjoint(other["metadata"]["uid"] for other in self.objects.values())

    def _found(self, place: Place) -> Object:
        if place not in self.objects:
            raise ApiError(404, "NotFound", f'{place[0]} "{place[2]}" not found')
        return copied(self.objects[place])

    def _place(self, resource: Resource, obj: Object) -> Place:
        return resource, obj["metadata"]["namespace"], obj["metadata"]["name"]

    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    def _store(self, kind: Kind, place: Place, obj: Object) -> Object:
        obj["metadata"]["resourceVersion"] = self._next()
        self.objects[place] = obj
        self.history.append(Event(kind, place[0], copied(obj)))
        return obj


class FakeClient:
    """`runtime.client.Client` for one process: counts its writes, and fails one of them.

    Args:
        api: The server.
        fault: What goes wrong.
        last: The kind whose writes always come after others that are under way at the same time.
    """

    def __init__(self, api: FakeApi, fault: Fault | None = None, last: str = "") -> None:
        self.api = api
        self.writes: list[Write] = []
        self.dead = False
        self._fault = fault
        self._last = last

    async def get(self, resource: Resource, name: str, namespace: str) -> Object:
        self._alive()
        return self.api._found((resource, namespace, name))

    async def list_page(
        self, resource: Resource, namespace: str, *, limit: int, label_selector: str, field_selector: str
    ) -> Object:
        self._alive()
        assert (limit, field_selector) == (0, "status.phase=Running")
        found = [
            copied(obj)
            for obj in self._selected(resource, namespace, label_selector)
            if obj["status"].get("phase") == "Running"
        ]
        return {"kind": f"{resource.kind}List", "items": found, "metadata": {}}

    def _selected(self, resource: Resource, namespace: str, label_selector: str) -> list[Object]:
        return [
            obj
            for obj in self.api.all(resource)
            if obj["metadata"]["namespace"] == namespace and selects(label_selector, obj["metadata"].get("labels", {}))
        ]

    async def create(self, resource: Resource, manifest: Object) -> Object:
        name = manifest["metadata"]["name"]
        return await self._write("create", resource, name, manifest, lambda: self.api.create(resource, manifest))

    async def exists(self, resource: Resource, name: str, namespace: str) -> bool:
        """By a dry run of a creation, at which webhooks have a say too."""
        self._alive()
        for webhook in self.api.webhooks:
            webhook({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}})
        return self.api.get(resource, name, namespace) is not None

    async def merge_patch(self, resource: Resource, name: str, patch: Mapping[str, Any], namespace: str) -> Object:
        def do() -> Object:
            obj = self.api._found((resource, namespace, name))
            wanted = patch.get("metadata", {}).get("resourceVersion")
            if wanted is not None and wanted != obj["metadata"]["resourceVersion"]:
                raise ApiError(409, "Conflict", "the object has been modified")
            changed = _merged(obj, patch)
            for webhook in self.api.webhooks:
                webhook(changed)
            return self.api.update(resource, changed)

        return await self._write("patch", resource, name, patch, do)

    async def apply(self, resource: Resource, obj: Object, *, subresource: str) -> Object:
        """Server-side apply of a status: what this manager no longer mentions goes, others' fields stay."""
        assert (resource, subresource) == (MINICLUSTERS, "status")
        meta, status = obj["metadata"], obj["status"]

        def do() -> Object:
            found = self.api._found((resource, meta["namespace"], meta["name"]))
            if meta.get("resourceVersion") not in (None, found["metadata"]["resourceVersion"]):
                raise ApiError(409, "Conflict", "the object has been modified")
            if unknown := sorted(_unknown(status, STATUS_FIELDS, ".status")):
                raise ApiError(400, "BadRequest", f"{unknown[0]}: field not declared in schema")
            found["status"] = {**_of_others(found), **copied(status)}
            own_up(found, "kueue-flux", list(status))
            return self.api.update(resource, found)

        return await self._write("apply", resource, meta["name"], obj, do)

    async def delete(self, resource: Resource, name: str, namespace: str, *, uid: str | None = None) -> Object:
        def do() -> Object:
            found = self.api._found((resource, namespace, name))
            if uid not in (None, found["metadata"]["uid"]):
                raise ApiError(409, "Conflict", "Precondition failed: UID in precondition differs")
            return self.api.delete(resource, name, namespace)

        return await self._write("delete", resource, name, {}, do)

    async def delete_collection(self, resource: Resource, namespace: str, *, label_selector: str) -> Object:
        assert label_selector

        def do() -> Object:
            found = self._selected(resource, namespace, label_selector)
            items = [self.api.delete(resource, obj["metadata"]["name"], namespace) for obj in found]
            return {"kind": f"{resource.kind}List", "items": items, "metadata": {}}

        return await self._write("deletecollection", resource, "", {"selector": label_selector}, do)

    async def would_delete(self, resource: Resource, namespace: str, *, label_selector: str) -> list[Object]:
        """Of each object the metadata alone."""
        self._alive()
        return [{"metadata": copied(obj["metadata"])} for obj in self._selected(resource, namespace, label_selector)]

    async def _write(
        self, verb: str, resource: Resource, name: str, body: Mapping[str, Any], do: Callable[[], Object]
    ) -> Object:
        for _ in range(10 if resource.kind == self._last else 1):
            await asyncio.sleep(0)
        self._alive()
        number = len(self.writes) + 1
        fault = self._fault if self._fault and self._fault.number == number else None
        self.writes.append(Write(verb, resource, name, body))
        if fault and fault.when == "before":
            self._fail(fault)
        try:
            answer = copied(do())
        finally:
            if fault and fault.when == "after":
                self._fail(fault)
        return answer

    def _fail(self, fault: Fault) -> None:
        if fault.error is not None:
            raise fault.error()
        self.dead = True
        raise Killed

    def _alive(self) -> None:
        if self.dead:
            raise Killed


def own_up(obj: Object, manager: str, fields: Iterable[str]) -> None:
    """Note in managedFields who wrote which top-level fields of the status last, as the API server does."""
    entries = obj["metadata"].setdefault("managedFields", [])
    taken = {f"f:{name}" for name in fields}
    for entry in entries:
        owned = entry["fieldsV1"]["f:status"]
        entry["fieldsV1"]["f:status"] = {name: {} for name in owned if name not in taken}
    entries[:] = [e for e in entries if e["fieldsV1"]["f:status"] and e["manager"] != manager]
    entries.append({"manager": manager, "subresource": "status", "fieldsV1": {"f:status": {key: {} for key in taken}}})


def _of_others(obj: Object) -> Object:
    """The fields of the status that somebody else than kueue-flux owns."""
    owned = {
        name.removeprefix("f:")
        for entry in obj["metadata"].get("managedFields", [])
        if entry["manager"] != "kueue-flux"
        for name in entry["fieldsV1"]["f:status"]
    }
    return {name: value for name, value in obj.get("status", {}).items() if name in owned}


def _unknown(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if isinstance(value, dict) and "properties" in schema:
        for name, inner in value.items():
            if name in schema["properties"]:
                yield from _unknown(inner, schema["properties"][name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(value, list):
        for item in value:
            yield from _unknown(item, schema["items"], path)


def _merged(obj: Any, patch: Mapping[str, Any]) -> Any:
    """RFC 7386."""
    result = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = _merged(result.get(key), value)
        else:
            result[key] = value
    return result
