"""Queues as the client reads them, with what a user may not read left out."""

import asyncio
from contextlib import aclosing, closing
from decimal import Decimal

import pytest

from kueue_flux.client import AsyncMiniClusters, Forbidden, MiniClusters, NotFound, State, Unavailable, queues
from kueue_flux.kueue.visibility import PAGE
from tests.client import queue_objects as made
from tests.client.objects import MINICLUSTERS, minicluster, running
from tests.client.queue_objects import (
    ALL_LOCAL_QUEUES,
    ALL_WORKLOADS,
    CLUSTER_QUEUES,
    COHORT,
    LOCAL_QUEUES,
    PENDING,
    WORKLOADS,
    a_queue,
    cluster_queue,
    local_queue,
    waiting,
)
from tests.client.server import Reply, failure, kubeconfig, listing

GONE = Reply("404 page not found", status=404)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(queues, "WATCH_SECONDS", 0.005)


async def test_a_queue_whole(server, client):
    a_queue(server)
    found = await client.queue("team-a")
    queue = found.queue
    assert (queue.name, queue.namespace, queue.cluster_queue) == ("team-a", "team", "science")
    assert (queue.cohort, queue.strategy, queue.state, queue.why) == ("all", "StrictFIFO", State.ACTIVE, "")
    (cpu,) = queue.shares
    assert (cpu.flavor, cpu.resource) == ("small", "cpu")
    assert (cpu.used, cpu.total, cpu.quota, cpu.borrowed, cpu.borrowable) == tuple(map(Decimal, (2, 5, 4, 1, 1)))
    assert [(entry.owner.name, entry.admitted_size) for entry in found.admitted] == [("runs", 2)]
    assert [(entry.owner.name, entry.position) for entry in found.waiting] == [("next", 1), ("later", 3)]
    assert found.unknown == ()


async def test_workloads_of_other_queues_are_not_in_it(server, client):
    a_queue(server)
    other = made.workload("other", queue="team-b")
    server.scripts["GET", WORKLOADS].clear()
    server.on("GET", WORKLOADS, listing(other, made.workload("next")))
    assert [entry.owner.name for entry in (await client.queue("team-a")).waiting] == ["next"]


@pytest.mark.parametrize("name", ["nope", "", "..", "a/b"])
async def test_a_queue_that_does_not_exist(server, client, name):
    server.on("GET", f"{LOCAL_QUEUES}/nope", failure(404, "not found", name="nope"))
    server.on("GET", LOCAL_QUEUES, listing(local_queue("team-b"), local_queue("team-a")))
    with pytest.raises(NotFound, match=r"there is no LocalQueue .* in namespace team; there are: team-a, team-b"):
        await client.queue(name)


async def test_a_namespace_without_queues(server, client):
    server.on("GET", LOCAL_QUEUES, listing())
    with pytest.raises(NotFound, match="there are none: ask your cluster's admin"):
        await client.queue("team-a")
    assert await client.list_queues() == ()


async def test_a_cluster_without_kueue(client):
    for asked in (client.queue("team-a"), client.list_queues(), client.overview()):
        with pytest.raises(NotFound, match="Kueue is not installed"):
            await asked


async def test_who_may_not_read_queues_is_told_so(server, client):
    server.on("GET", f"{LOCAL_QUEUES}/team-a", failure(403, "cannot get localqueues"))
    with pytest.raises(Forbidden, match="cannot get localqueues"):
        await client.queue("team-a")


@pytest.mark.parametrize(
    ("path", "answer", "unknown"),
    [
        (f"{CLUSTER_QUEUES}/science", failure(403, "no"), "quota of ClusterQueue science: it may not be read"),
        (f"{CLUSTER_QUEUES}/science", Reply(cluster_queue("science")), "what cohort all could lend: it may not be"),
    ],
)
async def test_who_may_not_list_cluster_queues_sees_what_is_permitted(server, client, path, answer, unknown):
    a_queue(server)
    server.scripts["GET", CLUSTER_QUEUES].clear()
    server.on("GET", CLUSTER_QUEUES, failure(403, "no"))
    server.on("GET", path, answer)
    found = await client.queue("team-a")
    (cpu,) = found.queue.shares
    assert (cpu.used, cpu.borrowable) == (Decimal(2), None)
    (said,) = found.unknown
    assert said.startswith(unknown)
    assert [entry.position for entry in found.waiting] == [1, 3]


