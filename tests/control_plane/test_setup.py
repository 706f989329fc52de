"""FluxSetups on real Kueue: from three lines of YAML to a run, what goes wrong, and what a change does to what runs."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.kubernetes_api import KubernetesApi, Manifest
from tests.control_plane import kit
from tests.control_plane.kit import Namespace, condition, wait_for
from tests.control_plane.miniclusters import PATIENCE, expect, minicluster, running, stands, status, succeed

pytestmark = pytest.mark.usefixtures("adapter")

SETUP = "flux-framework.org/v1alpha2"


@dataclass
class Site:
    """What an admin does: namespaces and FluxSetups of this test alone, named after it."""

    api: KubernetesApi
    prefix: str
    namespaces: list[str] = field(default_factory=list)
    setups: list[str] = field(default_factory=list)

    def name(self, suffix: str) -> str:
        return f"{self.prefix}-{suffix}"

    def namespace(self, suffix: str) -> Namespace:
        """Make a namespace without any queue."""
        name = self.name(suffix)
        self.namespaces.append(name)
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return Namespace(name, self.api)

    def setup(self, suffix: str, **spec: Any) -> Manifest:
        """Create or change a FluxSetup."""
        name = self.name(suffix)
        self.setups.append(name)
        manifest = {"apiVersion": SETUP, "kind": "FluxSetup", "metadata": {"name": name}}
        return self.api.apply({**manifest, **({"spec": spec} if spec else {})})

    def get(self, kind: str, name: str, namespace: str | None = None) -> Manifest | None:
        version = SETUP if kind == "FluxSetup" else kit.KUEUE
        return self.api.find(version, kind, name, namespace)

    def delete(self, suffix: str) -> None:
        self.api.delete({"apiVersion": SETUP, "kind": "FluxSetup", "metadata": {"name": self.name(suffix)}})

    def expect(self, expected: str, suffix: str, *, says: str = "", **fields: Any) -> Manifest:
        """Wait until a condition of a FluxSetup stands as expected, with words and fields of its status."""
        name = self.name(suffix)

        def look() -> Manifest | None:
            found = self.get("FluxSetup", name)
            said = condition(found, expected.partition("=")[0])
            assert found is not None
            assert stands(found, expected), said
            assert says in said["message"], said
            assert {key: found["status"].get(key) for key in fields} == fields
            return found

        return wait_for(f"{expected} of FluxSetup {name} ({says})", look, timeout=PATIENCE)

    def events(self, suffix: str) -> list[str]:
        """What was told of a FluxSetup, as `Type Reason: note`."""
        return [
            f"{event['type']} {event['reason']}: {event.get('note', '')}"
            for event in self.api.list("events.k8s.io/v1", "Event", "default")
            if (event["regarding"]["kind"], event["regarding"]["name"]) == ("FluxSetup", self.name(suffix))
        ]

    def quota(self, suffix: str, flavor: str = "default-flavor") -> dict[str, str]:
        """What the ClusterQueue has of a flavor."""
        queue = self.get("ClusterQueue", self.name(suffix))
        assert queue is not None
        (group,) = queue["spec"]["resourceGroups"]
        (found,) = [each for each in group["flavors"] if each["name"] == flavor]
        return {each["name"]: each["nominalQuota"] for each in found["resources"]}


@pytest.fixture
def site(cluster: Cluster) -> Iterator[Site]:
    site = Site(cluster.api, f"s-{secrets.token_hex(3)}")
    yield site
    for name in dict.fromkeys(site.setups):
        site.api.delete({"apiVersion": SETUP, "kind": "FluxSetup", "metadata": {"name": name}})
    for name in site.namespaces:
        site.api.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def test_three_lines_of_yaml_to_the_first_run(site: Site):
    namespace = site.namespace("a")
    three_lines = f"""
apiVersion: flux-framework.org/v1alpha2
kind: FluxSetup
metadata: {{name: {namespace.name}}}
"""
    site.api.apply(yaml.safe_load(three_lines))
    site.setups.append(namespace.name)
    namespace.create(minicluster(queue=None))
    running(namespace)
    assert status(namespace)["queue"] == "default"
    expect(namespace, "Admitted=True/Admitted", says=f"by ClusterQueue {namespace.name}")
    site.expect("Ready=True/Ready", "a", running=1, waiting=0, namespaces=[namespace.name])
    assert site.quota("a") == {"cpu": "160", "memory": "640Gi"}
    succeed(namespace)
    site.expect("Ready=True", "a", running=0, finished=1)


