"""MiniClusters for the tests, and what a test expects of one: a condition in words, files, a finished run."""

from __future__ import annotations

import base64
import json
import tempfile
import tomllib
from typing import Any

import zmq.auth

from kueue_flux.api import hostlist
from kueue_flux.devcluster.kubernetes_api import Manifest
from tests.control_plane.kit import QUEUE, QUEUE_LABEL, Namespace, condition

PATIENCE = 60.0
"""Seconds that a test waits for what takes a second: the machine may be busy with other things."""
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


def minicluster(
    name: str = "mc",
    size: int = 2,
    *,
    queue: str | None = QUEUE,
    priority: str | None = None,
    command: str = "hostname",
    cpu: str = "1",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A MiniCluster of `size` pods.

    Args:
        name: its name.
        size: how many pods.
        queue: the LocalQueue; None for none.
        priority: the WorkloadPriorityClass.
        command: what Flux runs.
        cpu: quantity of cores that each pod requests.
        annotations: of its pods, such as `kwok.COMPLETE_AFTER`.
        spec: further fields of its spec, named as in YAML.
    """
    labels = {QUEUE_LABEL: queue, PRIORITY_LABEL: priority}
    container = {"image": "fake", "command": command, "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": {"name": name, "labels": {key: value for key, value in labels.items() if value}},
        "spec": {
            "size": size,
            "containers": [container],
            **({"pod": {"annotations": annotations}} if annotations else {}),
            **spec,
        },
    }


def get(namespace: Namespace, name: str = "mc") -> Manifest:
    """A MiniCluster that must be there."""
    found = namespace.get("MiniCluster", name)
    assert found is not None, f"there is no MiniCluster {name}"
    return found


def status(namespace: Namespace, name: str = "mc") -> Manifest:
    """A MiniCluster's status; {} before the first."""
    found: Manifest = get(namespace, name).get("status") or {}
    return found


def stands(obj: Manifest, expected: str) -> bool:
    """Whether a condition is as `Type=Status/Reason` or `Type=Status` says."""
    kind, _, rest = expected.partition("=")
    wanted, _, reason = rest.partition("/")
    found = condition(obj, kind)
    return found.get("status") == wanted and reason in ("", found.get("reason"))


def expect(
    namespace: Namespace, expected: str, name: str = "mc", *, says: str = "", timeout: float = PATIENCE
) -> Manifest:
    """Wait until a condition of a MiniCluster stands as expected, and return the MiniCluster.

    Args:
        namespace: where.
        expected: `Type=Status/Reason` or `Type=Status`.
        name: of the MiniCluster.
        says: what the condition's message must contain.
        timeout: seconds.
    """

    def look() -> Manifest | None:
        found = get(namespace, name)
        said = condition(found, expected.partition("=")[0])
        assert stands(found, expected), said
        assert says in said["message"], said
        return found

    return namespace.wait_for(f"{expected} of {name} ({says})", look, timeout=timeout)


def running(namespace: Namespace, name: str = "mc", size: int = 2, *, timeout: float = PATIENCE) -> Manifest:
    """Wait until all brokers of a MiniCluster are up, and return it."""
    namespace.running_pods(name, size, timeout=timeout)
    return expect(namespace, "Ready=True/BrokersUp", name, timeout=timeout)


def succeed(namespace: Namespace, name: str = "mc") -> Manifest:
    """End the lead of a running MiniCluster with 0, and wait for the MiniCluster to say so."""
    namespace.finish(name)
    return expect(namespace, "Finished=True/Succeeded", name)


def secret(namespace: Namespace, name: str = "mc") -> Manifest | None:
    """The Secret with the certificate, if there is one."""
    return namespace.get("Secret", f"{name}-curve")


def config_map(namespace: Namespace, name: str = "mc") -> Manifest | None:
    """The ConfigMap with what Flux reads at start, if there is one."""
    return namespace.get("ConfigMap", f"{name}-flux")


def certificate(namespace: Namespace, name: str = "mc") -> str:
    """The certificate of the admission in force (ZPL text), which must be there."""
    found = secret(namespace, name)
    assert found is not None, f"{name} has no certificate"
    return base64.b64decode(found["data"]["curve.cert"]).decode()


def secret_key(namespace: Namespace, name: str = "mc") -> str:
    """The secret key in the certificate of the admission in force, as zmq reads it: 40 characters."""
    with tempfile.NamedTemporaryFile("w", suffix=".cert") as file:
        file.write(certificate(namespace, name))
        file.flush()
        key = zmq.auth.load_certificate(file.name)[1]
    assert key is not None, "the certificate has no secret key"
    return key.decode()


def hosts(namespace: Namespace, name: str = "mc") -> list[str]:
    """The hosts that broker.toml names, which must be those in R too."""
    found = config_map(namespace, name)
    assert found is not None, f"{name} has no ConfigMap"
    bootstrap = broker(namespace, name)["bootstrap"]
    named = [host for entry in bootstrap["hosts"] for host in hostlist.decode(entry["host"])]
    execution = json.loads(found["data"]["R.json"])["execution"]
    assert [host for text in execution["nodelist"] for host in hostlist.decode(text)] == named
    return named


def broker(namespace: Namespace, name: str = "mc") -> dict[str, Any]:
    """The broker's configuration of the admission in force, parsed."""
    found = config_map(namespace, name)
    assert found is not None, f"{name} has no ConfigMap"
    return tomllib.loads(found["data"]["broker.toml"])


def withdrawn(namespace: Namespace, name: str = "mc") -> None:
    """Wait until a MiniCluster has neither certificate nor configuration."""
    namespace.wait_for(
        f"the files of {name} to be deleted",
        lambda: secret(namespace, name) is None and config_map(namespace, name) is None,
        timeout=PATIENCE,
    )


def events(namespace: Namespace, name: str = "mc") -> list[str]:
    """What was told of a MiniCluster, as `Type Reason: note`, the oldest first."""
    about = [
        event
        for event in namespace.all("Event")
        if event.get("regarding", {}).get("kind") == "MiniCluster" and event["regarding"]["name"] == name
    ]
    about.sort(key=lambda event: event["eventTime"])
    return [f"{event['type']} {event['reason']}: {event.get('note', '')}" for event in about]
