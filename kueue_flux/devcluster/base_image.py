"""The image under kind's node image, where no registry answers: Debian packages, kind's own files, our binaries.

kind publishes it as `kindest/base`. Its Dockerfile starts from an image and clones from the net, so its steps are
taken here with mmdebstrap and the machine's own apt sources; its files come from kind's Go module unchanged.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from kueue_flux.devcluster import binaries, packages, paths, process, versions
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.progress import Progress

# kind's Dockerfile names these; then what it builds from source and Debian has as well, and what the images of
# kube-proxy, kindnetd and the local path helper are made of
_PACKAGES = [
    "systemd", "conntrack", "iptables", "nftables", "iproute2", "ethtool", "util-linux", "mount", "kmod",
    "libseccomp2", "pigz", "fuse-overlayfs", "nfs-common", "open-iscsi", "e2fsprogs", "bash", "ca-certificates",
    "curl", "jq", "procps", "hostname",
    "containernetworking-plugins", "busybox-static",
]  # fmt: skip
_CNI_PLUGINS = ("host-local", "loopback", "ptp", "portmap")
PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "crictl", "runc")
"""The programs of `binaries` that go into it."""


def apt_sources(listing: str, codename: str) -> list[str]:
    """The machine's sources of its own release, in apt's one-line format (sources.list(5)).

    Args:
        listing: what `apt-get indextargets` printed in the format `$(SITE) $(RELEASE) $(COMPONENT)`.
        codename: the release, for example `bookworm`.
    """
    components: dict[tuple[str, str], list[str]] = {}
    for line in listing.splitlines():
        site, release, component = line.split()
        if release == codename or release.startswith(f"{codename}-"):
            known = components.setdefault((site, release), [])
            if component not in known:
                known.append(component)
    return [f"deb {site} {release} {' '.join(names)}" for (site, release), names in components.items()]


def assemble(root: Path, progress: Progress) -> None:
    """Make the root filesystem of the base image.

    Args:
        root: the folder to fill; must not exist.
        progress: told what is done.

    Raises:
        DevClusterError: this is not a Debian or Ubuntu on which packages can be fetched.
    """
    _install_packages(root, progress)
    with progress.stage("prepare the node's root filesystem"):
        _copy_kind_files(binaries.module_dir("sigs.k8s.io/kind", versions.KIND) / "images/base/files", root)
        programs = binaries.ensure(PROGRAMS, progress)
        for name, path in programs.items():
            folder = "usr/local/sbin" if name == "runc" else "usr/local/bin"
            _install(path, root / folder / name, 0o755)
        for name in _CNI_PLUGINS:
            _install(root / "usr/lib/cni" / name, root / "opt/cni/bin" / name, 0o755)
        script = root / "prepare-node.sh"
        _install(paths.packaged("prepare-node.sh"), script, 0o755)
        process.output(["chroot", root, "/prepare-node.sh"])
        script.unlink()


def libraries(root: Path, programs: Sequence[str]) -> dict[str, Path]:
    """Programs of a root filesystem and the shared libraries they need.

    Args:
        root: the root filesystem.
        programs: paths of programs and libraries in it.

    Returns:
        For each path in an image the file here that belongs there.
    """
    listing = process.output(["chroot", root, "ldd", *programs])
    wanted = [*programs]
    for line in listing.splitlines():
        words = line.replace("=>", " ").split()
        wanted += [word for word in words if word.startswith("/") and not word.endswith(":")]
    names = list(dict.fromkeys(wanted))
    # links inside of it may be absolute, so they are followed from inside
    resolved = process.output(["chroot", root, "readlink", "-f", *names]).split()
    return {name: root / real.lstrip("/") for name, real in zip(names, resolved, strict=True)}


def _install_packages(root: Path, progress: Progress) -> None:
    codename = packages.os_release().get("VERSION_CODENAME", "")
    if not packages.installable() or not codename:
        raise DevClusterError(
            "no registry answers, and a node image can be assembled only as root on Debian or Ubuntu",
            f"make {versions.NODE_IMAGE} available to Docker and set KUEUE_FLUX_NODE_IMAGE to its name",
        )
    packages.ensure_tools({"mmdebstrap": "mmdebstrap"}, progress)
    target = ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
    sources = apt_sources(process.output(target), codename)
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"]
    command += [f"--include={','.join(_PACKAGES)}", "--aptopt=APT::Install-Recommends false", codename]
    with progress.stage(f"fetch and unpack the node's Debian packages ({codename})") as stage:
        process.stream([*command, root, *sources], stage.update)


def _copy_kind_files(source: Path, root: Path) -> None:
    """The COPY lines of kind's Dockerfile, with their modes; a Go module keeps none."""
    for path in sorted(source.rglob("*")):
        if path.is_file():
            name = path.relative_to(source)
            program = name.parts[:3] == ("usr", "local", "bin") or name.parts[:2] == ("kind", "bin")
            _install(path, root / name, 0o755 if program else 0o644)


def _install(source: Path, destination: Path, mode: int) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, destination)
    destination.chmod(mode)
