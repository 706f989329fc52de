"""The image that kind's nodes run: the published one where a registry answers, else assembled on this machine.

Assembling needs no registry: binaries built of Go modules, Debian packages, and kind's own `build node-image`.
"""

import hashlib
import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kueue_flux.devcluster import base_image, binaries, node_archive, paths, process, server_tarball, versions
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.images import store
from kueue_flux.devcluster.images.archive import PATH
from kueue_flux.devcluster.progress import Progress

_NODE = f"{store.REPOSITORY}/node"


@dataclass(frozen=True)
class NodeImage:
    """A node image that the engine has.

    Args:
        reference: its name there.
        assembled: whether it was made on this machine.
    """

    reference: str
    assembled: bool


def ensure(progress: Progress) -> NodeImage:
    """Make sure that the engine has a node image.

    Args:
        progress: told what is done.

    Returns:
        The one of KUEUE_FLUX_NODE_IMAGE where that is set, else the published one if the engine has it or can
        pull it, else one that is assembled here.

    Raises:
        DevClusterError: there is none and it cannot be assembled here.
    """
    chosen = os.environ.get("KUEUE_FLUX_NODE_IMAGE")
    if chosen:
        refused = store.pull(chosen, progress)
        if refused:
            raise DevClusterError(
                f"KUEUE_FLUX_NODE_IMAGE={chosen}: Docker has no such image, and cannot pull it: {refused}",
                "unset it, or name an image of `docker images`",
            )
        return NodeImage(chosen, assembled=chosen.startswith(_NODE))
    assembled = f"{_NODE}:{versions.KUBERNETES}-{recipe()}"
    if store.present(assembled):
        return NodeImage(assembled, assembled=True)
    refused = store.pull(versions.NODE_IMAGE, progress)
    if refused is None:
        return NodeImage(versions.NODE_IMAGE, assembled=False)
    progress.note(f"the published node image cannot be had ({refused}), so one is assembled here")
    _assemble(assembled, progress)
    return NodeImage(assembled, assembled=True)


def recipe() -> str:
    """A short name for everything that goes into an assembled image, so that a change in it makes a new one."""
    programs = sorted({*base_image.PROGRAMS, *server_tarball.PROGRAMS})
    parts = [platform.machine(), versions.KIND, versions.NODE_RECIPE]
    parts += [f"{name} {binaries.PROGRAMS[name].version}" for name in programs]
    parts += [paths.packaged(name).read_text() for name in ("kindnetd.sh", "prepare-node.sh")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _assemble(reference: str, progress: Progress) -> None:
    programs = ["kind", *base_image.PROGRAMS, *server_tarball.PROGRAMS]
    kind = binaries.ensure(programs, progress)["kind"]
    with tempfile.TemporaryDirectory(dir=paths.cache_dir(), prefix="node-image-") as name:
        work = Path(name)
        root = work / "rootfs"
        base_image.assemble(root, progress)
        tar = work / "base.tar"
        process.output(["tar", "--numeric-owner", "-C", root, "-cf", tar, "."])
        base = store.load(f"node-base:{versions.KIND}", _base(tar), progress)
        tar.unlink()
        (work / "server").mkdir()
        tarball = work / "server.tar.gz"
        server_tarball.make(tarball, root, work / "server", progress)
        shutil.rmtree(work / "server")
        with progress.stage("kind build node-image") as stage:
            command = [str(kind), "build", "node-image", "--type", "file"]
            command += ["--base-image", base, "--image", reference, str(tarball)]
            # kind unpacks the tarball in the folder for temporary files, which may be small
            process.stream(command, stage.update, env={"TMPDIR": name})


def _base(tar: Path) -> node_archive.SystemImage:
    # as in kind's images/base/Dockerfile
    return node_archive.SystemImage(
        layers=(node_archive.layer(tar),),
        env={"PATH": PATH, "container": "docker"},
        entrypoint=("/usr/local/bin/entrypoint", "/sbin/init"),
        stop_signal="SIGRTMIN+3",
    )
