"""Health: what is wrong is named, and metrics are in Prometheus' format. Over real sockets."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kueue_flux.runtime.health import Check, HealthServer, report


@pytest.mark.parametrize(
    ("checks", "verbose", "healthy", "text"),
    [
        ({}, False, True, "ok"),
        ({"a": None}, False, True, "ok"),
        ({"a": None}, True, True, "[+]a ok\nreadyz check passed"),
        ({"a": None, "b": "broken"}, False, False, "[-]b failed: broken\nreadyz check failed"),
        ({"a": None, "b": "broken"}, True, False, "[+]a ok\n[-]b failed: broken\nreadyz check failed"),
    ],
)
def test_report(checks: dict[str, str | None], verbose: bool, healthy: bool, text: str) -> None:
    probes: dict[str, Check] = {name: lambda problem=problem: problem for name, problem in checks.items()}  # type: ignore[misc]
    assert report("readyz", probes, verbose) == (healthy, text)


@pytest.fixture
async def ready() -> dict[str, Check]:
    return {}


@pytest.fixture
async def url(ready: dict[str, Check]) -> AsyncIterator[str]:
    server = HealthServer("127.0.0.1", 0, {}, ready)
    await server.start()
    yield f"http://127.0.0.1:{server.port}"
    await server.stop()


async def test_paths(url: str, ready: dict[str, Check]) -> None:
    async with aiohttp.ClientSession() as http:
        async with http.get(url + "/readyz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")
        ready["late"] = lambda: "not yet"  # checks may be added while it runs
        async with http.get(url + "/readyz?verbose") as answer:
            assert (answer.status, await answer.text()) == (500, "[-]late failed: not yet\nreadyz check failed\n")
        async with http.get(url + "/healthz") as answer:
            assert answer.status == 200
        async with http.get(url + "/elsewhere") as answer:
            assert answer.status == 404


async def test_metrics_can_be_scraped(url: str) -> None:
    async with aiohttp.ClientSession() as http, http.get(url + "/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        families = {family.name: family for family in text_string_to_metric_families(await answer.text())}
    expected = {
        "rest_client_requests",
        "workqueue_depth",
        "controller_runtime_reconcile",
        "controller_runtime_reconcile_time_seconds",
        "leader_election_master_status",
        "process_resident_memory_bytes",
    }
    assert expected <= families.keys()
    labels = {label for family in families.values() for sample in family.samples for label in sample.labels}
    assert not labels & {"object", "uid", "key"}, "no label may grow with the number of objects"


async def test_a_taken_port_is_an_error() -> None:
    first = HealthServer("127.0.0.1", 0, {}, {})
    await first.start()
    second = HealthServer("127.0.0.1", first.port, {}, {})
    with pytest.raises(OSError, match="address already in use"):
        await second.start()
    await second.stop()
    await first.stop()
