import asyncio

import pytest

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.problems import InvalidMiniCluster
from kueue_flux.client import AlreadyExists, AsyncMiniClusters, Forbidden, MiniClusters, NotFound, Stage, WaitTimeout
from tests.client.objects import MINICLUSTERS, PODS, lead, line, log_path, minicluster, queued, running, succeeded
from tests.client.server import Reply, event, failure, kubeconfig, listing, watch

ONE = f"{MINICLUSTERS}/hello"
PENDING = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/team-a/pendingworkloads"
MANIFEST = {
    "apiVersion": "flux-framework.org/v1alpha2",
    "kind": "MiniCluster",
    "metadata": {"name": "hello"},
    "spec": {"size": 2, "containers": [{"image": "ubuntu", "command": "hostname"}]},
}


async def test_what_was_written_is_what_is_sent(server, client):
    server.on("POST", MINICLUSTERS, Reply(queued(), status=201))
    await client.submit(MANIFEST)
    assert server.bodies == [MANIFEST]
    assert server.requests[-1][2] == {"fieldManager": "kueue-flux-client", "fieldValidation": "Strict"}


async def test_a_model_is_sent_with_what_was_set(server, client):
    server.on("POST", MINICLUSTERS, Reply(queued(), status=201))
    await client.submit(MiniCluster.from_object(MANIFEST))
    assert server.bodies == [MANIFEST]


async def test_the_objects_own_namespace_wins(server, client):
    there = "/apis/flux-framework.org/v1alpha2/namespaces/there/miniclusters"
    server.on("POST", there, Reply(queued(), status=201))
    await client.submit({**MANIFEST, "metadata": {"name": "hello", "namespace": "there"}}, dry_run=True)
    assert server.requests[-1][2]["dryRun"] == "All"


async def test_an_invalid_minicluster_is_not_sent(server, client):
    with pytest.raises(InvalidMiniCluster, match=r"spec\.size"):
        await client.submit({**MANIFEST, "spec": {**MANIFEST["spec"], "size": 0}})
    assert server.requests == []


async def test_a_name_that_is_taken(server, client):
    server.on("POST", MINICLUSTERS, failure(409, '"hello" already exists', name="hello"))
    with pytest.raises(AlreadyExists, match="another name"):
        await client.submit(MANIFEST)


@pytest.mark.parametrize("name", ["", "a/b", "a?x=y", "..", "../jobs", "Upper"])
async def test_a_name_that_none_can_have_reaches_nothing_else(server, client, name):
    """An empty one would be the path of them all, and `..` that of something else."""
    server.on("DELETE", f"{MINICLUSTERS}/", Reply({}))
    with pytest.raises(NotFound, match="there is no MiniCluster"):
        await client.delete(name)
    assert server.requests == []


@pytest.mark.parametrize("namespace", ["", "a/b", "..", "Bad One"])
async def test_a_namespace_that_none_can_be_reaches_nothing_else(server, tmp_path, namespace):
    config = kubeconfig(tmp_path / "kubeconfig", server.url)
    async with AsyncMiniClusters(namespace, kubeconfig=config) as client:
        with pytest.raises(NotFound, match="there is no namespace"):
            await client.list()
        if namespace:
            with pytest.raises(NotFound, match="there is no namespace"):
                await client.submit({**MANIFEST, "metadata": {"name": "hello", "namespace": namespace}})
    assert server.requests == []


async def test_an_object_that_this_version_finds_invalid_can_be_read_all_the_same(server, client):
    odd = queued()
    odd["spec"] = {"size": -1, "novelty": True}
    server.on("GET", ONE, Reply(odd))
    server.on("GET", PENDING, Reply("404 page not found", status=404))
    assert (await client.get("hello"))["spec"]["novelty"] is True
    assert (await client.status("hello")).stage is Stage.QUEUED


async def test_the_position_comes_from_kueue_itself(server, client):
    server.on("GET", ONE, Reply(queued(queuePosition=9)))
    item = {"metadata": {"name": "job-hello"}, "positionInClusterQueue": 2, "positionInLocalQueue": 0}
    server.on("GET", PENDING, Reply({"items": [item]}))
    assert (await client.status("hello")).position == 2


async def test_who_is_directly_ahead_comes_from_kueue_too(server, client):
    server.on("GET", ONE, Reply(queued()))
    first = {"metadata": {"name": "job-first", "ownerReferences": [{"kind": "Job", "name": "first"}]}}
    item = {"metadata": {"name": "job-hello"}, "positionInClusterQueue": 4}
    server.on("GET", PENDING, Reply({"items": [first, item]}), Reply({"items": [item]}))
    assert (await client.status("hello")).behind == "first"
    assert (await client.status("hello")).behind == ""