@pytest.mark.parametrize(
    ("cohort", "borrowable", "unknown"),
    [
        (GONE, Decimal(1), []),
        (failure(403, "no"), None, ["what cohort all could lend: it may not be read, or not all of its ClusterQueues"]),
        (Reply({"spec": {"parentName": "top"}}), None, ["what cohort all could lend: it is part of another"]),
    ],
)
async def test_what_a_cohort_could_lend(server, client, cohort, borrowable, unknown):
    a_queue(server)
    server.scripts["GET", COHORT].clear()
    server.on("GET", COHORT, cohort)
    found = await client.queue("team-a")
    assert (found.queue.shares[0].borrowable, list(found.unknown)) == (borrowable, unknown)


async def test_a_cluster_queue_that_is_not_there(server, client):
    a_queue(server)
    server.scripts["GET", CLUSTER_QUEUES].clear()
    server.on("GET", CLUSTER_QUEUES, listing())
    assert (await client.queue("team-a")).unknown == ("quota of ClusterQueue science: there is none of that name",)


@pytest.mark.parametrize("answer", [failure(403, "forbidden to you"), GONE, failure(503, "starting")])
async def test_where_kueue_does_not_tell_positions(server, client, answer):
    a_queue(server)
    server.scripts["GET", PENDING].clear()
    server.on("GET", PENDING, answer)
    found = await client.queue("team-a")
    # By priority, then by age.
    assert [(entry.owner.name, entry.position) for entry in found.waiting] == [("later", None), ("next", None)]
    (said,) = found.unknown
    assert said.startswith("positions in queue team-a: ")


async def test_who_may_not_read_workloads_sees_the_order(server, client):
    a_queue(server)
    server.scripts["GET", WORKLOADS].clear()
    server.on("GET", WORKLOADS, failure(403, "cannot list workloads"))
    found = await client.queue("team-a")
    assert [(entry.owner.name, entry.position, entry.size) for entry in found.waiting] == [
        ("next", 1, None),
        ("later", 3, None),
    ]
    assert found.admitted == ()
    assert found.unknown == ("what is admitted, and what each asks for: cannot list workloads",)


async def test_positions_come_page_by_page(server, client):
    a_queue(server)
    server.scripts["GET", PENDING].clear()
    full = [waiting(f"w{number}", number) for number in range(PAGE)]
    server.on("GET", PENDING, Reply({"items": full}), Reply({"items": [waiting("next", PAGE)]}))
    found = await client.queue("team-a")
    assert {entry.owner.name: entry.position for entry in found.waiting} == {"next": PAGE, "later": None}
    assert [query["offset"] for method, path, query in server.requests if path == PENDING] == ["0", str(PAGE)]


async def test_nobody_is_asked_for_positions_where_nothing_waits(server, client):
    a_queue(server)
    server.scripts["GET", WORKLOADS].clear()
    server.on("GET", WORKLOADS, listing(made.workload("runs", admitted=2)))
    server.scripts["GET", f"{LOCAL_QUEUES}/team-a"].clear()
    server.on("GET", f"{LOCAL_QUEUES}/team-a", Reply(local_queue("team-a", pending=0)))
    await client.queue("team-a")
    assert server.asked("GET", PENDING) == 0


@pytest.mark.parametrize(
    ("local", "cluster", "state", "why"),
    [
        ({"stop": "Hold"}, {}, State.HELD, "its stopPolicy is Hold"),
        ({"stop": "HoldAndDrain"}, {}, State.DRAINED, "its stopPolicy is HoldAndDrain"),
        ({}, {"stop": "Hold"}, State.HELD, "the stopPolicy of ClusterQueue science is Hold"),
        ({}, {"inactive": "flavor large is missing"}, State.INACTIVE, "flavor large is missing"),
        ({"inactive": "no ClusterQueue"}, {}, State.INACTIVE, "no ClusterQueue"),
    ],
)
async def test_why_a_queue_admits_nothing(server, client, local, cluster, state, why):
    server.on("GET", LOCAL_QUEUES, listing(local_queue("team-a", **local)))
    server.on("GET", CLUSTER_QUEUES, listing(cluster_queue("science", cohort="", **cluster)))
    (queue,) = await client.list_queues()
    assert (queue.state, queue.why) == (state, why)


async def test_all_namespaces(server, client):
    there = local_queue("team-a", namespace="there")
    server.on("GET", ALL_LOCAL_QUEUES, listing(there, local_queue("team-b"), local_queue("team-a")))
    server.on("GET", CLUSTER_QUEUES, listing(cluster_queue("science", cohort="")))
    found = await client.list_queues(all_namespaces=True)
    assert [(queue.namespace, queue.name) for queue in found] == [
        ("team", "team-a"),
        ("team", "team-b"),
        ("there", "team-a"),
    ]


