"""kueue-flux itself in a dev cluster: this checkout's code, from the same manifests that a user installs."""

import json
from dataclasses import asdict

import yaml

from kueue_flux.devcluster import kind, paths
from kueue_flux.devcluster.cluster import Cluster
from kueue_flux.devcluster.images import FluxImage, adapter_image, flux_image, store
from kueue_flux.devcluster.images.adapter import checkout
from kueue_flux.devcluster.kueue import Kubectl
from kueue_flux.devcluster.progress import Progress

NAMESPACE = "kueue-flux-system"
DEPLOYMENT = "deployment/kueue-flux-controller"
_PLACEHOLDER = "kueue-flux-controller"  # the image's name in config/manager
_READY_SECONDS = 120
_STATE = "flux-image.json"


def deploy(cluster: Cluster, progress: Progress) -> None:
    """Put the controller and an image with Flux into the cluster; what is there already is left alone.

    Args:
        cluster: a kind cluster with Kueue in it.
        progress: told what is done.

    Raises:
        DevClusterError: an image cannot be made.
        CommandFailed: the manifests are refused, or the controller does not become ready.
    """
    flux = flux_image(progress)
    controller = adapter_image(progress)
    for reference in (flux.reference, controller):
        kind.load_image(cluster.name, reference, progress)
    (paths.state_dir(cluster.name) / _STATE).write_text(json.dumps(asdict(flux)))
    kubectl = cluster.kubectl(progress)
    with progress.stage("install kueue-flux: kubectl apply -k config/default"):
        kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests(kubectl, controller))
        timeout = f"--timeout={_READY_SECONDS}s"
        kubectl("-n", NAMESPACE, "rollout", "status", DEPLOYMENT, timeout, timeout=_READY_SECONDS + 10)
    store.remove_others(controller)  # each change of the code makes an image; nodes have copies of their own


def manifests(kubectl: Kubectl, image: str) -> str:
    """The manifests of `config/default` with the controller's image named.

    Args:
        kubectl: renders them.
        image: the controller's image.
    """
    objects = list(yaml.safe_load_all(kubectl("kustomize", str(checkout() / "config" / "default"))))
    for obj in objects:
        if obj["kind"] == "Deployment":
            for container in obj["spec"]["template"]["spec"]["containers"]:
                if container["image"].split(":")[0] == _PLACEHOLDER:
                    container["image"] = image
    return yaml.safe_dump_all(objects)


def deployed_flux(name: str) -> FluxImage | None:
    """The image with Flux that was loaded into a cluster; None where nothing was deployed.

    Args:
        name: the cluster's name.
    """
    file = paths.state_root() / name / _STATE
    return FluxImage(**json.loads(file.read_text())) if file.exists() else None