@pytest.mark.parametrize(
    "answer", [failure(403, "no"), Reply("404 page not found", status=404), failure(503, "no"), Reply({"items": []})]
)
async def test_where_kueue_does_not_tell_the_position_is_the_controllers(server, client, answer):
    server.on("GET", ONE, Reply(queued(queuePosition=9)))
    server.on("GET", PENDING, answer)
    assert (await client.status("hello")).position == 9


async def test_one_request_a_queue_tells_all_positions(server, client):
    server.on("GET", ONE, Reply(queued()))
    server.on("GET", PENDING, Reply({"items": [{"metadata": {"name": "job-hello"}}]}))
    waiting = await client.status("hello")
    await client.with_positions([waiting] * 5)
    assert server.asked("GET", PENDING) == 2


async def test_no_position_is_asked_for_what_runs(server, client):
    server.on("GET", ONE, Reply(running()))
    assert (await client.status("hello")).position is None
    assert [path for _, path, _ in server.requests] == [ONE]


async def test_the_list_is_ordered_by_age(server, client):
    old, new = minicluster("zebra"), minicluster("ant")
    new["metadata"]["creationTimestamp"] = "2031-01-01T00:00:00Z"
    server.on("GET", "/apis/flux-framework.org/v1alpha2/miniclusters", listing(new, old))
    found = await client.list(all_namespaces=True)
    assert [item["metadata"]["name"] for item in found] == ["zebra", "ant"]


async def test_deletion_takes_the_pods_along(server, client):
    server.on("DELETE", ONE, Reply(queued()))
    await client.delete("hello")
    assert server.bodies[0]["propagationPolicy"] == "Foreground"


@pytest.mark.parametrize("call", ["get", "delete", "status"])
async def test_one_that_is_not_there(server, client, call):
    missing = failure(404, "not found", name="hello", kind="miniclusters")
    server.on("GET", ONE, missing)
    server.on("DELETE", ONE, missing)
    with pytest.raises(NotFound, match=r"no MiniCluster hello in namespace team; .* kueue-flux list -n team"):
        await getattr(client, call)("hello")


async def test_waiting_for_a_deletion(server, client):
    server.on("GET", MINICLUSTERS, listing(running()))
    deleted = asyncio.Event()
    server.on("WATCH", MINICLUSTERS, watch(deleted, event("DELETED", running(9))))
    with pytest.raises(WaitTimeout, match="still being deleted"):
        await client.wait_deleted("hello", timeout=0.05)
    deleted.set()
    await client.wait_deleted("hello", timeout=5)


async def test_events_come_in_the_order_of_time(server, client):
    def at(name, **times):
        return {"metadata": {"name": name, "creationTimestamp": "2030-01-01T00:00:09Z"}, **times}

    third = at("third", series={"lastObservedTime": "2030-01-01T00:00:08Z"}, eventTime="2030-01-01T00:00:01Z")
    first, second = at("first", eventTime="2030-01-01T00:00:02Z"), at("second", lastTimestamp="2030-01-01T00:00:03Z")
    server.on("GET", "/api/v1/namespaces/team/events", listing(at("fourth"), third, second, first))
    found = [item["metadata"]["name"] for item in await client.events("hello")]
    assert found == ["first", "second", "third", "fourth"]


async def test_events_of_a_predecessor_of_that_name_are_left_out(server, client):
    server.on("GET", "/api/v1/namespaces/team/events", listing())
    await client.events("hello", uid="u")
    assert server.requests[-1][2]["fieldSelector"].endswith("involvedObject.name=hello,involvedObject.uid=u")


async def test_the_queues_of_the_namespace(server, client):
    queues = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/localqueues"
    server.on("GET", queues, listing({"metadata": {"name": "b"}}, {"metadata": {"name": "a"}}), failure(403, "no"))
    assert await client.queues() == ("a", "b")
    with pytest.raises(Forbidden):
        await client.queues()


async def test_the_same_without_an_event_loop(server, tmp_path):
    """Also where the caller has a loop of its own, as a notebook does: this very test."""
    config = kubeconfig(tmp_path / "config", server.url)
    server.on("GET", ONE, Reply(running()))
    server.on("GET", MINICLUSTERS, listing(running()))
    server.on("WATCH", MINICLUSTERS, watch(event("MODIFIED", succeeded())))
    server.on("GET", PODS, listing(lead("a", "terminated")))
    server.on("GET", log_path("a"), Reply(line(1, "one") + line(1, "two")))

    def use():
        with MiniClusters(kubeconfig=config) as miniclusters:
            lines = list(miniclusters.logs("hello"))
            first = next(miniclusters.watch("hello"))["metadata"]["name"]
            result = miniclusters.wait("hello", timeout=5)
            with pytest.raises(NotFound):
                miniclusters.queues()
        miniclusters.close()
        return lines, first, result.exit_code

    assert await asyncio.to_thread(use) == (["one", "two"], "hello", 0)