async def test_the_overview(server, client):
    a_queue(server)
    server.on("GET", LOCAL_QUEUES, listing(local_queue("team-a")))
    alone = minicluster("alone")
    runs = {**running(), "metadata": {**running()["metadata"], "name": "runs"}}
    runs["status"]["workload"] = "job-runs"
    server.on("GET", MINICLUSTERS, listing(alone, runs))
    found = await client.overview()
    assert [queue.name for queue in found.queues] == ["team-a"]
    assert [(status.name, entry and entry.admitted_size) for status, entry in found.running] == [("runs", 2)]
    assert [entry.owner.name for entry in found.waiting] == ["next", "later"]


async def test_the_overview_of_all_namespaces(server, client):
    a_queue(server)
    server.on("GET", ALL_LOCAL_QUEUES, listing(local_queue("team-a")))
    server.on("GET", ALL_WORKLOADS, listing(made.workload("next")))
    server.on("GET", "/apis/flux-framework.org/v1alpha2/miniclusters", failure(403, "cannot list miniclusters"))
    found = await client.overview(all_namespaces=True)
    assert [entry.position for entry in found.waiting] == [1]
    assert found.unknown == ("MiniClusters: cannot list miniclusters",)


async def test_watching_yields_changes_alone_and_outlasts_an_outage(server, client):
    a_queue(server)
    one, two = (local_queue("team-a", pending=count) for count in (2, 3))
    server.scripts["GET", f"{LOCAL_QUEUES}/team-a"].clear()
    server.on("GET", f"{LOCAL_QUEUES}/team-a", *map(Reply, (one, one)), failure(503, "away"), Reply(one), Reply(two))
    outages = []
    async with asyncio.timeout(10), aclosing(client.watch_queue("team-a", on_outage=outages.append)) as states:
        assert [(await anext(states)).queue.pending for _ in range(2)] == [2, 3]
    assert [str(error) for error in outages] == ["the API server answers 503: away; try again in a moment"]


async def test_watching_what_cannot_be_read_at_first(server, client):
    server.on("GET", f"{LOCAL_QUEUES}/team-a", failure(503, "away"))
    with pytest.raises(Unavailable):
        await anext(client.watch_queue("team-a"))


async def test_where_quota_comes_from(server, client):
    server.on("GET", f"{WORKLOADS}/job-runs", Reply(made.workload("runs", admitted=2)))
    server.on("GET", f"{CLUSTER_QUEUES}/science", Reply(cluster_queue("science")))
    grant = await client.grant("job-runs")
    assert (grant.cluster_queue, grant.flavors, grant.cohort) == ("science", ("small",), "all")
    assert grant.borrowed == {"cpu": Decimal(1)}


async def test_where_quota_comes_from_without_the_cluster_queue(server, client):
    server.on("GET", f"{WORKLOADS}/job-runs", Reply(made.workload("runs", admitted=2)))
    server.on("GET", f"{CLUSTER_QUEUES}/science", failure(403, "no"))
    grant = await client.grant("job-runs")
    assert (grant.cluster_queue, grant.cohort, grant.borrowed) == ("science", "", {})


@pytest.mark.parametrize("answer", [failure(403, "no"), GONE, failure(503, "no"), Reply(made.workload("runs"))])
async def test_where_quota_comes_from_is_not_known(server, client, answer):
    server.on("GET", f"{WORKLOADS}/job-runs", answer)
    assert await client.grant("job-runs") is None
    assert await client.grant("") is None


async def test_without_an_event_loop(server, tmp_path):
    a_queue(server)
    server.on("GET", LOCAL_QUEUES, listing(local_queue("team-a")))
    server.on("GET", MINICLUSTERS, listing())
    config = kubeconfig(tmp_path / "kubeconfig", server.url)

    def look():
        with MiniClusters(kubeconfig=config) as client:
            with closing(client.watch_queue("team-a")) as states:
                pending = next(states).queue.pending
            return (
                client.queue("team-a").queue.name,
                [queue.name for queue in client.list_queues()],
                len(client.overview().waiting),
                pending,
            )

    assert await asyncio.to_thread(look) == ("team-a", ["team-a"], 2, 2)


def test_both_clients_have_the_same_calls():
    for name in ("list_queues", "queue", "overview", "watch_queue", "watch_overview", "grant"):
        assert getattr(MiniClusters, name).__wrapped__ is getattr(AsyncMiniClusters, name)
