import asyncio
from contextlib import aclosing

import pytest

from kueue_flux.client import Deleted, Forbidden, NotFound, Refused, Unavailable, WaitTimeout
from kueue_flux.client.watch import states
from tests.client import objects
from tests.client.objects import MINICLUSTERS, minicluster, queued, running, succeeded
from tests.client.server import Reply, event, failure, gone, listing, watch


async def collect(client, until):
    """The versions of the one object that the states show, up to `until`."""
    seen, outages = [], []
    async with (
        asyncio.timeout(5),
        aclosing(states(client._connection, MINICLUSTERS, {}, on_outage=outages.append)) as stream,
    ):
        async for items in stream:
            seen.append([item["metadata"]["resourceVersion"] for item in items])
            if seen[-1] == until:
                return seen, outages
    raise AssertionError("the stream ended")


async def test_a_watch_goes_on_after_a_clean_close_from_where_it_was(server, client):
    server.on("GET", MINICLUSTERS, listing(queued(5), version="7"))
    server.on(
        "WATCH",
        MINICLUSTERS,
        watch(event("MODIFIED", running(8)), event("BOOKMARK", {"metadata": {"resourceVersion": "12"}})),
        watch(event("MODIFIED", succeeded(13))),
    )
    seen, outages = await collect(client, ["13"])
    assert seen == [["5"], ["8"], ["13"]]
    assert [query["resourceVersion"] for query in server.watched(MINICLUSTERS)] == ["7", "12"]
    assert server.asked("GET", MINICLUSTERS) == 1
    assert outages == []


@pytest.mark.parametrize("answer", [watch(gone()), failure(410, "too old resource version")])
async def test_an_expired_version_is_listed_anew(server, client, answer):
    server.on("GET", MINICLUSTERS, listing(queued(5), version="7"), listing(succeeded(20), version="21"))
    server.on("WATCH", MINICLUSTERS, answer, watch(asyncio.Event()))
    seen, _ = await collect(client, ["20"])
    assert seen == [["5"], ["20"]]


async def test_what_was_deleted_while_away_is_gone_from_the_next_state(server, client):
    server.on("GET", MINICLUSTERS, listing(queued(5), version="7"), listing(version="21"))
    server.on("WATCH", MINICLUSTERS, watch(gone()), watch(asyncio.Event()))
    seen, _ = await collect(client, [])
    assert seen == [["5"], []]


@pytest.mark.parametrize(
    "fault",
    [
        watch(ConnectionError),
        watch('{"type": "MODI', ConnectionError),
        watch('{"type": "MODI'),
        failure(503, "starting"),
        failure(429, "slow down"),
    ],
)
async def test_a_fault_is_reported_and_the_watch_goes_on(server, client, fault):
    server.on("GET", MINICLUSTERS, listing(queued(5), version="7"))
    server.on("WATCH", MINICLUSTERS, fault, fault, watch(event("MODIFIED", succeeded(8))))
    seen, outages = await collect(client, ["8"])
    assert seen == [["5"], ["8"]]
    assert len(outages) == 2


async def test_the_first_list_must_succeed(server, client):
    server.on("GET", MINICLUSTERS, failure(503, "starting"))
    with pytest.raises(Unavailable):
        await collect(client, [])


async def test_a_403_is_final_and_asked_once(server, client):
    server.on("GET", MINICLUSTERS, failure(403, "cannot list"))
    with pytest.raises(Forbidden):
        await collect(client, [])
    assert server.asked("GET", MINICLUSTERS) == 1


async def test_a_403_elsewhere_leaves_a_watch_alone(server, client):
    server.on("GET", MINICLUSTERS, listing(queued(5), version="7"))
    go_on = asyncio.Event()
    server.on("WATCH", MINICLUSTERS, watch(go_on, event("MODIFIED", succeeded(8))))
    server.on("GET", "/api/v1/namespaces/team/events", failure(403, "no events for you"))
    watching = asyncio.create_task(collect(client, ["8"]))
    await server.until(lambda: bool(server.watched(MINICLUSTERS)))
    with pytest.raises(Forbidden):
        await client.events("hello")
    go_on.set()
    seen, outages = await watching
    assert seen == [["5"], ["8"]]
    assert outages == []
    assert len(server.watched(MINICLUSTERS)) == 1


