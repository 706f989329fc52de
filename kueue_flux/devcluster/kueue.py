"""Kueue in a cluster, from its own manifests, as a user would install it.

The image is the published one where a registry answers, else Kueue's binary alone in an image; its name and the
pull policy are the only things changed in the manifests.
"""

import tarfile
import time
from pathlib import Path
from typing import Any

import yaml

from kueue_flux.devcluster import binaries, kind, paths, process, versions
from kueue_flux.devcluster.errors import CommandFailed
from kueue_flux.devcluster.images import layers, store
from kueue_flux.devcluster.images.archive import Image
from kueue_flux.devcluster.progress import Progress

PUBLISHED_IMAGE = f"registry.k8s.io/kueue/kueue:{versions.KUEUE}"
PROGRAM, USER = "/manager", "65532:65532"  # as in Kueue's own Dockerfile
_NAMESPACE = "kueue-system"
_DEPLOYMENT = "deployment/kueue-controller-manager"
_CERTIFICATE = "kueue-webhook-server-cert"
_READY_TIMEOUT = 240.0
_QUEUES_TIMEOUT = 120.0


class Kubectl:
    """kubectl for one cluster.

    Args:
        program: the binary.
        kubeconfig: how to reach the cluster.
    """

    def __init__(self, program: Path, kubeconfig: Path) -> None:
        self._command = [str(program), "--kubeconfig", str(kubeconfig)]

    def __call__(self, *arguments: str, stdin: str | None = None, timeout: float | None = 60) -> str:
        """Run it and return what it printed.

        Args:
            arguments: after the kubeconfig.
            stdin: text for its standard input.
            timeout: seconds until it is ended.

        Raises:
            CommandFailed: it ended with another status than 0.
        """
        return process.output([*self._command, *arguments], stdin=stdin, timeout=timeout)

    def works(self, *arguments: str, timeout: float = 20) -> bool:
        """Whether it ends with status 0.

        Args:
            arguments: after the kubeconfig.
            timeout: seconds until it counts as failed.
        """
        return process.works([*self._command, *arguments], timeout=timeout)


def adapt(manifests: str, image: str) -> str:
    """Kueue's manifests for a cluster whose nodes pull nothing.

    Args:
        manifests: YAML documents, as `kubectl kustomize` prints them.
        image: what its controller runs.
    """
    documents: list[dict[str, Any]] = [item for item in yaml.safe_load_all(manifests) if item]
    for document in documents:
        if document["kind"] == "Deployment":
            for container in document["spec"]["template"]["spec"]["containers"]:
                container["image"] = image
                container["imagePullPolicy"] = "IfNotPresent"
    return yaml.safe_dump_all(documents, sort_keys=False)


def install(cluster: str, kubectl: Kubectl, *, published: bool, progress: Progress) -> None:
    """Install Kueue and wait until it is ready; one that is there in this version is left alone.

    Args:
        cluster: the kind cluster's name.
        kubectl: reaches it.
        published: whether to try the published image first.
        progress: told what is done.

    Raises:
        CommandFailed: the manifests are refused, or Kueue does not become ready.
    """
    installed = kubectl("-n", _NAMESPACE, "get", _DEPLOYMENT, "--ignore-not-found", "-o", "yaml")
    if versions.KUEUE in installed and ready(kubectl):
        return
    image = _image(published, progress)
    kind.load_image(cluster, image, progress)
    with progress.stage("apply Kueue's manifests"):
        module = binaries.module_dir("sigs.k8s.io/kueue", versions.KUEUE)
        manifests = adapt(kubectl("kustomize", str(module / "config" / "default")), image)
        # server-side: its CRDs are larger than the annotation of a client-side apply may be
        kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)
    with progress.stage("wait until Kueue is ready"):
        _wait(kubectl)


def ready(kubectl: Kubectl) -> bool:
    """Whether Kueue's controller is available.

    Args:
        kubectl: reaches the cluster.
    """
    return kubectl.works("-n", _NAMESPACE, "wait", "--for=condition=Available", "--timeout=1s", _DEPLOYMENT)


def create_queues(kubectl: Kubectl, progress: Progress) -> None:
    """Create the sample queues where they are missing; those that are there are left as they are.

    Kueue's webhooks refuse everything until they have their certificates, some seconds after it says it is ready.

    Args:
        kubectl: reaches the cluster.
        progress: told what is done.

    Raises:
        CommandFailed: they are still refused after two minutes.
    """
    file = str(paths.packaged("queues.yaml"))
    if kubectl.works("get", "-f", file):
        return
    with progress.stage("create the sample queues") as stage:
        end = time.monotonic() + _QUEUES_TIMEOUT
        while True:
            try:
                kubectl("apply", "--server-side", "-f", file)
                break
            except CommandFailed as error:
                if time.monotonic() > end:
                    raise
                stage.update(error.output.splitlines()[-1])
                time.sleep(0.5)
        kubectl("wait", "--for=condition=Active", "--timeout=60s", "clusterqueue/cluster-queue", timeout=70)


def _wait(kubectl: Kubectl) -> None:
    """Wait until Kueue is ready, and have its certificate reach it at once.

    Kueue makes its webhooks' certificate itself, writes it into a Secret, and waits until it appears in the volume
    of that Secret, which a kubelet may refresh only after a minute and a half. A changed annotation makes the
    kubelet look at the pod, and so at its volumes, now (kubernetes.io, Secrets, "Mounted Secrets are updated
    automatically").
    """
    pods = ["-n", _NAMESPACE, "annotate", "pods", "-l", "control-plane=controller-manager", "--overwrite"]
    end = time.monotonic() + _READY_TIMEOUT
    certificate = "jsonpath={.data.tls\\.crt}"
    while not ready(kubectl):
        if time.monotonic() > end:
            kubectl("-n", _NAMESPACE, "rollout", "status", _DEPLOYMENT, "--timeout=1s")  # says what is missing
        elif kubectl("-n", _NAMESPACE, "get", "secret", _CERTIFICATE, "--ignore-not-found", "-o", certificate):
            # a pod that is just being replaced needs it no more
            kubectl.works(*pods, f"kueue-flux-dev/refresh-volumes={time.monotonic():.0f}")
        time.sleep(1)


def _image(published: bool, progress: Progress) -> str:
    if published and store.pull(PUBLISHED_IMAGE, progress) is None:
        return PUBLISHED_IMAGE
    program = binaries.ensure(["kueue"], progress)["kueue"]

    def pack(out: Path) -> None:
        with tarfile.open(out, "w") as archive:
            archive.add(program, PROGRAM.lstrip("/"))

    layer = layers.cached(f"kueue-{versions.KUEUE}-{binaries.arch()}", pack)
    image = Image(layers=(layer,), user=USER, entrypoint=(PROGRAM,))
    return store.load(f"kueue:{versions.KUEUE}", image, progress)
