"""Sidecars on real kubelets: they see Flux, serve it, fail beside it, and never keep a run from ending."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.kit import UNTIL_TOLD, Namespace, as_yaml, manifest

UNTIL_TOLD_LINE = f"sh -c '{UNTIL_TOLD[2]}'"

pytestmark = pytest.mark.extended


def spec_of(namespace: Namespace, command: str, *sidecars: dict[str, Any], size: int = 1) -> dict[str, Any]:
    """A MiniCluster's specification, with Flux in the image of each container that names none."""
    image = namespace.cluster.flux.reference
    return {
        "size": size,
        "tasks": size,
        "logging": {"quiet": True},
        "flux": {"container": {"disable": True}},
        "containers": [
            {"image": image, "runFlux": True, "command": command},
            *({"image": image, **sidecar} for sidecar in sidecars),
        ],
    }


def submit(namespace: Namespace, name: str, spec: dict[str, Any]) -> None:
    assert namespace.kueue_flux("submit", "-", stdin=as_yaml(manifest(name, spec))).code == 0


def log_of(namespace: Namespace, name: str, container: str) -> str:
    """What a container of the lead has printed."""
    return namespace.kubectl("logs", namespace.lead(name)["metadata"]["name"], "-c", container)


@pytest.mark.real_flux
def test_a_sidecar_watches_the_queue_by_flux_proxy(namespace: Namespace):
    watcher = {"name": "flux-queue", "command": "sleep 1 && flux proxy ${fluxsocket} flux jobs -a && echo seen"}
    submit(namespace, "watched", spec_of(namespace, UNTIL_TOLD_LINE, watcher, size=2))
    namespace.wait_for("the sidecar to see the job", lambda: "seen" in log_of(namespace, "watched", "flux-queue"))
    namespace.wait_output("watched", "begun\nbegun\n")
    log = log_of(namespace, "watched", "flux-queue")
    assert "NAME" in log
    assert "sh" in log
    namespace.wait_running("watched")
    namespace.release("watched")
    namespace.wait_succeeded("watched")
    for pod in namespace.pods("watched"):
        (state,) = pod["status"]["initContainerStatuses"]
        assert state["restartCount"] == 0, "it was kept waiting once it had ended well"


@pytest.mark.real_flux
def test_a_sidecar_that_never_ends_does_not_keep_the_run_from_ending(namespace: Namespace, image_without_flux: str):
    server = {
        "name": "web",
        "image": image_without_flux,
        "noWrapEntrypoint": True,
        "command": "exec python3 -m http.server 8000 --directory /etc",
        "ports": [8000],
    }
    read = "from urllib.request import urlopen; print(urlopen(%r).read().decode())"
    first = read % "http://localhost:8000/hostname"
    command = f'python3 -c "{first}"'
    spec = spec_of(namespace, command, server, size=2)
    ran = namespace.kueue_flux("submit", "-", "--wait", stdin=as_yaml(manifest("served", spec)))
    assert ran.code == 0, ran.err
    assert sorted(ran.out.split()) == ["served-0", "served-1"]
    service = namespace.get("Service", "web")
    assert service is not None
    assert [port["port"] for port in service["spec"]["ports"]] == [8000]


def test_a_sidecar_that_fails_is_told_and_the_run_goes_on(namespace: Namespace):
    failing = {"name": "watch", "command": "echo trying; exit 3"}
    submit(namespace, "beside", spec_of(namespace, UNTIL_TOLD_LINE, failing))
    said = namespace.wait_condition("beside", "Ready", "True", "SidecarFailed")
    lead = namespace.lead("beside")["metadata"]["name"]
    assert said.startswith(f"the broker is up, but pod {lead}: container watch ended with exit code 3, restarted")
    namespace.wait_event("beside", "SidecarFailed", "container watch ended with exit code 3")
    assert "container watch ended with exit code 3" in namespace.kueue_flux("status", "beside").out
    namespace.release("beside")
    namespace.wait_succeeded("beside")


def test_an_image_of_a_sidecar_that_cannot_be_pulled_is_told(namespace: Namespace):
    nowhere = {"name": "web", "image": "localhost/nowhere:1", "imagePullPolicy": "Never"}
    submit(namespace, "unpulled", spec_of(namespace, "hostname", nowhere))
    said = namespace.wait_condition("unpulled", "Ready", "False", "ImagePullFailed")
    assert "container web" in said


def test_containers_share_volumes_processes_and_life_cycle_commands(namespace: Namespace):
    shared = {"data": {"path": "/data"}}
    writer = {
        "name": "writer",
        "command": "until grep -qs '^broker' /proc/[0-9]*/cmdline; do sleep 0.1; done; echo seen > /data/broker",
        "volumes": shared,
        "lifeCycle": {"postStartExec": "echo started > /data/hook"},
    }
    command = "sh -c 'until [ -s /data/broker ]; do sleep 0.1; done; cat /data/hook /data/broker'"
    spec = {**spec_of(namespace, command, writer), "shareProcessNamespace": True}
    spec["containers"][0]["volumes"] = shared
    ran = namespace.kueue_flux("submit", "-", "--wait", stdin=as_yaml(manifest("shared", spec)))
    assert ran.code == 0, ran.err
    assert ran.lines == ["started", "seen"]


@pytest.mark.quota(pods=20)
def test_what_sidecars_ask_for_is_counted(namespace: Namespace):
    namespace.set_quota(cpu=1)
    sidecar = {"name": "log", "command": "true", "resources": {"requests": {"cpu": "600m"}}}
    spec = spec_of(namespace, "hostname", sidecar)
    spec["containers"][0]["resources"] = {"requests": {"cpu": "600m"}}
    submit(namespace, "counted", spec)
    namespace.wait_for(
        "that to be said", lambda: "can give at most 1 (" in namespace.message("counted", "QuotaReserved")
    )
    namespace.set_quota(cpu=2)
    namespace.wait_succeeded("counted")
