"""The pod template: the user's container, wrapped so that it boots a Flux broker."""

from collections.abc import Iterable
from typing import Any

from kueue_flux.api.checks import FLUX_CONTAINER
from kueue_flux.api.container import MiniClusterContainer
from kueue_flux.api.flux import BROKER_PORT, FluxContainer
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.rules import HOST_NETWORK_DNS
from kueue_flux.flux import layout
from kueue_flux.manifests import restful
from kueue_flux.manifests.common import MINICLUSTER_UID, certificate_name, config_map_name, pod_labels
from kueue_flux.manifests.container import container, literal
from kueue_flux.manifests.mode import arguments, settings, user_files
from kueue_flux.manifests.sidecar import sidecars
from kueue_flux.manifests.view import View, view
from kueue_flux.manifests.volumes import volumes

# The files of a Secret belong to root, and which user an image runs as is not for us to know; only this container
# mounts it. An fsGroup would open it too, but would also change the owner of the user's own volumes.
SECRET_MODE = 0o444


def flux_container_name(mc: MiniCluster) -> str:
    """The name of the container that runs the broker, as the user gave it or ours."""
    return mc.flux_container.name or FLUX_CONTAINER


def pod_template(mc: MiniCluster) -> dict[str, Any]:
    """Build the pod template of the Indexed Job (the same for every index)."""
    pod = mc.spec.pod
    flux_view = view(mc)
    spec: dict[str, Any] = {
        # With the Job's own host names (<job>-<index>) this gives each pod its DNS name.
        "subdomain": mc.headless_name,
        # A failed broker is a failed pod: the Job decides what follows, by exit code.
        "restartPolicy": "Never",
        # Off by default: one variable for each Service of the namespace, none of them for us.
        "enableServiceLinks": False,
        "automountServiceAccountToken": pod.automount_service_account_token,
        "containers": [_flux_container(mc, flux_view)],
        "volumes": [*_volumes(mc), *flux_view.volumes, *volumes(mc.spec.containers)],
    }
    optional = {
        # Flux is copied first: sidecars may call it.
        "initContainers": [*flux_view.init_containers, *sidecars(mc)],
        "imagePullSecrets": pull_secrets(*mc.spec.containers, mc.spec.flux.container),
        "hostIPC": pod.host_ipc,
        "hostPID": pod.host_pid,
        "shareProcessNamespace": mc.spec.share_process_namespace,
        "affinity": _affinity(mc),
        **placement(mc),
        **_network(mc),
    }
    spec.update({key: value for key, value in optional.items() if value})
    if mc.spec.network.host_network:
        for built in (*spec["containers"], *spec.get("initContainers", [])):
            _use_node_ports(built)
    template: dict[str, Any] = {"metadata": {"labels": {**pod.labels, **pod_labels(mc)}}, "spec": spec}
    if annotations := {**pod.annotations, **mc.topology}:
        template["metadata"]["annotations"] = annotations
    return template


def _network(mc: MiniCluster) -> dict[str, Any]:
    """Fields that say which network the pod is in; empty ones may be left out."""
    if mc.spec.network.host_network:
        # Else a pod on the node's network asks the node's DNS, which knows no Services.
        return {"hostNetwork": True, "dnsPolicy": HOST_NETWORK_DNS}
    return {"setHostnameAsFQDN": mc.spec.network.set_hostname_as_fqdn}


def _use_node_ports(built: dict[str, Any]) -> None:
    """Say that ports are the node's, which Kubernetes wants to be told of pods on its network (Container.ports)."""
    if "ports" in built:
        built["ports"] = [{**port, "hostPort": port["containerPort"]} for port in built["ports"]]


