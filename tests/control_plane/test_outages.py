"""The API server or Kueue away for a while: said so meanwhile, not hammered, and nothing lost."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kueue_flux.devcluster.control_plane import Cluster
from tests.control_plane.adapter import Adapter
from tests.control_plane.kit import Namespace, is_true, wait_for
from tests.control_plane.miniclusters import (
    PATIENCE,
    certificate,
    events,
    expect,
    minicluster,
    running,
    status,
    succeed,
    withdrawn,
)

OUTAGE_SECONDS = 30
RECOVERY = 45.0
"""Seconds: a watch that failed for long is tried again within twenty, and may then be refused once with a 403, since
a server that has just started knows of no RBAC yet."""
OTHERS = ("kube-controller-manager", "kube-scheduler", "kueue", "kwok")
KUEUE_JOB_WEBHOOKS = ("mjob.kb.io", "vjob.kb.io")


@contextmanager
def without(cluster: Cluster, process: str) -> Iterator[None]:
    """A process of the control plane is away for the `with` block, and answers again after it."""
    cluster.processes.stop(process, grace=0)
    try:
        yield
    finally:
        cluster.restart(process)


@contextmanager
def without_api_server(cluster: Cluster) -> Iterator[None]:
    """The API server is away for the `with` block; of its clients only the adapter has to live through it.

    The others are held: they would sit out their own back-off, up to a minute, before the test could go on.
    """
    for other in OTHERS:
        cluster.processes.signal(other, signal.SIGSTOP)
    try:
        with without(cluster, "kube-apiserver"):
            yield
    finally:
        for other in OTHERS:
            cluster.processes.signal(other, signal.SIGCONT)
        cluster.wait_ready("kueue")


def test_the_api_server_away_for_half_a_minute(cluster: Cluster, namespace: Namespace, adapter: Adapter):
    namespace.create(minicluster("runs"))
    running(namespace, "runs")
    before = certificate(namespace, "runs")
    namespace.create(minicluster("waits", size=3))
    expect(namespace, "QuotaReserved=False", "waits")
    pid = adapter.pid

    with without_api_server(cluster):
        away = time.monotonic()
        wait_for("readyz to say so", lambda: "watch-pods failed" in adapter.not_ready(), timeout=PATIENCE)
        asked = requests(adapter)
        time.sleep(max(0, OUTAGE_SECONDS - (time.monotonic() - away)))
        said, asked = adapter.not_ready(), requests(adapter) - asked
        assert adapter.runs
    assert "watch-pods failed: " in said
    assert "Unreachable" in said
    # four watches, each with a back-off from 0.8 s to 30 s, and now and then a position that somebody asks for
    assert asked <= 60, f"{asked:g} requests in {OUTAGE_SECONDS} s of outage"

    wait_for("the adapter to be ready again", lambda: not adapter.not_ready(), timeout=RECOVERY)
    assert adapter.pid == pid
    assert certificate(namespace, "runs") == before
    assert status(namespace, "runs")["admissions"] == 1
    succeed(namespace, "runs")
    running(namespace, "waits", 3)
    succeed(namespace, "waits")


def requests(adapter: Adapter) -> float:
    """How many requests the adapter has sent so far, answered or not."""
    return adapter.metric("rest_client_requests_total{")


def test_started_while_the_api_server_is_away_it_waits_for_it(cluster: Cluster, namespace: Namespace, adapter: Adapter):
    namespace.create(minicluster())
    running(namespace)
    with without_api_server(cluster):
        adapter.restart(wait=False)  # as the kubelet would, whether the API server is there or not
        wait_for("readyz to say so", lambda: "watch-pods failed" in adapter.not_ready(), timeout=PATIENCE)
    wait_for("the adapter to be ready", lambda: not adapter.not_ready(), timeout=RECOVERY)
    namespace.stop_queue("HoldAndDrain")
    withdrawn(namespace)
    namespace.stop_queue(None)
    running(namespace)
    succeed(namespace)


@pytest.mark.usefixtures("adapter")
def test_without_kueue_no_job_is_taken_and_that_is_said(cluster: Cluster, namespace: Namespace):
    with without(cluster, "kueue"):
        namespace.create(minicluster())
        namespace.create(minicluster("unqueued", queue=None))
        expect(namespace, "QuotaReserved=False/KueueNotReady", says="Kueue does not answer", timeout=15)
        expect(namespace, "QuotaReserved=False/KueueNotReady", "unqueued", timeout=15)
        expect(namespace, "Accepted=True/Accepted")
        assert namespace.all("Job") == []
        assert any(line.startswith("Warning KueueNotReady: ") for line in events(namespace))
    running(namespace)
    running(namespace, "unqueued")
    succeed(namespace)


@contextmanager
def lenient_webhooks(cluster: Cluster) -> Iterator[None]:
    """Let the API server take Jobs that Kueue's webhooks do not see."""
    changed = []
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for config in cluster.api.list("admissionregistration.k8s.io/v1", kind):
            hooks = [
                {**hook, "failurePolicy": "Ignore"} if hook["name"] in KUEUE_JOB_WEBHOOKS else hook
                for hook in config["webhooks"]
            ]
            if hooks != config["webhooks"]:
                cluster.api.patch(config, {"webhooks": hooks})
                changed.append(config)
    assert len(changed) == 2, "Kueue's webhooks for Jobs have other names"
    try:
        yield
    finally:
        for config in changed:
            cluster.api.patch(config, {"webhooks": config["webhooks"]})


@pytest.mark.usefixtures("adapter")
def test_a_workload_that_kueue_does_not_make_is_missed(cluster: Cluster, namespace: Namespace):
    with lenient_webhooks(cluster):
        with without(cluster, "kueue"):
            namespace.create(minicluster())
            expect(namespace, "QuotaReserved=False/WaitingForWorkload", says="Kueue has not made the Workload yet")
            started = time.monotonic()
            expect(namespace, "QuotaReserved=False/KueueNotReady", says="check that Kueue is installed", timeout=20)
            assert time.monotonic() - started < 15
            assert namespace.get("Job", "mc")["spec"]["suspend"] is True
        running(namespace)
    succeed(namespace)


@pytest.mark.usefixtures("adapter")
def test_kueue_away_while_it_runs_is_no_matter(cluster: Cluster, namespace: Namespace):
    namespace.create(minicluster())
    running(namespace)
    with without(cluster, "kueue"):
        succeed(namespace)
    # Kueue's webhooks see every change of a pod, so without it the Job controller cannot let go of those that ended
    withdrawn(namespace)
    namespace.wait_for("Kueue to know", lambda: is_true(namespace.workload("mc"), "Finished"), timeout=PATIENCE)
