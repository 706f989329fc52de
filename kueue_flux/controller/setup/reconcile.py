"""A turn of a FluxSetup's control loop: facts, plan, writes, status, events.

One FluxSetup is worked on at a time, since they share flavors and compete for namespaces, and what a turn writes it
puts into the stores at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from kueue_flux.api.problems import InvalidFluxSetup
from kueue_flux.controller.reconcile import Events
from kueue_flux.controller.resources import CLUSTER_QUEUES, LOCAL_QUEUES
from kueue_flux.controller.setup import status
from kueue_flux.controller.setup.counts import Counts, Stage
from kueue_flux.controller.setup.facts import Facts, Nodes, Setups
from kueue_flux.controller.setup.findings import Finding, Level
from kueue_flux.controller.setup.plan import Change, Plan, plan
from kueue_flux.controller.setup.resources import BY_KIND, FLAVORS, FLUX_SETUPS, PRIORITY_CLASSES
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.controller import Result
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Key, Object, Resource
from kueue_flux.runtime.store import Store

log = structlog.get_logger(__name__)

RETRY_SECONDS = 30.0
"""After what was refused; events bring another turn sooner."""
KUEUE_SECONDS = 2.0
"""While Kueue's webhooks do not answer, as they do not for some seconds when it starts."""
REFUSED = frozenset({400, 403, 422})


@dataclass(frozen=True)
class Stores:
    """What is watched for FluxSetups."""

    setups: Store
    nodes: Store
    namespaces: Store
    flavors: Store
    cluster_queues: Store
    local_queues: Store
    priority_classes: Store

    def of(self, resource: Resource) -> Store:
        """The store of what is written."""
        return {
            FLAVORS: self.flavors,
            CLUSTER_QUEUES: self.cluster_queues,
            LOCAL_QUEUES: self.local_queues,
            PRIORITY_CLASSES: self.priority_classes,
        }[resource]