def _flux_container(mc: MiniCluster, flux_view: View) -> dict[str, Any]:
    user = mc.flux_container
    built = container(user, flux_container_name(mc), _settings(mc, flux_view))
    if mc.spec.network.host_network:  # a node has one broker's port, so the scheduler puts no second pod there
        built["ports"] = [*built.get("ports", []), {"containerPort": BROKER_PORT}]
    return {
        **built,
        # The script is the same for everyone; what the user typed reaches it as arguments, never as text.
        "command": ["/bin/sh", layout.START_SCRIPT],
        "args": [literal(word) for word in arguments(mc).words],
        "volumeMounts": [
            _read_only("flux-config", layout.CONFIG_DIR),
            _read_only("flux-curve", layout.CURVE_DIR),
            {"name": "flux-run", "mountPath": layout.RUN_DIR},
            *([_read_only("flux-munge", layout.MUNGE_DIR)] if _munge_key(mc) else []),
            *([_read_only("flux-token", layout.RESTFUL_AUTH_DIR)] if restful.is_wanted(mc) else []),
            *flux_view.mounts,
            *built.get("volumeMounts", []),
        ],
        # Ready in Kueue's sense means that the broker is up. A startup probe stops once it has succeeded,
        # where a readiness probe would go on running a process in every pod for the whole life of the job.
        # How long booting may take is Kueue's to say (waitForPodsReady), so the probe never gives up itself.
        "startupProbe": {
            "exec": {"command": ["test", "-e", layout.READY]},
            "periodSeconds": 1,
            "failureThreshold": 2**31 - 1,
        },
    }


def _read_only(volume: str, path: str) -> dict[str, Any]:
    return {"name": volume, "mountPath": path, "readOnly": True}


def _settings(mc: MiniCluster, flux_view: View) -> dict[str, str]:
    return {**mc.spec.flux.environment, **settings(mc), **flux_view.env}


def _volumes(mc: MiniCluster) -> list[dict[str, Any]]:
    # Each file is named, so that a kubelet does not mount somebody else's object of the name: it waits for ours.
    items = [*_items([*layout.CONFIG_FILES, *user_files(mc)]), *restful.server_items(mc)]
    config = {"name": config_map_name(mc.name), "items": items}
    secret = mc.spec.flux.curve_cert_secret or certificate_name(mc.name)
    curve = {"secretName": secret, "items": _items([layout.CURVE_FILE]), "defaultMode": SECRET_MODE}
    return [
        {"name": "flux-config", "configMap": config},
        {"name": "flux-curve", "secret": curve},
        # In memory: the start script copies the certificate here, with the mode that the broker insists on.
        {"name": "flux-run", "emptyDir": {"medium": "Memory"}},
        *_munge_key(mc),
        *([restful.token_volume(mc)] if restful.is_wanted(mc) else []),
    ]


def _munge_key(mc: MiniCluster) -> list[dict[str, Any]]:
    """The volume with the munge key of the user's Secret; none where the image's own key serves."""
    if not mc.spec.flux.munge_secret:
        return []
    secret = {"secretName": mc.spec.flux.munge_secret, "items": _items([layout.MUNGE_FILE]), "defaultMode": 0o400}
    return [{"name": "flux-munge", "secret": secret}]


def _items(files: Iterable[str]) -> list[dict[str, str]]:
    return [{"key": file, "path": file} for file in files]


def placement(mc: MiniCluster) -> dict[str, Any]:
    """Fields of a pod's specification that say where and as whom it runs; empty ones may be left out."""
    pod = mc.spec.pod
    return {
        "serviceAccountName": pod.service_account_name,
        "nodeSelector": pod.node_selector,
        "tolerations": [t.model_dump(exclude_unset=True, by_alias=True) for t in pod.tolerations],
        "schedulerName": pod.scheduler_name,
        "runtimeClassName": pod.runtime_class_name,
        "overhead": pod.resources,
        "dnsPolicy": pod.dns_policy,
        "securityContext": pod.security_context,
    }


def pull_secrets(*containers: MiniClusterContainer | FluxContainer) -> list[dict[str, str]]:
    """The Secrets with which the images of these containers are pulled, each once."""
    return [{"name": name} for name in dict.fromkeys(c.image_pull_secret for c in containers) if name]


def _affinity(mc: MiniCluster) -> dict[str, Any]:
    affinity: dict[str, Any] = {}
    if not mc.spec.network.disable_affinity:
        own = {"labelSelector": {"matchLabels": {MINICLUSTER_UID: mc.uid}}}
        affinity["podAffinity"] = _preferred({**own, "topologyKey": "topology.kubernetes.io/zone"})
        affinity["podAntiAffinity"] = _preferred({**own, "topologyKey": "kubernetes.io/hostname"})
    if mc.spec.pod.node_affinity:
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": key, "operator": "In", "values": values}
                            for key, values in sorted(mc.spec.pod.node_affinity.items())
                        ]
                    }
                ]
            }
        }
    return affinity


def _preferred(term: dict[str, Any]) -> dict[str, Any]:
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
