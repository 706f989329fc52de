"""Kueue as a plain process beside the API server, installed from its own manifests.

In a cluster its webhooks and its visibility API are reached through Services. Here nothing routes to
Services, so the webhooks are registered by URL, and the visibility API through a Service of type
ExternalName: the aggregator takes its name as it stands, whereas it refuses endpoints on the loopback
network.

Kueue manages its certificates itself, as installed by default, but finds them in place already. Run without
that, it wants its metrics certificate below /etc, where only root can write.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives.asymmetric import rsa

from kueue_flux.devcluster.kubernetes_api import KubernetesApi, Manifest, load_yaml
from kueue_flux.devcluster.pki import Authority, KeyPair

NAMESPACE = "kueue-system"
SECRET = "kueue-webhook-server-cert"  # noqa: S105 - a name
WEBHOOK_HOST = f"kueue-webhook-service.{NAMESPACE}.svc"
VISIBILITY_SERVICE = "kueue-visibility-server"
VISIBILITY_GROUP = "visibility.kueue.x-k8s.io"
VISIBILITY_VERSIONS = ("v1beta1", "v1beta2")
# what `config/default` of the module puts before every name; Kueue looks its webhooks up under it
PREFIX = "kueue-"


def configuration(
    module: Path,
    *,
    health: int,
    metrics: int,
    webhook: int,
    visibility: int,
    certificates: Path,
    settings: Mapping[str, Any] | None = None,
) -> str:
    """Kueue's configuration file: the one it ships with, listening on the loopback interface.

    Args:
        module: folder of the Go module sigs.k8s.io/kueue.
        health: port of /healthz and /readyz.
        metrics: port of /metrics.
        webhook: port of the webhooks.
        visibility: port of the visibility API.
        certificates: folder with the webhooks' tls.crt and tls.key.
        settings: what else is to be otherwise, such as `{"fairSharing": {}}`.
    """
    shipped = module / "config/components/manager/controller_manager_config.yaml"
    config: dict[str, Any] = yaml.safe_load(shipped.read_text())
    config["health"] = {"healthProbeBindAddress": f"127.0.0.1:{health}"}
    config["metrics"] = {**config["metrics"], "bindAddress": f"127.0.0.1:{metrics}"}
    config["webhook"] = {"host": "127.0.0.1", "port": webhook, "certDir": str(certificates)}
    config["visibilityServer"] = {"bindAddress": "127.0.0.1", "bindPort": visibility}
    config["leaderElection"] = {"leaderElect": False}
    return yaml.safe_dump({**config, **(settings or {})})


def create_authority() -> Authority:
    """The authority of Kueue's certificates: RSA, since its certificate rotation reads no other keys."""
    return Authority.create("kueue-ca", key=rsa.generate_private_key(public_exponent=65537, key_size=2048))


def issue_certificate(authority: Authority) -> KeyPair:
    """The webhooks' certificate: for the address they are called under, and the name Kueue expects in it."""
    return authority.issue("kueue-webhook", hosts=["127.0.0.1", WEBHOOK_HOST])


def install(
    api: KubernetesApi, module: Path, *, webhook: int, visibility: int, authority: Authority, pair: KeyPair
) -> None:
    """Register Kueue: its CRDs, certificates, webhooks and visibility API. Repeating it changes nothing.

    Args:
        api: the cluster.
        module: folder of the Go module sigs.k8s.io/kueue.
        webhook: port of the webhooks.
        visibility: port of the visibility API.
        authority: who signed the webhooks' certificate.
        pair: the webhooks' certificate.
    """
    url = f"https://127.0.0.1:{webhook}"
    bundle = base64.b64encode(authority.pair.certificate).decode()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    manifests = [
        namespace,
        *custom_resources(module, url, bundle),
        certificate_secret(authority, pair),
        *visibility_api(visibility),
        *webhooks(module, url, bundle),
    ]
    for manifest in manifests:
        api.apply(manifest)


def established(api: KubernetesApi) -> bool:
    """Whether the API server serves Kueue's kinds and is done with writing to their CRDs.

    Kueue writes its authority into them when it starts; where that conflicts, it waits some seconds before it
    looks at them again.
    """
    crds = api.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    return all(
        any(item["type"] == "Established" and item["status"] == "True" for item in conditions)
        for crd in crds
        if crd["spec"]["group"] == "kueue.x-k8s.io"
        for conditions in [crd.get("status", {}).get("conditions") or []]  # null at first
    )


def ready(api: KubernetesApi, health: int) -> bool:
    """Whether Kueue's webhooks and its visibility API answer.

    Args:
        api: the cluster.
        health: port of Kueue's /readyz.
    """
    connection = HTTPConnection("127.0.0.1", health, timeout=5)
    try:
        connection.request("GET", "/readyz")
        if connection.getresponse().status != 200:
            return False
    except OSError:
        return False
    finally:
        connection.close()
    return all(api.answers(f"/apis/{VISIBILITY_GROUP}/{version}") for version in VISIBILITY_VERSIONS)


def custom_resources(module: Path, url: str, bundle: str) -> list[Manifest]:
    """Kueue's CRDs, those that it converts between versions with the webhook that does it."""
    folder = module / "config/components/crd"
    client = {"url": f"{url}/convert", "caBundle": bundle}
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
    }
    patches = yaml.safe_load((folder / "kustomization.yaml").read_text())["patches"]
    converted = {
        yaml.safe_load((folder / patch["path"]).read_text())["metadata"]["name"]
        for patch in patches
        if Path(patch["path"]).name.startswith("webhook_in_")
    }
    crds = [load_yaml(path.read_text()) for path in sorted((folder / "bases").glob("*.yaml"))]
    for crd in crds:
        if crd["metadata"]["name"] in converted:
            crd["spec"]["conversion"] = conversion
    return crds


def webhooks(module: Path, url: str, bundle: str) -> list[Manifest]:
    """Kueue's webhook configurations, called by URL; objects of system namespaces are left alone, as it ships."""
    shipped = module / "config/components/webhook/manifests.yaml"
    configurations: list[Manifest] = list(yaml.safe_load_all(shipped.read_text()))
    system = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", NAMESPACE],
    }
    for configuration in configurations:
        configuration["metadata"]["name"] = PREFIX + configuration["metadata"]["name"]
        for hook in configuration["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": url + path, "caBundle": bundle}
            if not any("kueue.x-k8s.io" in rule["apiGroups"] for rule in hook["rules"]):
                hook["namespaceSelector"] = {"matchExpressions": [system]}
    return configurations


def certificate_secret(authority: Authority, pair: KeyPair) -> Manifest:
    """The Secret in which Kueue's certificate rotation keeps its authority and the webhooks' certificate."""
    content = {
        "ca.crt": authority.pair.certificate,
        "ca.key": authority.pair.key,
        "tls.crt": pair.certificate,
        "tls.key": pair.key,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": NAMESPACE},
        "data": {name: base64.b64encode(value).decode() for name, value in content.items()},
    }


def visibility_api(port: int) -> list[Manifest]:
    """What makes the API server hand requests about pending workloads to Kueue."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": VISIBILITY_SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    return [service] + [
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{VISIBILITY_GROUP}"},
            "spec": {
                "group": VISIBILITY_GROUP,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                # as Kueue ships: its visibility server signs its own certificate
                "insecureSkipTLSVerify": True,
                "service": {"name": VISIBILITY_SERVICE, "namespace": NAMESPACE, "port": port},
            },
        }
        for version in VISIBILITY_VERSIONS
    ]
