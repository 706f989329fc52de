"""The client: what it sends, what it repeats, and what it makes of every kind of answer. In virtual time."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from kueue_flux.runtime.client import Client
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Resource
from tests.runtime.fake_api import JOBS, NODES, PODS, Cut, FakeApi, Reply, pod, refusal
from tests.runtime.fake_server import MemoryTransport, client_of
from tests.runtime.virtual_time import virtual


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(
    ("resource", "address", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("ns",), "/api/v1/namespaces/ns/pods"),
        (PODS, ("ns", "p"), "/api/v1/namespaces/ns/pods/p"),
        (JOBS, ("ns", "j", "status"), "/apis/batch/v1/namespaces/ns/jobs/j/status"),
        (NODES, (None, "n"), "/api/v1/nodes/n"),
        (PODS, ("ns", "../../nodes"), "/api/v1/namespaces/ns/pods/..%2F..%2Fnodes"),
    ],
)
def test_paths(resource: Resource, address: tuple[Any, ...], path: str) -> None:
    assert resource.path(*address) == path


@pytest.mark.parametrize("address", [(None, "p"), ("", "p"), ("ns", None, "status")])
def test_paths_that_make_no_sense(address: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="needs a"):
        PODS.path(*address)


@virtual
async def test_verbs() -> None:
    api = FakeApi()
    client = client_of(api)
    made = await client.create(PODS, pod("a", spec={"x": 1}))
    assert (await client.get(PODS, "a", "ns"))["metadata"]["uid"] == made["metadata"]["uid"]
    await client.merge_patch(PODS, "a", {"spec": {"x": None, "y": 2}}, "ns")
    assert api.collections["api/v1/pods"]["ns", "a"]["spec"] == {"y": 2}
    await client.json_patch(PODS, "a", [{"op": "test", "path": "/spec/y", "value": 2}], "ns")
    await client.apply(
        PODS, {"metadata": {"name": "a", "namespace": "ns"}, "status": {"phase": "x"}}, subresource="status"
    )
    await client.replace(PODS, await client.get(PODS, "a", "ns"))
    await client.delete(PODS, "a", "ns", uid=made["metadata"]["uid"], propagation="Foreground")
    with pytest.raises(ApiError) as gone:
        await client.delete(PODS, "a", "ns")
    assert gone.value.not_found
    kinds = [r.headers["Content-Type"] for r in api.asked("PATCH")]
    assert kinds == ["application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"]
    apply = api.asked("PATCH", "/status")[0]
    assert apply.query == {"fieldManager": "me", "force": "true"}
    assert (apply.body["apiVersion"], apply.body["kind"]) == ("v1", "Pod")
    assert api.asked("DELETE")[0].body == {
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": made["metadata"]["uid"]},
    }


@virtual
async def test_delete_collection_never_deletes_everything() -> None:
    api = FakeApi()
    with pytest.raises(ValueError, match="without a selector"):
        await client_of(api).delete_collection(PODS, "ns")
    await client_of(api).delete_collection(PODS, "ns", label_selector="a=b")
    assert api.asked("DELETE")[0].query == {"labelSelector": "a=b"}


@virtual
async def test_a_look_at_what_would_be_deleted_asks_for_metadata_and_for_a_dry_run() -> None:
    api = FakeApi()
    api.fail("DELETE", Reply(200, b'{"items": [{"metadata": {"name": "a"}}]}'))
    found = await client_of(api).would_delete(PODS, "ns", label_selector="a=b")
    assert found == [{"metadata": {"name": "a"}}]
    (request,) = api.asked("DELETE")
    assert (request.query, request.body) == ({"labelSelector": "a=b"}, {"dryRun": ["All"]})
    assert "as=PartialObjectMetadataList" in request.headers["Accept"]


@pytest.mark.parametrize(
    ("reply", "exists"), [(refusal(409, "AlreadyExists"), True), (Reply(201, b"{}"), False)], ids=["taken", "free"]
)
@virtual
async def test_whether_something_exists_is_asked_by_a_dry_run(reply: Any, exists: bool) -> None:
    api = FakeApi()
    api.fail("POST", reply)
    assert await client_of(api).exists(PODS, "a", "ns") is exists
    (request,) = api.asked("POST")
    assert request.query == {"dryRun": "All"}
    assert request.body == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "ns"}}


@virtual
async def test_what_may_not_be_created_may_or_may_not_exist() -> None:
    api = FakeApi()
    api.fail("POST", refusal(403, "Forbidden"))
    with pytest.raises(ApiError, match="Forbidden"):
        await client_of(api).exists(PODS, "a", "ns")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (refusal(404, "NotFound"), "not_found"),
        (refusal(409, "AlreadyExists"), "already_exists"),
        (refusal(409, "Conflict"), "conflict"),
        (refusal(410, "Expired"), "expired"),
        (Cut("reset"), "unreachable"),
    ],
)
@virtual
async def test_errors_say_what_to_do(reply: Any, expected: str) -> None:
    api = FakeApi()
    api.fail("GET", reply)
    with pytest.raises(ApiError) as raised:
        await client_of(api).get(PODS, "a", "ns")
    traits = ("not_found", "already_exists", "conflict", "expired", "unreachable")
    assert [t for t in traits if getattr(raised.value, t)] == [expected]
    assert "GET /api/v1/namespaces/ns/pods/a" in str(raised.value)
    assert len(api.requests) == 1, "none of these is for the client to repeat"


@pytest.mark.parametrize(
    ("body", "status", "reason", "message"),
    [
        pytest.param(b"<html>502 Bad Gateway</html>", 502, "Unknown", "<html>502 Bad Gateway</html>", id="a proxy"),
        pytest.param(b'["x"]', 500, "Unknown", "['x']", id="not a Status"),
        pytest.param(b"", 503, "Unknown", "", id="empty"),
        pytest.param(b'{"kind":"Po', 200, "BadResponse", "not JSON", id="cut off"),
        pytest.param(b"[]", 200, "BadResponse", "not a JSON object", id="not an object"),
    ],
)
@virtual
async def test_answers_that_are_no_kubernetes(body: bytes, status: int, reason: str, message: str) -> None:
    api = FakeApi()
    api.fail("GET", Reply(status, body))
    with pytest.raises(ApiError) as raised:
        await client_of(api).get(PODS, "a", "ns")
    assert raised.value.reason == reason
    assert message in raised.value.message
    assert raised.value.status == (status if status != 200 else 0)


@pytest.mark.parametrize("status", [429, 503])
@virtual
async def test_retry_after_is_respected(status: int) -> None:
    api = FakeApi()
    api.put(PODS, pod("a"))
    api.fail("GET", refusal(status, "TooManyRequests", Retry_After="7"), times=2)
    await client_of(api).get(PODS, "a", "ns")
    first, second, third = (request.at for request in api.requests)
    assert 7 <= second - first <= 7.8
    assert 7 <= third - second <= 7.8


@pytest.mark.parametrize(
    ("header", "requests"),
    [
        pytest.param({"Retry_After": "1"}, 6, id="at most five times again"),
        pytest.param({"Retry_After": "3600"}, 1, id="a long wait is the caller's"),
        pytest.param({}, 1, id="not without being asked to"),
    ],
)
@virtual
async def test_retries_are_bounded(header: dict[str, str], requests: int) -> None:
    api = FakeApi()
    api.fail("GET", refusal(429, "TooManyRequests", **header), times=100)
    with pytest.raises(ApiError) as raised:
        await client_of(api).get(PODS, "a", "ns")
    assert raised.value.status == 429
    assert raised.value.retry_after == (float(header["Retry_After"]) if header else None)
    assert len(api.requests) == requests


@virtual
async def test_a_conflict_with_retry_after_is_not_repeated() -> None:
    api = FakeApi()
    api.fail("PUT", refusal(409, "Conflict", Retry_After="1"))
    with pytest.raises(ApiError):
        await client_of(api).replace(PODS, pod("a"))
    assert len(api.requests) == 1


@virtual
async def test_credentials_are_loaded_again_once_after_401() -> None:
    api = FakeApi()
    api.put(PODS, pod("a"))
    api.fail("GET", refusal(401, "Unauthorized"))
    client = client_of(api)
    await client.get(PODS, "a", "ns")
    assert len(api.requests) == 2
    api.fail("GET", refusal(401, "Unauthorized"), times=9)
    with pytest.raises(ApiError, match="Unauthorized"):
        await client.get(PODS, "a", "ns")
    assert len(api.requests) == 4


@virtual
async def test_a_server_that_does_not_answer() -> None:
    api = FakeApi()
    api.latency = 3600
    started = now()
    with pytest.raises(ApiError, match="no answer in 30 s") as raised:
        await client_of(api).get(PODS, "a", "ns")
    assert raised.value.unreachable
    assert now() - started == pytest.approx(30)


@virtual
async def test_requests_in_flight_are_limited_and_watches_not_counted() -> None:
    api = FakeApi()
    api.put(PODS, pod("a"))
    api.latency = 1.0
    client = client_of(api, max_in_flight=3)
    started = now()
    async with asyncio.TaskGroup() as group:
        for _ in range(9):
            group.create_task(client.get(PODS, "a", "ns"))
    assert now() - started == pytest.approx(3.0)
    async with asyncio.TaskGroup() as group:
        streams = [client.watch(PODS, resource_version="100", inactivity_seconds=5) for _ in range(5)]
        for stream in streams:
            group.create_task(anext(stream))
        api.latency = 0.0
        await asyncio.sleep(2)
        await client.get(PODS, "a", "ns")
        api.put(PODS, pod("b"))
    for stream in streams:
        await stream.aclose()


@virtual
async def test_writes_can_be_forbidden_reads_not() -> None:
    api = FakeApi()
    api.put(PODS, pod("a"))

    def forbid() -> None:
        raise ApiError(0, "LeadershipLost", "not the leader")

    client = client_of(api, before_write=forbid)
    await client.get(PODS, "a", "ns")
    for write in (
        client.create(PODS, pod("b")),
        client.apply(PODS, pod("b")),
        client.merge_patch(PODS, "a", {}, "ns"),
        client.delete(PODS, "a", "ns"),
        client.replace(PODS, pod("a")),
    ):
        with pytest.raises(ApiError, match="not the leader"):
            await write
    assert [r.verb for r in api.requests] == ["GET"]


@virtual
async def test_the_permission_to_write_is_asked_again_after_a_wait() -> None:
    """Throttled for seconds, a leader may be none by the time of the next try."""
    api = FakeApi()
    api.fail("POST", refusal(429, "TooManyRequests", Retry_After="5"))
    asked = []
    await client_of(api, before_write=lambda: asked.append(now())).create(PODS, pod("a"))
    assert len(asked) == 2


@virtual
async def test_watch_lines_survive_any_chunking() -> None:
    api = FakeApi()
    lines: list[bytes] = []
    async with aclosing(client_of(api).watch(PODS, resource_version="100")) as watch:
        reader = asyncio.create_task(_collect(watch, lines))
        await asyncio.sleep(0.1)
        big = b'{"type":"ADDED","object":{"x":"' + b"y" * 3_000_000 + b'"}}'
        raw = b'{"a":1}\n{"b":2}\n\n' + big + b"\n"
        for start in range(0, len(raw), 65_537):
            api.streams[0].send(raw[start : start + 65_537])
        api.streams[0].close()
        await reader
    assert lines == [b'{"a":1}', b'{"b":2}', big]


@virtual
async def test_watch_that_ends_in_a_line() -> None:
    api = FakeApi()
    lines: list[bytes] = []
    watch = client_of(api).watch(PODS, resource_version="100")
    reader = asyncio.create_task(_collect(watch, lines))
    await asyncio.sleep(0.1)
    api.streams[0].send(b'{"a":1}\n{"b":')
    api.streams[0].close()
    with pytest.raises(ApiError, match="middle of a line"):
        await reader
    assert lines == [b'{"a":1}']


@virtual
async def test_watch_refused() -> None:
    api = FakeApi()
    api.fail("WATCH", refusal(410, "Expired"))
    with pytest.raises(ApiError) as raised:
        await anext(client_of(api).watch(PODS, resource_version="1"))
    assert raised.value.expired


@virtual
async def test_a_watch_asks_for_new_credentials_after_401() -> None:
    api = FakeApi()
    api.fail("WATCH", refusal(401, "Unauthorized"))
    transport = MemoryTransport(api)
    with pytest.raises(ApiError, match="Unauthorized"):
        await anext(Client(transport).watch(PODS, resource_version="1"))
    assert transport.refreshes == 1


async def _collect(watch: Any, lines: list[bytes]) -> None:
    async for line in watch:
        lines.append(line)
