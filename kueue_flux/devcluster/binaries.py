"""The programs of a cluster, built from pinned Go modules: what a machine without a registry can get.

Each is built once into the cache, `bin/<name>-<version>/<name>`, and appears there complete or not at all.
"""

import fcntl
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from kueue_flux.devcluster import packages, paths, process, versions
from kueue_flux.devcluster.go import go, module_dir
from kueue_flux.devcluster.progress import Progress, Stage

__all__ = ["PROGRAMS", "Program", "arch", "ensure", "module_dir"]


@dataclass(frozen=True)
class Program:
    """How one program is built.

    Args:
        name: what the binary is called.
        module: the Go module it comes from; empty where our own source needs none.
        version: that module's version.
        package: its import path, or for one of our own `files/go/<name>`.
        ldflags: linker flags beside `-s -w`.
        tags: build tags.
        cgo: whether it needs a C compiler.
    """

    name: str
    module: str
    version: str
    package: str
    ldflags: str = ""
    tags: str = ""
    cgo: bool = False

    @property
    def path(self) -> Path:
        """Where the built binary is kept."""
        return paths.cache_dir() / "bin" / f"{self.name}-{self.version}" / self.name


def _kubernetes(name: str, package: str) -> Program:
    _, minor, _ = versions.KUBERNETES.removeprefix("v").split(".")
    variables = {"gitVersion": versions.KUBERNETES, "gitMajor": "1", "gitMinor": minor}
    ldflags = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in variables.items())
    return Program(name, "k8s.io/kubernetes", versions.KUBERNETES, package, ldflags)


_CONTAINERD = "github.com/containerd/containerd/v2"
PROGRAMS = {
    program.name: program
    for program in (
        *(
            _kubernetes(name, f"k8s.io/kubernetes/cmd/{name}")
            for name in (
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kube-proxy",
                "kubelet",
                "kubeadm",
            )
        ),
        _kubernetes("kubectl", "./kubectl"),
        Program(
            "kueue",
            "sigs.k8s.io/kueue",
            versions.KUEUE,
            "sigs.k8s.io/kueue/cmd/kueue",
            # Its visibility server makes its certificate in /visibility, where only root can write. Taken from the
            # working directory instead it is the same folder in a container, and as a plain process one of our own.
            "-X sigs.k8s.io/kueue/pkg/visibility.certDir=visibility",
        ),
        *(
            Program(
                name,
                _CONTAINERD,
                versions.CONTAINERD,
                f"{_CONTAINERD}/cmd/{name}",
                f"-X {_CONTAINERD}/version.Version={versions.CONTAINERD}",
            )
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        ),
        Program(
            "runc",
            "github.com/opencontainers/runc",
            versions.RUNC,
            "github.com/opencontainers/runc",
            # static: it runs in a node image whose C library need not be this machine's
            f"-X main.version={versions.RUNC.removeprefix('v')} -linkmode external -extldflags -static",
            tags="seccomp,netgo,osusergo",
            cgo=True,
        ),
        Program("etcd", "go.etcd.io/etcd/server/v3", versions.ETCD, "go.etcd.io/etcd/server/v3"),
        Program("crictl", "sigs.k8s.io/cri-tools", versions.CRICTL, "sigs.k8s.io/cri-tools/cmd/crictl"),
        Program("coredns", "github.com/coredns/coredns", versions.COREDNS, "github.com/coredns/coredns"),
        Program(
            "local-path-provisioner",
            "github.com/rancher/local-path-provisioner",
            versions.LOCAL_PATH_PROVISIONER,
            "github.com/rancher/local-path-provisioner",
        ),
        Program("kind", "sigs.k8s.io/kind", versions.KIND, "sigs.k8s.io/kind"),
        Program("kwok", "sigs.k8s.io/kwok", versions.KWOK, "sigs.k8s.io/kwok/cmd/kwok"),
        Program("pause", "", versions.PAUSE, "./pause"),
    )
}
"""Every program that can be asked for, by name."""


