"""What is watched for FluxSetups, which of them an event concerns, and which MiniClusters wait for one.

Events of what a turn does not depend on (a node's heartbeat, a queue's numbers that stay the same) bring no turn, and
those that come in numbers (MiniClusters, queues, nodes) are gathered for a moment.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kueue_flux.api.setup import DEFAULT_QUEUE
from kueue_flux.controller.setup import resources
from kueue_flux.controller.setup.counts import WAITING_FOR_SETUP, Counts, queue_of, stage_of
from kueue_flux.controller.setup.facts import Setups, claimant, owners
from kueue_flux.controller.setup.plan import is_seen
from kueue_flux.controller.setup.reconcile import SetupReconciler, Stores
from kueue_flux.kueue.workload import Signal
from kueue_flux.runtime.controller import Controller
from kueue_flux.runtime.manager import Manager
from kueue_flux.runtime.resource import Key, Object
from kueue_flux.runtime.store import Store

GATHER_SECONDS = 1.0
"""Numbers in a status may be so much behind."""
NODES_SECONDS = 2.0
"""Nodes come and go several at a time."""

Enqueue = Callable[[str, str], None]


def add(manager: Manager, miniclusters: Store, cluster_queues: Store, local_queues: Store) -> "Waiting":
    """Watch what FluxSetups need, and add their controller.

    Args:
        manager: Runs it.
        miniclusters: Store of MiniClusters.
        cluster_queues: Store of ClusterQueues.
        local_queues: Store of LocalQueues.

    Returns:
        Which MiniClusters wait for a FluxSetup.
    """
    stores = Stores(
        setups=manager.watch(resources.FLUX_SETUPS, optional=True).store,
        nodes=manager.watch(resources.NODES, transform=resources.keep_node).store,
        namespaces=manager.watch(resources.NAMESPACES, transform=resources.keep_namespace).store,
        flavors=manager.watch(resources.FLAVORS, optional=True).store,
        cluster_queues=cluster_queues,
        local_queues=local_queues,
        priority_classes=manager.watch(resources.PRIORITY_CLASSES, optional=True).store,
    )
    counts = Counts()
    reconciler = SetupReconciler(manager.client, stores, counts, manager.recorder)
    controller = manager.controller("fluxsetup", reconciler.reconcile, workers=1)
    route(controller, stores, miniclusters, counts, reconciler.setups)
    return Waiting(stores, miniclusters, reconciler.setups)


def route(controller: Controller, stores: Stores, miniclusters: Store, counts: Counts, setups: Setups) -> None:
    """Say which FluxSetups an event concerns."""

    def everybody(delay: float = 0.0) -> None:
        for obj in stores.setups:
            controller.queue.add_after(("", obj["metadata"]["name"]), delay)

    def by_setup(old: Object | None, new: Object | None) -> None:
        if _differ(old, new, "spec", "deletionTimestamp"):
            everybody()  # the others may share its flavors, or wait for its namespaces
        if new is not None:
            controller.enqueue("", new["metadata"]["name"])

    def by_shared(old: Object | None, new: Object | None) -> None:
        if _differ(old, new, "spec", "value", "deletionTimestamp", "ownerReferences"):
            everybody()

    def by_queue(old: Object | None, new: Object | None) -> None:
        if _differ(old, new, "spec", "deletionTimestamp", "ownerReferences"):
            for name in _whose_queue(stores, setups, old, new):
                controller.enqueue("", name)
        elif new is not None and _differ(old, new, "status"):
            for name in owners(new).values():
                controller.queue.add_after(("", name), GATHER_SECONDS)

    def by_node(old: Object | None, new: Object | None) -> None:
        if _differ(old, new, "spec", "status", "labels"):
            everybody(NODES_SECONDS)

    def by_namespace(old: Object | None, new: Object | None) -> None:
        if _differ(old, new, "deletionTimestamp"):
            everybody()

    def by_minicluster(old: Object | None, new: Object | None) -> None:
        counts.observe(old, new)
        before, after = _counted(old), _counted(new)
        if before == after:
            return
        for key in {counted[0] for counted in (before, after) if counted}:
            for name in _counting(key, stores, setups):
                controller.queue.add_after(("", name), GATHER_SECONDS)

    stores.setups.subscribe(by_setup)
    for store in (stores.flavors, stores.priority_classes):
        store.subscribe(by_shared)
    for store in (stores.cluster_queues, stores.local_queues):
        store.subscribe(by_queue)
    stores.nodes.subscribe(by_node)
    stores.namespaces.subscribe(by_namespace)
    miniclusters.subscribe(by_minicluster)


def _whose_queue(stores: Stores, setups: Setups, *versions: Object | None) -> set[str]:
    """The names of the FluxSetups to which a ClusterQueue or LocalQueue belongs, or that want one in its place."""
    names: set[str] = set()
    for obj in versions:
        if obj is None:
            continue
        names |= set(owners(obj).values())
        if namespace := obj["metadata"].get("namespace"):
            names |= {setup.name for setup in setups if namespace in setup.namespaces}
        elif stores.setups.get("", obj["metadata"]["name"]) is not None:
            names.add(obj["metadata"]["name"])
    return names


def _counting(key: Key, stores: Stores, setups: Setups) -> Iterable[str]:
    """The names of the FluxSetups that count the MiniClusters of a LocalQueue."""
    queue = stores.local_queues.get(*key)
    if queue is not None:
        return owners(queue).values()
    claims = claimant(setups, key[0])
    return [claims.name] if claims else []


def _counted(obj: Object | None) -> tuple[Key, str] | None:
    key = queue_of(obj) if obj is not None else None
    return (key, stage_of(obj)) if obj is not None and key is not None else None


def _differ(old: Object | None, new: Object | None, *keys: str) -> bool:
    """Whether an object came, went, or differs in one of these fields, of its own or of its metadata."""
    if old is None or new is None:
        return True
    return any(_field(old, key) != _field(new, key) for key in keys)


def _field(obj: Object, key: str) -> Any:
    return obj.get(key, obj["metadata"].get(key))


class Waiting:
    """Which MiniClusters wait for a FluxSetup: those that name no queue, where one is to be made for them.

    Without it they would start beside the quota: Kueue gives its default queue only where that is there.

    Args:
        stores: What is watched for FluxSetups.
        miniclusters: Store of MiniClusters.
        setups: The FluxSetups.
    """

    def __init__(self, stores: Stores, miniclusters: Store, setups: Setups) -> None:
        self._stores = stores
        self._miniclusters = miniclusters
        self._setups = setups

    def obstacle(self, namespace: str) -> Signal | None:
        """Why a MiniCluster that names no queue must not be started in a namespace yet; None where it may."""
        if self._is_there(self._stores.local_queues.get(namespace, DEFAULT_QUEUE)):
            return None
        setup = claimant(self._setups, namespace)
        if setup is None or setup.spec.queue != DEFAULT_QUEUE:
            return None
        return Signal(
            WAITING_FOR_SETUP,
            f"FluxSetup {setup.name} claims this namespace, and its LocalQueue {DEFAULT_QUEUE} is not there yet: "
            f"kubectl describe fluxsetup {setup.name} says what it waits for",
        )

    def wake(self, enqueue: Enqueue) -> None:
        """Call `enqueue(namespace, name)` for each MiniCluster that may have waited long enough."""

        def by_queue(old: Object | None, new: Object | None) -> None:
            queue = new or old
            if queue and queue["metadata"]["name"] == DEFAULT_QUEUE and self._is_there(old) != self._is_there(new):
                self._wake(enqueue, {queue["metadata"]["namespace"]})

        def by_setup(old: Object | None, new: Object | None) -> None:
            if _differ(old, new, "spec", "deletionTimestamp"):
                self._wake(enqueue, None)

        self._stores.local_queues.subscribe(by_queue)
        self._stores.setups.subscribe(by_setup)

    @staticmethod
    def _is_there(queue: Object | None) -> bool:
        """Whether Kueue knows a LocalQueue as it is now: its webhook gives no other, and none that is held."""
        if queue is None or "deletionTimestamp" in queue["metadata"]:
            return False
        return queue["spec"].get("stopPolicy", "None") == "None" and is_seen(queue)

    def _wake(self, enqueue: Enqueue, namespaces: set[str] | None) -> None:
        for obj in self._miniclusters:
            meta = obj["metadata"]
            conditions = (obj.get("status") or {}).get("conditions") or []
            waits = any(each["reason"] == WAITING_FOR_SETUP for each in conditions)
            if waits and (namespaces is None or meta["namespace"] in namespaces):
                enqueue(meta["namespace"], meta["name"])
