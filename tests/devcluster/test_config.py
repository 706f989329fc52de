"""config/ as a user applies it: complete, unprivileged, and what it names exists."""

import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from kueue_flux.manifests.common import MANAGER

ROOT = Path(__file__).parents[2]
Object = dict[str, Any]


@pytest.fixture(scope="module")
def objects() -> dict[tuple[str, str], Object]:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on PATH")
    command = [kubectl, "kustomize", str(ROOT / "config/default")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(printed)}


@pytest.fixture(scope="module")
def controller(objects: dict[tuple[str, str], Object]) -> Object:
    pod: Object = objects["Deployment", "kueue-flux-controller"]["spec"]["template"]["spec"]
    return pod


def rules(objects: dict[tuple[str, str], Object], kind: str, name: str) -> dict[str, set[str]]:
    """Verbs by resource."""
    found: dict[str, set[str]] = {}
    for rule in objects[kind, name]["rules"]:
        for resource in rule["resources"]:
            found.setdefault(resource, set()).update(rule["verbs"])
    return found


def test_one_apply_installs_all_there_is(objects: dict[tuple[str, str], Object]) -> None:
    crds = {
        yaml.safe_load(path.read_text())["metadata"]["name"] for path in (ROOT / "crds").glob("flux-framework*.yaml")
    }
    assert {name for kind, name in objects if kind == "CustomResourceDefinition"} == crds
    namespaced = [
        item for (kind, _), item in objects.items() if kind in {"Deployment", "Role", "RoleBinding", "ServiceAccount"}
    ]
    assert {item["metadata"]["namespace"] for item in namespaced} == {"kueue-flux-system"}
    assert ("Namespace", "kueue-flux-system") in objects


def test_the_controller_runs_without_privileges(controller: Object) -> None:
    (container,) = controller["containers"]
    assert controller["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_controllers_command_is_one_of_the_projects(controller: Object) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert controller["containers"][0]["command"][0] in scripts


def test_the_controller_lists_no_secrets_and_wildcards_nothing(objects: dict[tuple[str, str], Object]) -> None:
    granted = rules(objects, "ClusterRole", "kueue-flux-controller")
    assert granted["secrets"] == {"create", "deletecollection"}
    assert granted["configmaps"] == {"create", "deletecollection"}
    every = {verb for verbs in granted.values() for verb in verbs} | set(granted)
    assert "*" not in every
    assert not every & {"escalate", "bind", "impersonate", "pods/exec", "serviceaccounts/token"}


def test_the_lease_is_the_controllers_own(objects: dict[tuple[str, str], Object]) -> None:
    named = [rule.get("resourceNames") for rule in objects["Role", "kueue-flux-leader-election"]["rules"]]
    assert named == [None, [MANAGER]]
    assert "leases" not in rules(objects, "ClusterRole", "kueue-flux-controller")


def test_users_of_a_namespace_cannot_write_the_status(objects: dict[tuple[str, str], Object]) -> None:
    assert rules(objects, "ClusterRole", "kueue-flux-minicluster-editor")["miniclusters/status"] == {"get"}
    viewer = rules(objects, "ClusterRole", "kueue-flux-minicluster-viewer")
    assert set().union(*viewer.values()) == {"get", "list", "watch"}


def test_what_flux_setups_take_is_a_role_of_its_own(objects: dict[tuple[str, str], Object]) -> None:
    granted = rules(objects, "ClusterRole", "kueue-flux-setup")
    assert granted["clusterqueues"] == {"create", "patch"}, "the garbage collector deletes it"
    assert granted["nodes"] == granted["namespaces"] == {"list", "watch"}
    every = {verb for verbs in granted.values() for verb in verbs} | set(granted)
    assert not every & {"*", "escalate", "bind", "impersonate", "deletecollection", "secrets"}
    others = rules(objects, "ClusterRole", "kueue-flux-controller")
    twice = [what for what in granted if granted[what] & others.get(what, set())]
    assert twice == [], "without FluxSetups none of it is needed"
    binding = objects["ClusterRoleBinding", "kueue-flux-setup"]
    assert (
        binding["subjects"][0]["name"] == objects["ClusterRoleBinding", "kueue-flux-controller"]["subjects"][0]["name"]
    )


def test_flux_setups_are_not_written_by_users_of_a_namespace(objects: dict[tuple[str, str], Object]) -> None:
    viewer = rules(objects, "ClusterRole", "kueue-flux-setup-viewer")
    assert set().union(*viewer.values()) == {"get", "list", "watch"}
    assert "fluxsetups" not in rules(objects, "ClusterRole", "kueue-flux-minicluster-editor")
