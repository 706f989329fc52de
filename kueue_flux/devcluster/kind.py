"""kind, the real tool and unmodified: a cluster whose nodes are containers.

Each cluster gets a Docker network of its own, so that the guard's rule touches nobody else's containers.
"""

import json
from collections.abc import Mapping
from typing import Any

import yaml

from kueue_flux.devcluster import binaries, engine, guard, paths, process
from kueue_flux.devcluster.progress import Progress

_WAIT = "180s"


def configuration(base: str, *, workers: int, cgroup_v1: bool, restrict_oom_score: bool) -> dict[str, Any]:
    """kind's configuration for this machine (kind.sigs.k8s.io, user guide, configuration).

    Args:
        base: the text of `files/kind.yaml`.
        workers: how many worker nodes.
        cgroup_v1: whether the machine's cgroups are of version 1, on which a kubelet refuses to start unasked.
        restrict_oom_score: whether containers cannot be given a lower oom_score_adj than their node has.
    """
    config: dict[str, Any] = yaml.safe_load(base)
    others = [node for node in config["nodes"] if node["role"] != "worker"]
    worker = next(node for node in config["nodes"] if node["role"] == "worker")
    config["nodes"] = [*others, *(dict(worker) for _ in range(workers))]
    if cgroup_v1:
        config["kubeadmConfigPatches"] = ["kind: KubeletConfiguration\nfailCgroupV1: false\n"]
    if restrict_oom_score:
        config["containerdConfigPatches"] = ['[plugins."io.containerd.grpc.v1.cri"]\n  restrict_oom_score_adj = true\n']
    return config


def create(name: str, image: str, *, workers: int, progress: Progress) -> None:
    """Create a cluster and wait until its nodes are ready; its kubeconfig goes to `paths.kubeconfig(name)`.

    Args:
        name: what it is called.
        image: the node image, which the engine has.
        workers: how many worker nodes.
        progress: told what is done.

    Raises:
        CommandFailed: kind does not succeed; nothing of the cluster is left.
    """
    config = configuration(
        paths.packaged("kind.yaml").read_text(),
        workers=workers,
        cgroup_v1=engine.cgroup_version() == 1,
        restrict_oom_score=engine.lacks_sys_resource(),
    )
    file = paths.state_dir(name) / "kind.yaml"
    file.write_text(yaml.safe_dump(config))
    command = ["create", "cluster", "--name", name, "--image", image, "--config", str(file), "--wait", _WAIT]
    _run(name, [*command, "--kubeconfig", str(paths.kubeconfig(name))], progress)


def delete(name: str, progress: Progress) -> None:
    """Delete a cluster; one that is not there is no error.

    Args:
        name: what it is called.
        progress: told what is done.
    """
    _run(name, ["delete", "cluster", "--name", name, "--kubeconfig", str(paths.kubeconfig(name))], progress)


def nodes(name: str) -> dict[str, str]:
    """The nodes of a cluster, running or not.

    Args:
        name: what the cluster is called.

    Returns:
        Container name to its state as Docker has it, for example `running`.
    """
    filters = ["--filter", f"label=io.x-k8s.kind.cluster={name}"]
    listing = process.output(
        [engine.docker(), "ps", "--all", *filters, "--format", "{{.Names}} {{.State}}"]
    ).splitlines()
    return dict(sorted(line.split(" ", 1) for line in listing))


def load_image(cluster: str, reference: str, progress: Progress | None = None) -> None:
    """Copy an image from the Docker engine to every node that does not have it.

    Args:
        cluster: the cluster's name.
        reference: the image's name.
        progress: told what is done.

    Raises:
        CommandFailed: the engine has no such image, or there is no such cluster.
    """
    progress = progress or Progress()
    with progress.stage(f"load {reference}"):
        _run(cluster, ["load", "docker-image", reference, "--name", cluster], progress)


def ensure_network(name: str) -> str:
    """Make the network of a cluster where it is missing.

    Args:
        name: the cluster's name.

    Returns:
        The network's bridge interface.
    """
    docker = engine.docker()
    if not process.works([docker, "network", "inspect", network(name)]):
        process.output([docker, "network", "create", "--driver", "bridge", network(name)])
    return bridge(name)


def bridge(name: str) -> str:
    """The bridge interface of a cluster's network, as Docker names it.

    Args:
        name: the cluster's name.
    """
    described = json.loads(process.output([engine.docker(), "network", "inspect", network(name)]))[0]
    return str(described["Options"].get("com.docker.network.bridge.name") or f"br-{described['Id'][:12]}")


def remove_network(name: str) -> None:
    """Remove the network of a cluster and the guard's rule for it; a missing one is no error.

    Args:
        name: the cluster's name.
    """
    docker = engine.docker()
    if process.works([docker, "network", "inspect", network(name)]):
        if guard.possible():
            guard.unblock(bridge(name))
        process.output([docker, "network", "rm", network(name)])


def network(name: str) -> str:
    """The name of a cluster's Docker network.

    Args:
        name: the cluster's name.
    """
    return f"kueue-flux-{name}"


def _run(name: str, arguments: list[str], progress: Progress) -> None:
    kind = binaries.ensure(["kind"], progress)["kind"]
    process.stream([kind, *arguments], progress.update, env=_environment(name))


def _environment(name: str) -> Mapping[str, str]:
    return {"KIND_EXPERIMENTAL_PROVIDER": "docker", "KIND_EXPERIMENTAL_DOCKER_NETWORK": network(name)}
