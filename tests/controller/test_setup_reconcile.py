"""Turns of the FluxSetups' control loop: what is written, what goes wrong, what wakes it, and who waits for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kueue_flux.controller.setup import resources
from kueue_flux.controller.setup.counts import Counts, Stage
from kueue_flux.controller.setup.facts import Nodes, Setups
from kueue_flux.controller.setup.reconcile import KUEUE_SECONDS, RETRY_SECONDS, SetupReconciler, Stores
from kueue_flux.controller.setup.resources import FLUX_SETUPS
from kueue_flux.controller.setup.wiring import Waiting, route
from kueue_flux.runtime.controller import Controller, Result
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Object, Resource
from kueue_flux.runtime.store import Store
from tests import builders
from tests.controller.setups import NOW, node, setup_object

KEY = ("", "physics")


class Server:
    """The API server as far as a turn uses it: gives uids and versions, and fails by script.

    Attributes:
        writes: Each write as (verb, kind, name).
        fails: What a write meets, by (verb, kind).
    """

    def __init__(self) -> None:
        self.writes: list[tuple[str, str, str]] = []
        self.fails: dict[tuple[str, str], ApiError] = {}
        self.objects: dict[tuple[str, str], Object] = {}
        self._version = 100

    def _write(self, verb: str, kind: str, name: str) -> None:
        if error := self.fails.get((verb, kind)):
            raise error
        self.writes.append((verb, kind, name))

    def _store(self, obj: Object) -> Object:
        self._version += 1
        meta = {"uid": f"uid-{obj['kind']}", **obj["metadata"], "resourceVersion": str(self._version)}
        kept = {**obj, "metadata": meta}
        self.objects[obj["kind"], meta["name"]] = kept
        return kept

    async def create(self, resource: Resource, obj: Object) -> Object:
        self._write("create", resource.kind, obj["metadata"]["name"])
        return self._store(obj)

    async def merge_patch(self, resource: Resource, name: str, patch: Mapping[str, Any], namespace: str) -> Object:
        self._write("patch", resource.kind, name)
        found = self.objects[resource.kind, name]
        assert patch["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
        return self._store({**found, "spec": {**found["spec"], **patch.get("spec", {})}})

    async def delete(self, resource: Resource, name: str, namespace: str, *, uid: str) -> Object:
        self._write("delete", resource.kind, name)
        return {}

    async def apply(self, resource: Resource, obj: Object, *, subresource: str) -> Object:
        assert (resource, subresource) == (FLUX_SETUPS, "status")
        self._write("status", "FluxSetup", obj["metadata"]["name"])
        return self._store({**self.objects["FluxSetup", obj["metadata"]["name"]], "status": obj["status"]})


class World:
    """Stores, a server and what was told; a node and the namespaces are there."""

    def __init__(self, namespaces: tuple[str, ...] = ("physics",)) -> None:
        kinds = ("setups", "nodes", "namespaces", "flavors", "cluster_queues", "local_queues", "priority_classes")
        transforms = {"nodes": resources.keep_node, "namespaces": resources.keep_namespace}
        self.stores = Stores(
            **{kind: Store(transform=transforms[kind]) if kind in transforms else Store() for kind in kinds}
        )
        self.counts = Counts()
        self.miniclusters = Store()
        self.server = Server()
        self.told: list[tuple[str, str, str]] = []
        self.stores.nodes.observe(node("n1"))
        for name in namespaces:
            self.stores.namespaces.observe({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}})
        self.reconciler = SetupReconciler(
            self.server,  # type: ignore[arg-type]  # as much of a Client as a turn uses
            self.stores,
            self.counts,
            self,
            clock=lambda: NOW,
        )

    def event(self, regarding: Object, kind: str, reason: str, note: str, *, action: str) -> None:
        assert action
        self.told.append((kind, reason, note))

    def submit(self, name: str = "physics", **spec: Any) -> None:
        obj = setup_object(name, **spec)
        self.server.objects["FluxSetup", name] = obj
        self.stores.setups.observe(obj)

    async def turn(self) -> Result | None:
        return await self.reconciler.reconcile(KEY)

    def condition(self, kind: str) -> tuple[str, str, str]:
        conditions = self.stores.setups.get(*KEY)["status"]["conditions"]  # type: ignore[index]
        (found,) = [each for each in conditions if each["type"] == kind]
        return found["status"], found["reason"], found["message"]


async def test_two_turns_and_then_nothing() -> None:
    world = World()
    world.submit()
    await world.turn()
    assert world.server.writes == [
        ("create", "ResourceFlavor", "default-flavor"),
        ("create", "ClusterQueue", "physics"),
        ("create", "LocalQueue", "default"),
        ("status", "FluxSetup", "physics"),
    ]
    assert world.condition("Ready")[:2] == ("True", "Ready")
    assert await world.turn() == Result(None)
    assert len(world.server.writes) == 4


async def test_who_is_gone_or_going_is_left_alone() -> None:
    world = World()
    assert await world.turn() is None
    obj = setup_object()
    obj["metadata"]["deletionTimestamp"] = NOW.isoformat()
    world.stores.setups.observe(obj)
    assert await world.turn() is None
    assert world.server.writes == []


async def test_what_cannot_be_read_is_refused_with_an_event() -> None:
    world = World()
    flavor = {"name": "f", "quota": {"cpu": 1}, "lendingLimit": {"cpu": 2}}
    world.submit(cohort="c", flavors=[flavor])
    await world.turn()
    says = "spec.flavors[0].lendingLimit.cpu: 2 is more than the quota, 1; lend at most the quota"
    assert world.condition("Accepted") == ("False", "InvalidSpec", says)
    assert world.condition("Ready")[0] == "False"
    assert world.told == [("Warning", "InvalidSpec", says)]
    assert [verb for verb, _, _ in world.server.writes] == ["status"]


WEBHOOK = ApiError(500, "InternalError", 'failed calling webhook "mclusterqueue.kb.io": connection refused')


@pytest.mark.parametrize(
    ("fails", "error", "reason", "says", "again"),
    [
        (
            "ResourceFlavor",
            ApiError(404, "NotFound", "404 page not found"),
            "KueueNotReady",
            "install Kueue",
            RETRY_SECONDS,
        ),
        ("ClusterQueue", WEBHOOK, "KueueNotReady", "Kueue does not answer", KUEUE_SECONDS),
        (
            "ClusterQueue",
            ApiError(403, "Forbidden", "denied by policy"),
            "Refused",
            "the API server refuses ClusterQueue physics: denied by policy",
            RETRY_SECONDS,
        ),
    ],
)
async def test_what_does_not_work_is_said_and_tried_again(
    fails: str, error: ApiError, reason: str, says: str, again: float
) -> None:
    world = World()
    world.submit()
    world.server.fails["create", fails] = error
    assert await world.turn() == Result(again)
    assert world.condition("Accepted")[0] == "True"
    status, found, message = world.condition("Ready")
    assert (status, found) == ("False", reason)
    assert says in message
    assert ("Warning", reason) in [(kind, why) for kind, why, _ in world.told]
    world.server.fails.clear()
    await world.turn()
    assert world.condition("Ready")[:2] == ("True", "Ready")


async def test_what_is_refused_of_one_does_not_hold_up_the_others() -> None:
    world = World()
    world.submit(priorities={"high": 1})
    world.server.fails["create", "WorkloadPriorityClass"] = ApiError(403, "Forbidden", "no")
    await world.turn()
    assert ("create", "LocalQueue", "default") in world.server.writes
    assert world.condition("Ready")[1] == "Refused"


@pytest.mark.parametrize(
    "error", [ApiError(0, "Timeout", "no answer"), ApiError(409, "AlreadyExists", "x"), ApiError(409, "Conflict", "x")]
)
async def test_a_passing_fault_is_the_work_queues(error: ApiError) -> None:
    world = World()
    world.submit()
    world.server.fails["create", "ClusterQueue"] = error
    with pytest.raises(ApiError):
        await world.turn()
    world.server.fails.clear()
    await world.turn()
    assert world.condition("Ready")[:2] == ("True", "Ready")


async def test_a_status_that_somebody_was_faster_with_is_left_to_the_next_turn() -> None:
    world = World()
    world.submit()
    world.server.fails["status", "FluxSetup"] = ApiError(409, "Conflict", "modified")
    await world.turn()
    assert world.told == []
    world.server.fails["status", "FluxSetup"] = ApiError(500, "InternalError", "x")
    with pytest.raises(ApiError):
        await world.turn()


async def test_nodes_that_come_give_more() -> None:
    world = World()
    world.submit()
    await world.turn()
    world.stores.nodes.observe({**node("n2"), "metadata": {**node("n2")["metadata"], "resourceVersion": "2"}})
    await world.turn()
    assert world.server.writes[-2:] == [("patch", "ClusterQueue", "physics"), ("status", "FluxSetup", "physics")]
    assert world.stores.setups.get(*KEY)["status"]["usage"] == "cpu 0/32, memory 0/128Gi"  # type: ignore[index]


async def test_nodes_are_read_by_kind_and_again_only_when_one_has_changed() -> None:
    world = World()
    stores = world.stores
    for name, labels in (("n2", {"gpu": "a", "name": "n2"}), ("n3", {"gpu": "a", "name": "n3"})):
        stores.nodes.observe(node(name, labels=labels))
    nodes = Nodes(stores.nodes, stores.flavors, world.reconciler.setups)
    assert [(each.count, each.labels) for each in nodes.read()] == [(3, {})]
    world.submit(flavors=[{"name": "gpu", "nodeLabels": {"gpu": "a"}}])
    found = nodes.read()
    assert [(each.count, each.labels) for each in found] == [(1, {}), (2, {"gpu": "a"})]
    assert found[1].allocatable["cpu"] == 32
    stores.nodes.observe(newer(node("n2", labels={"gpu": "a", "name": "n2"})))
    assert nodes.read() is found
    stores.nodes.observe(newer(newer(node("n2", labels={"gpu": "b", "name": "n2"}))))
    assert [(each.count, each.labels) for each in nodes.read()] == [(1, {}), (1, {"gpu": "b"}), (1, {"gpu": "a"})]
    stores.nodes.delete(newer(node("n3")))
    assert len(nodes.read()) == 2


async def test_what_keeps_pods_out_tells_nodes_apart() -> None:
    world = World()
    world.stores.nodes.observe(node("n2", unschedulable=True))
    world.stores.nodes.observe(node("n3", taints=[{"key": "k", "effect": "NoSchedule"}]))
    world.submit()
    await world.turn()
    assert world.stores.setups.get(*KEY)["status"]["usage"] == "cpu 0/16, memory 0/64Gi"  # type: ignore[index]


# -- counts


def minicluster(name: str = "hello", queue: str = "default", version: int = 1, **conditions: str) -> Object:
    """A MiniCluster in namespace physics, with conditions by type: a status, or `False/Reason`."""
    built = builders.minicluster(name).meta(namespace="physics", resourceVersion=str(version))
    for kind, text in conditions.items():
        status, _, reason = text.partition("/")
        built.condition(kind, status, reason)
    obj = built.obj()
    obj.setdefault("status", {})
    if queue:
        obj["status"]["queue"] = queue
    return obj


def test_miniclusters_are_counted_by_how_far_they_are() -> None:
    counts, store = Counts(), Store()
    store.subscribe(counts.observe)
    store.observe(minicluster("a", QuotaReserved="False"))
    store.observe(minicluster("b", version=2, Admitted="True"))
    store.observe(minicluster("c", version=3, Admitted="True", Ready="True"))
    store.observe(minicluster("d", version=4, Admitted="True", Finished="True"))
    store.observe(minicluster("e", "other", version=5, QuotaReserved="False"))
    store.observe(minicluster("f", "", version=6, QuotaReserved="False/WaitingForSetup"))
    store.observe(minicluster("g", "", version=7, QuotaReserved="True/NotQueued"))
    here = [("physics", "default")]
    assert counts.of(here) == {"waiting": 2, "admitted": 1, "running": 1, "finished": 1}
    assert counts.of([*here, ("physics", "other")])["waiting"] == 3
    store.observe(minicluster("a", version=8, Ready="True"))
    store.delete(minicluster("c", version=9, Admitted="True", Ready="True"))
    assert counts.of(here) == {"waiting": 1, "admitted": 1, "running": 1, "finished": 1}
    assert counts.of([]) == dict.fromkeys(map(str, Stage), 0)


# -- what wakes it


class Woken:
    """Keys that are to be worked on, with their delays."""

    def __init__(self, world: World) -> None:
        async def reconcile(key: tuple[str, str]) -> None:
            raise AssertionError("nobody works here")

        self.keys: list[tuple[str, float]] = []
        controller = Controller("test", reconcile)
        controller.enqueue = lambda _, name: self.keys.append((name, 0.0))  # type: ignore[method-assign]
        controller.queue.add_after = lambda key, delay: self.keys.append((key[1], delay))  # type: ignore[method-assign]
        route(controller, world.stores, world.miniclusters, world.counts, Setups(world.stores.setups))

    def by(self, happens: Callable[[], object]) -> set[str]:
        self.keys.clear()
        happens()
        return {name for name, _ in self.keys}


def newer(obj: Object, **fields: Any) -> Object:
    version = str(int(obj["metadata"]["resourceVersion"]) + 1000)
    return {**obj, **fields, "metadata": {**obj["metadata"], "resourceVersion": version}}


def somebodys(name: str, **fields: str) -> Object:
    """The metadata of an object that no FluxSetup has made."""
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "5", **fields}


async def test_what_wakes_whom() -> None:
    world = World()
    woken = Woken(world)
    assert woken.by(lambda: world.submit()) == {"physics"}
    assert woken.by(lambda: world.submit("biology")) == {"physics", "biology"}
    await world.turn()
    stores = world.stores
    queue = stores.cluster_queues.get("", "physics")
    assert queue
    beat = newer(node("n1"))
    beat["status"]["conditions"] = [{"type": "Ready", "lastHeartbeatTime": "2030-01-31T12:05:00Z"}]
    two = {"allocatable": {"cpu": "2"}}
    missing = {"metadata": {"name": "physics", "uid": "physics", "resourceVersion": "5"}}
    cases: list[tuple[Callable[[], object], set[str]]] = [
        (lambda: stores.nodes.observe(beat), set()),
        (lambda: stores.nodes.observe(newer(beat, status=two)), {"physics", "biology"}),
        (lambda: stores.namespaces.delete(missing), {"physics", "biology"}),
        (lambda: stores.cluster_queues.observe(newer(queue, status={"pendingWorkloads": 1})), {"physics"}),
        (lambda: stores.cluster_queues.observe(newer(newer(queue), spec={})), {"physics"}),
        (lambda: stores.cluster_queues.observe({**queue, "metadata": somebodys("biology")}), {"biology"}),
        (lambda: stores.cluster_queues.observe({**queue, "metadata": somebodys("chemistry")}), set()),
        (lambda: stores.local_queues.observe({"metadata": somebodys("q", namespace="biology")}), {"biology"}),
        (lambda: world.miniclusters.observe(minicluster(QuotaReserved="False")), {"physics"}),
        (lambda: world.miniclusters.observe(minicluster(version=2, QuotaReserved="False", x="True")), set()),
        (lambda: world.miniclusters.observe(minicluster("n", "", version=3)), set()),
    ]
    for number, (happens, expected) in enumerate(cases):
        assert woken.by(happens) == expected, number


# -- who waits for it


def local_queue(*, generation: int = 1, seen: int | None = 1, **spec: Any) -> Object:
    active = [{"type": "Active", "status": "True", "observedGeneration": seen}] if seen else []
    meta = {"name": "default", "namespace": "physics", "resourceVersion": "50", "uid": "q", "generation": generation}
    return {"metadata": meta, "spec": {"clusterQueue": "physics", **spec}, "status": {"conditions": active}}


@pytest.mark.parametrize(
    ("spec", "queue", "waits"),
    [
        (None, None, False),
        ({}, None, True),
        ({}, local_queue(), False),
        ({}, local_queue(seen=None), True),
        ({}, local_queue(generation=2), True),
        ({}, local_queue(stopPolicy="Hold"), True),
        ({"queue": "batch"}, None, False),
        ({"namespaces": ["elsewhere"]}, None, False),
        (None, local_queue(stopPolicy="Hold"), False),
    ],
    ids=["none", "no queue", "there", "unseen", "changed", "held", "another name", "elsewhere", "unclaimed"],
)
def test_who_names_no_queue_waits_for_the_one_that_is_to_come(
    spec: dict[str, Any] | None, queue: Object | None, waits: bool
) -> None:
    world = World()
    if spec is not None:
        world.submit(**spec)
    if queue is not None:
        world.stores.local_queues.observe(queue)
    found = Waiting(world.stores, world.miniclusters, world.reconciler.setups).obstacle("physics")
    assert (found is not None) is waits
    if found:
        assert found.reason == "WaitingForSetup"
        assert "FluxSetup physics claims this namespace, and its LocalQueue default is not there yet" in found.message


def test_and_is_woken_when_it_comes_or_the_setup_goes() -> None:
    world = World()
    world.submit()
    woken: list[tuple[str, str]] = []
    Waiting(world.stores, world.miniclusters, world.reconciler.setups).wake(lambda *key: woken.append(key))
    world.miniclusters.observe(minicluster("waits", "", QuotaReserved="False/WaitingForSetup"))
    world.miniclusters.observe(minicluster("runs", version=2, Ready="True"))
    world.stores.local_queues.observe(local_queue(seen=None))
    assert woken == []
    world.stores.local_queues.observe(newer(local_queue()))
    assert woken == [("physics", "waits")]
    world.stores.setups.delete(newer(setup_object()))
    assert woken == [("physics", "waits")] * 2
    other = local_queue()
    other["metadata"] |= {"namespace": "elsewhere", "resourceVersion": "9000"}
    world.stores.local_queues.observe(other)
    assert len(woken) == 2


async def test_the_status_has_the_counts() -> None:
    world = World()
    world.submit()
    for number in range(3):
        world.counts.observe(None, minicluster(f"m{number}", QuotaReserved="False"))
    await world.turn()
    assert world.stores.setups.get(*KEY)["status"]["waiting"] == 3  # type: ignore[index]