async def test_a_server_that_ends_each_watch_at_once_is_not_asked_in_a_hot_loop(server, client, monkeypatch):
    monkeypatch.setattr("kueue_flux.client.watch.FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("kueue_flux.client.watch.LONGEST_PAUSE_SECONDS", 0.1)
    server.on("GET", MINICLUSTERS, listing(queued(5), version="7"))
    server.on("WATCH", MINICLUSTERS, watch())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await collect(client, ["8"])
    assert len(server.watched(MINICLUSTERS)) <= 8


async def test_a_long_list_is_read_page_by_page(server, client):
    first = Reply({"items": [queued(1)], "metadata": {"continue": "next", "resourceVersion": "9"}})
    second = minicluster("other", version=2)
    server.on("GET", MINICLUSTERS, first, listing(second, version="9"))
    assert [item["metadata"]["name"] for item in await client.list()] == ["hello", "other"]
    assert [query.get("continue") for _, _, query in server.requests] == [None, "next"]


async def test_wait_returns_the_result(server, client):
    server.on("GET", MINICLUSTERS, listing(queued(5), version="7"))
    server.on("WATCH", MINICLUSTERS, watch(event("MODIFIED", running(8)), event("MODIFIED", objects.failed(9))))
    result = await client.wait("hello", timeout=5)
    assert (result.succeeded, result.exit_code, result.reason) == (False, 3, "Failed")
    assert server.watched(MINICLUSTERS)[0]["fieldSelector"] == "metadata.name=hello"


async def test_wait_for_a_condition_returns_when_it_holds(server, client):
    server.on("GET", MINICLUSTERS, listing(queued(5), version="7"))
    server.on("WATCH", MINICLUSTERS, watch(event("MODIFIED", running(8)), asyncio.Event()))
    result = await client.wait("hello", "Ready", timeout=5)
    assert (result.succeeded, result.reason) == (None, "BrokersUp")


async def test_wait_for_a_condition_ends_with_the_command(server, client):
    server.on("GET", MINICLUSTERS, listing(objects.failed(5)))
    assert (await client.wait("hello", "Ready", timeout=5)).exit_code == 3


async def test_wait_survives_an_outage(server, client):
    server.on("GET", MINICLUSTERS, listing(queued(5), version="7"))
    broken = [watch(ConnectionError), *[failure(503, "away")] * 5, watch(gone())]
    server.on("WATCH", MINICLUSTERS, *broken, watch(event("MODIFIED", succeeded(8))))
    assert (await client.wait("hello", timeout=5)).succeeded is True


async def test_wait_times_out_and_says_where_it_stands(server, client):
    server.on("GET", MINICLUSTERS, listing(queued(5)))
    with pytest.raises(WaitTimeout, match="Queued, insufficient unused quota"):
        await client.wait("hello", timeout=3)


@pytest.mark.parametrize("reason", ["InvalidSpec", "UnsupportedField", "ConflictingController"])
async def test_wait_ends_where_nothing_more_will_happen(server, client, reason):
    server.on("GET", MINICLUSTERS, listing(minicluster("hello", ("Accepted", "False", reason, "because"))))
    with pytest.raises(Refused, match="because"):
        await client.wait("hello", timeout=5)


async def test_wait_goes_on_where_another_operator_was_seen_at_one_that_was_admitted(server, client):
    conflict = ("Accepted", "False", "ConflictingController", "manager writes its status")
    server.on("GET", MINICLUSTERS, listing(minicluster("hello", conflict, admissions=1)))
    server.on("WATCH", MINICLUSTERS, watch(event("MODIFIED", succeeded(8))))
    assert (await client.wait("hello", timeout=5)).succeeded is True


async def test_wait_goes_on_where_a_name_is_taken(server, client):
    taken = minicluster("hello", ("Accepted", "False", "NameTaken", "another Job has the name"))
    server.on("GET", MINICLUSTERS, listing(taken))
    server.on("WATCH", MINICLUSTERS, watch(event("MODIFIED", succeeded(8))))
    assert (await client.wait("hello", timeout=5)).succeeded is True


async def test_wait_tells_deleted_from_never_there(server, client):
    server.on("GET", MINICLUSTERS, listing(queued(5), version="7"), listing())
    server.on("WATCH", MINICLUSTERS, watch(event("DELETED", queued(8))))
    with pytest.raises(Deleted):
        await client.wait("hello", timeout=5)
    with pytest.raises(NotFound, match="namespace team"):
        await client.wait("hello", timeout=5)


async def test_another_of_the_same_name_is_not_the_one_waited_for(server, client):
    another = succeeded(30)
    another["metadata"]["uid"] = "other"
    server.on("GET", MINICLUSTERS, listing(queued(5), version="7"), listing(another, version="31"))
    server.on("WATCH", MINICLUSTERS, watch(gone()))
    with pytest.raises(Deleted):
        await client.wait("hello", timeout=5)