class SetupReconciler:
    """Brings one FluxSetup after another to where it should be.

    Args:
        client: The API client.
        stores: What is known.
        counts: Of the MiniClusters.
        events: Recorder of events.
        clock: The time of day, with a time zone.
    """

    def __init__(
        self,
        client: Client,
        stores: Stores,
        counts: Counts,
        events: Events,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.setups = Setups(stores.setups)
        self._nodes = Nodes(stores.nodes, stores.flavors, self.setups)
        self._client = client
        self._stores = stores
        self._counts = counts
        self._events = events
        self._clock = clock

    async def reconcile(self, key: Key) -> Result | None:
        """Run one turn over the FluxSetup `key`.

        Returns:
            When to look again even if nothing changes; None for no need.

        Raises:
            ApiError: A write failed; the turn is to be repeated with back-off.
        """
        obj = self._stores.setups.get(*key)
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            return None  # garbage collection follows the ownerReferences
        try:
            setup = self.setups.read(obj)
        except InvalidFluxSetup as error:
            await self._report(obj, status.refusal(obj, error.reason, error.message, self._clock()), error)
            return None
        found = plan(self._gather(obj))
        again, troubles = await self._carry_out(obj, found.changes)
        facts = self._gather(obj)
        if found.changes:
            found = plan(facts)
        found.findings += troubles
        queues = {(namespace, setup.spec.queue) for namespace in setup.namespaces} | facts.local_queues.keys()
        counts = self._counts.of(key for key in queues if self._is_its(facts, key))
        await self._report(obj, status.derive(facts, found, counts, obj.get("status") or {}, self._clock()), found)
        return Result(again)

    def _is_its(self, facts: Facts, key: Key) -> bool:
        """Whether a LocalQueue is the FluxSetup's, or will be."""
        present = facts.local_queues.get(key)
        return facts.owns(present) if present is not None else facts.older(key[0]) is None

    def _gather(self, obj: Object) -> Facts:
        setup, stores = self.setups.read(obj), self._stores
        local_queues = {_key(queue): queue for queue in stores.local_queues.owned_by(setup.metadata.uid)}
        for namespace in setup.namespaces:
            if present := stores.local_queues.get(namespace, setup.spec.queue):
                local_queues[_key(present)] = present
        return Facts(
            setup=setup,
            others=[other for other in self.setups if other.metadata.uid != setup.metadata.uid],
            nodes=self._nodes.read(),
            namespaces=frozenset(
                each["metadata"]["name"] for each in stores.namespaces if "deletionTimestamp" not in each["metadata"]
            ),
            flavors={each["metadata"]["name"]: each for each in stores.flavors},
            priority_classes={each["metadata"]["name"]: each for each in stores.priority_classes},
            cluster_queue=stores.cluster_queues.get("", setup.name),
            local_queues=local_queues,
            waiting={key: self._counts.of([key])[Stage.WAITING] for key in local_queues},
        )

    async def _carry_out(self, obj: Object, changes: list[Change]) -> tuple[float | None, list[Finding]]:
        """Write. Returns after how many seconds to try again, and what was refused."""
        again: float | None = None
        troubles: list[Finding] = []
        for change in changes:
            try:
                await self._write(change)
            except ApiError as error:
                trouble = _trouble(change, error)
                if trouble is None:
                    raise
                again, finding = trouble
                troubles.append(finding)
                if finding.reason == "KueueNotReady":
                    break
                continue
            if change.note:
                kind = "Warning" if change.warns else "Normal"
                self._events.event(obj, kind, _REASONS[change.verb], change.note, action="Reconcile")
        return again, troubles

    async def _write(self, change: Change) -> None:
        obj = change.obj
        resource, meta = BY_KIND[obj["kind"]], obj["metadata"]
        name, namespace = meta["name"], meta.get("namespace", "")
        store = self._stores.of(resource)
        log.info("writing", verb=change.verb, kind=resource.kind, namespace=namespace, name=name)
        if change.verb == "create":
            store.put(await self._client.create(resource, obj))
        elif change.verb == "patch":
            # only what was looked at: somebody else may have changed it
            patch = {**change.patch, "metadata": {**change.patch.get("metadata", {}), **_version(meta)}}
            store.put(await self._client.merge_patch(resource, name, patch, namespace))
        else:
            try:
                await self._client.delete(resource, name, namespace, uid=meta["uid"])
            except ApiError as error:
                if not error.not_found:
                    raise

    async def _report(self, obj: Object, new: dict[str, Any], found: Plan | InvalidFluxSetup) -> None:
        old = obj.get("status") or {}
        if new == old:
            return
        meta = obj["metadata"]
        body = {"metadata": {key: meta[key] for key in ("name", "resourceVersion")}, "status": new}
        try:
            self._stores.setups.put(await self._client.apply(FLUX_SETUPS, body, subresource="status"))
        except ApiError as error:
            if error.not_found or error.conflict:
                # changed or deleted meanwhile: the event that says so is on its way, and brings another turn
                log.info("status not written", fluxsetup=meta["name"], error=str(error))
                return
            raise
        if isinstance(found, InvalidFluxSetup):
            findings = [Finding(Level.REFUSED, found.reason, found.message)]
        else:
            findings = found.findings
        for each in status.news(findings, old):
            self._events.event(obj, "Warning", each.reason, each.message, action="Reconcile")


_REASONS = {"create": "Created", "patch": "Changed", "delete": "Deleted"}


def _trouble(change: Change, error: ApiError) -> tuple[float, Finding] | None:
    """What to say of a write that cannot succeed now, and when to try again; None for a passing fault."""
    obj = change.obj
    what = f"{obj['kind']} {obj['metadata']['name']}"
    if error.not_found and change.verb == "create" and "namespace" not in obj["metadata"]:
        missing = "Kueue is not installed: the API server knows nothing of its ClusterQueues"
        return RETRY_SECONDS, Finding(Level.NOT_READY, "KueueNotReady", f"{missing}; install Kueue")
    if error.status >= 500 and "failed calling webhook" in error.message:
        return KUEUE_SECONDS, Finding(Level.NOT_READY, "KueueNotReady", f"Kueue does not answer: {error.message}")
    if error.status in REFUSED:
        refused = f"the API server refuses {what}: {error.message}"
        return RETRY_SECONDS, Finding(Level.NOT_READY, "Refused", refused)
    return None


def _version(meta: Object) -> Object:
    return {"resourceVersion": meta["resourceVersion"]}


def _key(obj: Object) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]
