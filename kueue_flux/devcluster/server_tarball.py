"""The Kubernetes release that `kind build node-image --type file` takes, made of binaries that were built here.

kind expects kubernetes-server-linux-<arch>.tar.gz: three programs and four archives of images. Whatever else a node
needs (etcd, CoreDNS, ...) it pulls, unless an archive brings an image of that name. So kube-proxy's archive brings
them all, under the names that this version of kind and kubeadm ask for.
"""

import re
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

from kueue_flux.devcluster import base_image, binaries, node_archive, paths, process, versions
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.images.archive import Image
from kueue_flux.devcluster.progress import Progress

_CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_NODE = ("kubeadm", "kubelet", "kubectl")
_IPTABLES = ("iptables", "ip6tables")

PROGRAMS = (*_CONTROL_PLANE, *_NODE, "kube-proxy", "etcd", "coredns", "local-path-provisioner", "pause")
"""The programs of `binaries` that go into it."""

STAND_INS = {
    "kindnetd": "a script; it routes between nodes, and does not enforce NetworkPolicy",
    "pause": "a small program of our own",
    "etcd and CoreDNS": f"{versions.ETCD} and {versions.COREDNS} under the tags that kubeadm asks for",
    "local-path-provisioner": f"the original's {versions.LOCAL_PATH_PROVISIONER} under kind's tag",
}
"""What in an assembled node image is not what the published one has."""


def make(out: Path, root: Path, work: Path, progress: Progress) -> None:
    """Write the tarball.

    Args:
        out: where; compressed as little as gzip can, since kind unpacks it at once.
        root: the root filesystem of `base_image`, from which kube-proxy's iptables comes.
        work: an empty folder for what is made on the way.
        progress: told what is done.
    """
    programs = binaries.ensure(PROGRAMS, progress)
    with progress.stage("write the images of the node") as stage:
        server = work / "kubernetes"
        folder = server / "server" / "bin"
        folder.mkdir(parents=True)
        (server / "version").write_text(versions.KUBERNETES)
        for name in _NODE:
            shutil.copy(programs[name], folder)
        for name in _CONTROL_PLANE:
            stage.update(name)
            image = _image(work / name, {f"/usr/local/bin/{name}": programs[name]})
            _archive({_released(name): image}, folder / f"{name}.tar")
        stage.update("kube-proxy and the images that are not Kubernetes' own")
        _archive(_other_images(programs, root, work), folder / "kube-proxy.tar")
        stage.update("packing")
        with tarfile.open(out, "w:gz", compresslevel=1) as archive:
            archive.add(server, "kubernetes")


def names_in_source(source: str, pattern: str) -> str:
    """The one image name that a source file of kind sets.

    Args:
        source: the file's text.
        pattern: what precedes the quoted name.

    Raises:
        DevClusterError: it is not there; this version of kind has moved it.
    """
    found = re.search(pattern + r'\s*=\s*"([^"]+)"', source)
    if found is None:
        raise DevClusterError(f"kind {versions.KIND} names no image at `{pattern}`", "see server_tarball.py")
    return found.group(1)


def _other_images(programs: Mapping[str, Path], root: Path, work: Path) -> dict[str, Image]:
    kind = binaries.module_dir("sigs.k8s.io/kind", versions.KIND)
    sources = kind / "pkg/build/nodeimage"
    cni = (sources / "const_cni.go").read_text()
    storage = (sources / "const_storage.go").read_text()
    containerd = (kind / "images/base/files/etc/containerd/config.toml").read_text()
    kubeadm = [str(programs["kubeadm"]), "config", "images", "list", "--kubernetes-version", versions.KUBERNETES]
    by_name = {line.rsplit("/", 1)[1].split(":")[0]: line for line in process.output(kubeadm).split()}

    busybox = {"/bin/busybox": root / "bin/busybox"}
    kindnetd = {
        "/usr/local/bin/kindnetd": paths.packaged("kindnetd.sh"),
        "/usr/local/bin/kubectl": programs["kubectl"],
    }
    proxy = _iptables(root)
    provisioner = "/usr/local/bin/local-path-provisioner"
    helper = ("sh", "mkdir", "rm")
    return {
        _released("kube-proxy"): _image(
            work / "proxy", {**proxy, "/usr/local/bin/kube-proxy": programs["kube-proxy"]}, links=_iptables_links()
        ),
        by_name["etcd"]: _image(work / "etcd", {"/usr/local/bin/etcd": programs["etcd"]}),
        by_name["coredns"]: _image(work / "coredns", {"/coredns": programs["coredns"]}, "/coredns"),
        names_in_source(containerd, "sandbox_image"): _image(work / "pause", {"/pause": programs["pause"]}, "/pause"),
        names_in_source(cni, "kindnetdImage"): _image(
            work / "kindnetd",
            {**proxy, **busybox, **kindnetd},
            "/usr/local/bin/kindnetd",
            links=_iptables_links(),
        ),
        names_in_source(storage, "storageProvisionerImage"): _image(
            work / "provisioner", {provisioner: programs["local-path-provisioner"]}, provisioner
        ),
        names_in_source(storage, "storageHelperImage"): _image(
            work / "helper", busybox, "/bin/sh", links={f"/bin/{name}": "busybox" for name in helper}
        ),
    }


def _iptables(root: Path) -> dict[str, Path]:
    """What iptables consists of in the node's root filesystem; its extensions are libraries loaded by name."""
    extensions = sorted(root.glob("usr/lib/*/xtables/*.so"))
    inside = [f"/{path.relative_to(root)}" for path in extensions]
    return base_image.libraries(root, ["/usr/sbin/xtables-nft-multi", *inside])


def _iptables_links() -> dict[str, str]:
    suffixes = ("", "-save", "-restore")
    return {f"/usr/sbin/{name}{suffix}": "xtables-nft-multi" for name in _IPTABLES for suffix in suffixes}


def _released(name: str) -> str:
    # kind takes the processor off the names of images that were part of the build
    return f"registry.k8s.io/{name}-{binaries.arch()}:{versions.KUBERNETES}"


def _image(
    folder: Path, files: Mapping[str, Path], entrypoint: str = "", links: Mapping[str, str] | None = None
) -> Image:
    for name, source in files.items():
        destination = folder / name.lstrip("/")
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, destination)
        destination.chmod(0o755)
    for name, target in (links or {}).items():
        destination = folder / name.lstrip("/")
        destination.parent.mkdir(parents=True, exist_ok=True)
        destination.symlink_to(target)
    (folder / "tmp").mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    layer = node_archive.pack(folder)
    shutil.rmtree(folder)
    return Image(layers=(layer,), entrypoint=(entrypoint,) if entrypoint else ())


def _archive(images: Mapping[str, Image], path: Path) -> None:
    with path.open("wb") as out:
        node_archive.write(images, out)
