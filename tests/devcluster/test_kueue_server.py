"""Kueue's manifests as they are rewritten for a Kueue that runs beside the API server."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kueue_flux.devcluster import kueue_server

URL = "https://127.0.0.1:20000"


def webhook(name: str, group: str, path: str) -> dict:
    service = {"name": "webhook-service", "namespace": "system", "path": path}
    return {"name": name, "clientConfig": {"service": service}, "rules": [{"apiGroups": [group]}]}


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """As much of Kueue's Go module as is read."""
    components = tmp_path / "config/components"
    hooks = [webhook("mjob.kb.io", "batch", "/mutate-batch-v1-job"), webhook("mq.kb.io", "kueue.x-k8s.io", "/mutate-q")]
    files = {
        "crd/bases/kueue.x-k8s.io_topologies.yaml": {"metadata": {"name": "topologies.kueue.x-k8s.io"}, "spec": {}},
        "crd/bases/kueue.x-k8s.io_workloads.yaml": {"metadata": {"name": "workloads.kueue.x-k8s.io"}, "spec": {}},
        "crd/kustomization.yaml": {"patches": [{"path": "patches/webhook_in_workloads.yaml"}]},
        "crd/patches/webhook_in_workloads.yaml": {"metadata": {"name": "workloads.kueue.x-k8s.io"}},
        "webhook/manifests.yaml": {"metadata": {"name": "mutating-webhook-configuration"}, "webhooks": hooks},
        "manager/controller_manager_config.yaml": {
            "metrics": {"bindAddress": ":8443", "enableClusterQueueResources": True},
            "leaderElection": {"leaderElect": True, "resourceName": "lock"},
            "integrations": {"frameworks": ["batch/job"]},
        },
    }
    for name, content in files.items():
        path = components / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content))
    return tmp_path


def test_webhooks_are_called_by_url_and_leave_system_namespaces_alone(module):
    [configuration] = kueue_server.webhooks(module, URL, "bundle")
    assert configuration["metadata"]["name"] == "kueue-mutating-webhook-configuration"
    job, queue = configuration["webhooks"]
    assert job["clientConfig"] == {"url": f"{URL}/mutate-batch-v1-job", "caBundle": "bundle"}
    assert job["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "kueue-system"]
    assert "namespaceSelector" not in queue


def test_kinds_that_kueue_converts_name_its_webhook(module):
    topologies, workloads = kueue_server.custom_resources(module, URL, "bundle")
    assert "conversion" not in topologies["spec"]
    client = workloads["spec"]["conversion"]["webhook"]["clientConfig"]
    assert client == {"url": f"{URL}/convert", "caBundle": "bundle"}


def test_the_configuration_is_the_shipped_one_on_the_loopback_interface(module, tmp_path):
    text = kueue_server.configuration(
        module, health=1, metrics=2, webhook=3, visibility=4, certificates=tmp_path / "certificates"
    )
    assert yaml.safe_load(text) == {
        "health": {"healthProbeBindAddress": "127.0.0.1:1"},
        "metrics": {"bindAddress": "127.0.0.1:2", "enableClusterQueueResources": True},
        "webhook": {"host": "127.0.0.1", "port": 3, "certDir": str(tmp_path / "certificates")},
        "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": 4},
        "leaderElection": {"leaderElect": False},
        "integrations": {"frameworks": ["batch/job"]},
    }


def test_settings_take_the_place_of_what_is_shipped(module, tmp_path):
    settings = {"integrations": {"frameworks": []}, "fairSharing": {}}
    text = kueue_server.configuration(
        module, health=1, metrics=2, webhook=3, visibility=4, certificates=tmp_path, settings=settings
    )
    config = yaml.safe_load(text)
    assert (config["integrations"], config["fairSharing"]) == ({"frameworks": []}, {})
    assert config["health"] == {"healthProbeBindAddress": "127.0.0.1:1"}
