import asyncio

import pytest

from kueue_flux.client import Deleted, Forbidden, NotStarted, Refused, Unavailable
from tests.client.objects import (
    MINICLUSTERS,
    PODS,
    failed,
    lead,
    line,
    log_path,
    minicluster,
    queued,
    running,
    succeeded,
)
from tests.client.server import Reply, event, failure, listing, watch

ONE = f"{MINICLUSTERS}/hello"


async def read(client, follow=True):
    async with asyncio.timeout(5):
        return [text async for text in client.logs("hello", follow=follow)]


def asks_for_logs(server, uid):
    return [query for _, path, query in server.requests if path == log_path(uid)]


@pytest.fixture(autouse=True)
def minicluster_exists(server):
    server.on("GET", ONE, Reply(queued()))


async def test_the_log_of_the_lead_is_read_from_its_flux_container(server, client):
    server.on("GET", PODS, listing(lead("a", "terminated")))
    server.on("GET", log_path("a"), Reply(line(1, "one") + line(1, "two words") + line(2, "")))
    assert await read(client, follow=False) == ["one", "two words", ""]
    (query,) = asks_for_logs(server, "a")
    assert query["container"] == "flux"
    assert "follow" not in query
    selectors = [query["labelSelector"] for _, path, query in server.requests if path == PODS]
    assert selectors == ["batch.kubernetes.io/job-completion-index=0,flux-framework.org/minicluster-uid=uid-hello"]


async def test_output_is_bytes_and_only_newlines_end_a_line(server, client):
    stamp = b"2030-01-31T12:00:01.000000000Z "
    server.on("GET", PODS, listing(lead("a", "terminated")))
    server.on("GET", log_path("a"), Reply(stream=[stamp + b"10%\r20%", b"\xff\x0c\n", stamp + b"no end"]))
    assert [text async for text in client.raw_logs("hello")] == [b"10%\r20%\xff\x0c", b"no end"]


@pytest.mark.parametrize("pods", [[], [lead("a", "waiting")]])
async def test_without_follow_no_output_yet_is_an_error_that_says_why(server, client, pods):
    server.on("GET", PODS, listing(*pods))
    with pytest.raises(NotStarted, match="insufficient unused quota"):
        await read(client, follow=False)


async def test_following_waits_for_the_pod_and_its_container(server, client):
    server.on("GET", MINICLUSTERS, listing(queued()))
    server.on("GET", PODS, listing(version="1"))
    started = asyncio.Event()
    server.on(
        "WATCH",
        PODS,
        watch(event("ADDED", lead("a", "waiting", 2)), started, event("MODIFIED", lead("a", "running", 3))),
    )
    server.on("WATCH", MINICLUSTERS, watch(event("MODIFIED", running()), started, event("MODIFIED", succeeded())))
    server.on("GET", f"{PODS}/hello-0-a", Reply(lead("a", "terminated")))
    # A kubelet that lags behind says that the container is waiting to start.
    waiting = failure(400, 'container "flux" in pod "hello-0-a" is waiting to start: ContainerCreating')
    server.on("GET", log_path("a"), waiting, Reply(line(1, "one")))
    reading = asyncio.create_task(read(client))
    await server.until(lambda: bool(server.watched(PODS)))
    assert asks_for_logs(server, "a") == []
    started.set()
    assert await reading == ["one"]


async def test_a_broken_stream_is_resumed_and_no_line_comes_twice(server, client):
    server.on("GET", MINICLUSTERS, listing(running()))
    server.on("GET", PODS, listing(lead("a", "running")))
    server.on("WATCH", MINICLUSTERS, watch(event("MODIFIED", succeeded())))
    server.on("GET", f"{PODS}/hello-0-a", *[Reply(lead("a", "running"))] * 3, Reply(lead("a", "terminated")))
    first, second, third = line(1, "one", 5), line(2, "two", 7), line(2, "two", 7)
    server.on(
        "GET",
        log_path("a"),
        Reply(stream=[first + second, ConnectionError]),
        # Cut once more, among the lines that were seen before.
        Reply(stream=[second, third, ConnectionError]),
        Reply(stream=[second, ConnectionError]),
        Reply(line(2, "two", 7) + third + line(2, "two", 9) + line(3, "three")),
        Reply(line(3, "three") + line(3, "four")),
    )
    assert await read(client) == ["one", "two", "two", "two", "three", "four"]
    asked = asks_for_logs(server, "a")
    assert [query.get("sinceTime", "")[11:] for query in asked] == [
        "", "12:00:02Z", "12:00:02Z", "12:00:02Z", "12:00:03Z",
    ]  # fmt: skip
    assert "follow" not in asked[-1]