def arch() -> str:
    """This machine's processor as Go and container images name it."""
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def ensure(names: Iterable[str], progress: Progress) -> dict[str, Path]:
    """Programs by name, building those that the cache does not hold.

    Args:
        names: some of `PROGRAMS`.
        progress: told what is built and how far.

    Returns:
        For each name the path of its binary.

    Raises:
        KeyError: a name is not one of `PROGRAMS`.
        CommandFailed: a program does not build.
        DevClusterError: a compiler is missing and cannot be installed here.
    """
    wanted = [PROGRAMS[name] for name in names]
    if any(not program.path.exists() for program in wanted):
        with _lock(progress):
            missing = [program for program in wanted if not program.path.exists()]
            for number, program in enumerate(missing, 1):
                title = f"build {program.name} {program.version} ({number} of {len(missing)})"
                with progress.stage(title) as stage:
                    _build(program, progress, stage)
    return {program.name: program.path for program in wanted}


def workspace_files(program: Program) -> dict[str, str]:
    """The Go module of our own in which a program is built.

    A program is not built inside its module: Kubernetes' go.mod points its staging modules at a folder
    that the module zip lacks, so here each of them is replaced by its published version.

    Args:
        program: what is to be built.

    Returns:
        File name to text.
    """
    lines = ["module kueue-flux.invalid/build", "", f"go {versions.GO}", ""]
    if program.module:
        lines.append(f"require {program.module} {program.version}")
    if program.module == "k8s.io/kubernetes":
        lines.append("require k8s.io/kubectl v0.0.0")
        lines.append("require k8s.io/component-base v0.0.0")
        lines += [
            f"replace k8s.io/{name} => k8s.io/{name} {versions.KUBERNETES_STAGING}"
            for name in versions.KUBERNETES_STAGING_MODULES
        ]
    return {"go.mod": "\n".join(lines) + "\n"}


def _workspace(program: Program) -> Path:
    folder = paths.cache_dir() / "build" / f"{program.module or program.name}-{program.version}".replace("/", "_")
    if not (folder / "go.mod").exists():
        folder.mkdir(parents=True, exist_ok=True)
        sums = module_dir(program.module, program.version) / "go.sum" if program.module else None
        if sums is not None and sums.exists():
            # not every dependency of every module is known to the checksum database
            (folder / "go.sum").write_text(sums.read_text())
        for name, text in workspace_files(program).items():
            (folder / name).write_text(text)
    if program.package.startswith("./"):
        shutil.copytree(paths.packaged("go") / program.name, folder / program.package, dirs_exist_ok=True)
    return folder


def _build(program: Program, progress: Progress, stage: Stage) -> None:
    command = go(progress)
    if program.cgo:
        packages.ensure_tools({"gcc": "gcc", "pkg-config": "pkg-config"}, progress)
        if not process.works(["pkg-config", "--static", "libseccomp"]):
            packages.install(["libseccomp-dev", "libc6-dev"], progress, why="libseccomp's headers were not found")
    stage.update("fetching modules")
    folder = _workspace(program)
    env = {"CGO_ENABLED": "1" if program.cgo else "0", "GOWORK": "off"}
    flags = ["-mod=mod", f"-tags={program.tags}"]
    # also fetches every module that the build needs
    total = len(process.output([command, "list", "-deps", *flags, program.package], cwd=folder, env=env).split())
    built = 0

    def line(text: str) -> None:
        nonlocal built
        if not text.startswith("go: "):
            built += 1
        stage.update(f"compiled {built} of at most {total} packages")

    program.path.parent.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.path.parent.parent, prefix=".building-") as partial:
        binary = Path(partial) / program.name / program.name
        build = ["nice", str(command), "build", "-v", "-buildvcs=false", *flags]
        # a build of many minutes must leave the machine usable
        linking = f"-ldflags=-s -w {program.ldflags}"
        process.stream([*build, linking, "-o", binary, program.package], line, cwd=folder, env=env)
        binary.parent.rename(program.path.parent)


@contextmanager
def _lock(progress: Progress) -> Iterator[TextIO]:
    """One build at a time on a machine: two at once would be slower, and would build the same thing twice."""
    with (paths.cache_dir() / "build.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.stage("wait for another build on this machine"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield file