async def test_following_goes_on_with_the_pod_that_replaces_an_evicted_one(server, client):
    server.on("GET", MINICLUSTERS, listing(running(), version="1"))
    server.on("GET", PODS, listing(lead("a", "running"), version="1"), listing(lead("b", "terminated", 7)))
    evicted, over = asyncio.Event(), asyncio.Event()
    later = {"created": "2030-01-31T12:05:00Z"}
    server.on(
        "WATCH",
        PODS,
        watch(
            evicted,
            event("DELETED", lead("a", "terminated", 3)),
            event("ADDED", lead("b", "waiting", 4, **later)),
            event("MODIFIED", lead("b", "running", 5, **later)),
            over,
        ),
    )
    server.on(
        "WATCH", MINICLUSTERS, watch(evicted, event("MODIFIED", queued(4)), over, event("MODIFIED", succeeded(9)))
    )
    server.on("GET", f"{PODS}/hello-0-a", failure(404, "gone", name="hello-0-a"))
    server.on("GET", f"{PODS}/hello-0-b", Reply(lead("b", "terminated")))
    server.on("GET", log_path("a"), Reply(line(1, "first try")), failure(404, "gone", name="hello-0-a"))
    server.on("GET", log_path("b"), Reply(line(9, "second try")))
    reading = asyncio.create_task(read(client))
    await server.until(lambda: len(asks_for_logs(server, "a")) >= 2)
    evicted.set()
    await server.until(lambda: len(asks_for_logs(server, "b")) >= 2)
    over.set()
    assert await reading == ["first try", "second try"]


async def test_the_lead_of_a_short_command_is_not_missed(server, client):
    """The MiniCluster's watch may run ahead of the pods': it has finished, the pod seems not yet started."""
    server.on("GET", MINICLUSTERS, listing(succeeded()))
    server.on("GET", PODS, listing(lead("a", "waiting")), listing(lead("a", "terminated")))
    server.on("GET", f"{PODS}/hello-0-a", Reply(lead("a", "terminated")))
    server.on("GET", log_path("a"), Reply(line(1, "short")))
    assert await read(client) == ["short"]


async def test_following_ends_with_a_minicluster_that_never_started(server, client):
    server.on("GET", MINICLUSTERS, listing(queued(), version="1"), listing())
    server.on("GET", PODS, listing())
    server.on("WATCH", MINICLUSTERS, watch(event("DELETED", queued(2))))
    with pytest.raises(Deleted, match="before it had any output"):
        await read(client)


REFUSED = minicluster("hello", ("Accepted", "False", "InvalidSpec", "size is 0"))


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(
    ("state", "error", "why"),
    [
        (REFUSED, Refused, r"is refused: size is 0 \(InvalidSpec\); delete it"),
        (failed(), NotStarted, "has ended, and no pod is left.*exited with code 3"),
    ],
)
async def test_why_there_will_be_no_output(server, client, state, error, why, follow):
    server.scripts["GET", ONE].clear()
    server.on("GET", ONE, Reply(state))
    server.on("GET", MINICLUSTERS, listing(state))
    server.on("GET", PODS, listing())
    with pytest.raises(error, match=why):
        await read(client, follow=follow)


async def test_following_ends_when_it_is_refused(server, client):
    server.scripts["GET", ONE].clear()
    server.on("GET", ONE, Reply(minicluster("hello")))
    server.on("GET", MINICLUSTERS, listing(minicluster("hello")))
    server.on("WATCH", MINICLUSTERS, watch(event("MODIFIED", REFUSED), asyncio.Event()))
    server.on("GET", PODS, listing())
    with pytest.raises(Refused, match="size is 0"):
        await read(client)


async def test_a_log_that_may_not_be_read_is_an_error(server, client):
    server.on("GET", MINICLUSTERS, listing(running()))
    server.on("GET", PODS, listing(lead("a", "running")))
    server.on("GET", log_path("a"), failure(403, "cannot get pods/log"))
    with pytest.raises(Forbidden, match="pods/log"):
        await read(client)


async def test_a_kubelet_that_cannot_give_the_log_is_asked_a_few_times(server, client):
    server.on("GET", MINICLUSTERS, listing(running()))
    server.on("GET", PODS, listing(lead("a", "running")))
    server.on("GET", f"{PODS}/hello-0-a", Reply(lead("a", "running")))
    server.on("GET", log_path("a"), failure(500, "the kubelet is away"))
    with pytest.raises(Unavailable, match="the kubelet is away"):
        await read(client)
    assert len(asks_for_logs(server, "a")) == 6


async def test_a_watch_that_may_not_go_on_ends_the_following(server, client):
    server.on("GET", MINICLUSTERS, listing(queued()))
    server.on("GET", PODS, failure(403, "cannot list pods"))
    with pytest.raises(Forbidden, match="cannot list pods"):
        await read(client)


async def test_following_ends_where_another_has_taken_the_name(server, client):
    another = running()
    another["metadata"]["uid"] = "another"
    server.on("GET", MINICLUSTERS, listing(another))
    server.on("GET", PODS, listing())
    with pytest.raises(Deleted):
        await read(client)
