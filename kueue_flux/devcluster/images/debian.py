"""Root filesystems of the machine's own Debian (or Ubuntu) packages, for images where no registry answers.

mmdebstrap fetches from where the machine's own apt does (its mirror, its proxy, security updates included), needs
a quarter of a minute, and writes a tar file. A second set of packages becomes a layer on the first: the difference.
"""

import platform
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from kueue_flux.devcluster import base_image, packages, process
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.images import layers
from kueue_flux.devcluster.images.archive import Layer
from kueue_flux.devcluster.progress import Progress

# what nobody reads in a container; licences under share/doc/*/copyright stay
_EXCLUDED = ("man", "info", "locale", "lintian")
# what the installation leaves behind: nobody reads it, and the machine's name and mirror are nobody's business
_LEFTOVERS = (
    "var/cache/*", "var/log/*", "var/lib/apt", "var/lib/dpkg/*-old",
    "etc/apt/sources.list", "etc/apt/apt.conf.d/99mmdebstrap", "etc/hostname", "etc/resolv.conf",
)  # fmt: skip
_HTTP = ("Acquire::http::", "Acquire::https::")
_HOOKS = Path("/usr/share/mmdebstrap/hooks")
# Python, and the C++ library that wheels expect of every system (PEP 513)
PYTHON = ("python3", "libstdc++6")
_VERSION = 2  # raised when the same packages would become another root filesystem


def suite() -> str:
    """The code name of the machine's release, for example `bookworm`.

    Raises:
        DevClusterError: the machine is not a Debian or one of its kin.
    """
    name = packages.os_release().get("VERSION_CODENAME", "")
    if not name or packages.find("apt-get") is None:
        raise DevClusterError(
            "where no registry answers images are assembled from Debian packages, and there is no apt here",
            "use a machine that reaches a registry, or name images that are here already (FLUX_IMAGE)",
        )
    return name


def python() -> Path:
    """The machine's own Python, of the same version as the one in our images.

    Raises:
        DevClusterError: the machine has none.
    """
    path = Path("/usr/bin/python3")
    if not path.exists():
        raise DevClusterError("the machine has no /usr/bin/python3", "apt-get install python3")
    return path


def base(progress: Progress) -> Layer:
    """The lowest layer of every image: the packages that Debian calls essential, about 54 MB.

    Args:
        progress: told what is done.
    """
    return layers.cached(_label("debian", ()), lambda out: _bootstrap((), out, progress))


def python_layers(progress: Progress) -> tuple[Layer, Layer]:
    """The base and Python on it: what the adapter, Flux and the stand-in have in common.

    Args:
        progress: told what is done.
    """
    return base(progress), with_packages("python", PYTHON, progress)


def with_packages(title: str, names: Sequence[str], progress: Progress, *, below: Sequence[str] = ()) -> Layer:
    """A layer of packages and all they depend on, without those that the layers below have.

    Args:
        title: what the layer is for; part of its name.
        names: the packages.
        progress: told what is done.
        below: packages of the layers between the base and this one.
    """

    def make(out: Path) -> None:
        lower = rootfs(below, progress) if below else base(progress).path
        layers.difference(lower, rootfs([*below, *names], progress), out)

    return layers.cached(f"{title}-{_label('on', (*below, '+', *names))}", make)


def rootfs(names: Sequence[str], progress: Progress) -> Path:
    """A whole root filesystem with packages, as a tar file; kept, since the next set of packages may build on it.

    Args:
        names: the packages besides the essential ones.
        progress: told what is done.
    """
    return layers.cached(_label("rootfs", names), lambda out: _bootstrap(names, out, progress)).path


def extracted(names: Sequence[str], progress: Progress) -> Path:
    """The files of packages alone, without what they depend on, as a tar file.

    Args:
        names: the packages.
        progress: told what is done.
    """

    def make(out: Path) -> None:
        _mmdebstrap(["--variant=extract", f"--include={','.join(names)}"], out, progress)

    return layers.cached(_label("files", names), make).path


def read(file: str, names: Sequence[str], progress: Progress) -> str:
    """What a text file holds in a root filesystem.

    Args:
        file: its path, without a slash before it.
        names: the packages of the root filesystem.
        progress: told what is done.
    """
    with tarfile.open(rootfs(names, progress)) as archive:
        content = archive.extractfile(f"./{file}")
        assert content is not None  # noqa: S101 - the callers name plain files
        return content.read().decode()


def accounts(user: str, uid: int) -> dict[str, str]:
    """The lines that make a user, by the file they belong to (passwd(5), group(5)).

    Args:
        user: the name, also of the group.
        uid: the number of both.
    """
    return {
        "etc/passwd": f"{user}:x:{uid}:{uid}::/home/{user}:/bin/bash\n",
        "etc/group": f"{user}:x:{uid}:\n",
    }


def owners(files: Iterable[Path]) -> tuple[list[str], list[Path]]:
    """Which packages of this machine files belong to.

    Args:
        files: their paths.

    Returns:
        The packages' names, sorted, and the files that belong to none.
    """
    # dpkg knows a file by the path it was packed with, which on a merged /usr may lack that /usr
    spellings: dict[str, Path] = {}
    for file in set(files):
        real = str(file.resolve())
        for spelling in (str(file), f"/usr{file}", real, real.removeprefix("/usr")):
            spellings[spelling] = file
    # its status is 1 as soon as one of the paths is unknown to it, which most of them are
    answer = subprocess.run(["dpkg-query", "--search", *spellings], capture_output=True, text=True, check=False).stdout
    names, owned = set(), set()
    for line in answer.splitlines():
        packages_of_it, _, path = line.partition(": ")
        if path in spellings:
            names.add(packages_of_it.split(",")[0].split(":")[0])
            owned.add(spellings[path])
    return sorted(names), sorted(set(files) - owned)


def _label(title: str, names: Sequence[str]) -> str:
    return f"{title}-{suite()}-{layers.key(_VERSION, platform.machine(), suite(), *names)}"


def _bootstrap(names: Sequence[str], out: Path, progress: Progress) -> None:
    options = ["--variant=essential", "--aptopt=APT::Install-Recommends false"]
    # without it apt installs the package that moves files to /usr, and all of Perl with it
    options += [f"--hook-dir={_HOOKS / 'maybe-merged-usr'}"]
    options += [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _EXCLUDED]
    options += ["--dpkgopt=path-exclude=/usr/share/doc/*"]
    options += ["--dpkgopt=path-include=/usr/share/doc/*/copyright"]
    leftovers = " ".join(f'"$1"/{path}' for path in _LEFTOVERS)
    options += [f"--customize-hook=rm -rf {leftovers}"]
    if names:
        options.append(f"--include={','.join(names)}")
    what = f"{suite()}, essential packages" + (f" and {', '.join(names)}" if names else "")
    with progress.stage(f"fetch and unpack {what if len(what) < 80 else what[:76] + ' ...'}"):
        _mmdebstrap(options, out, progress)


def _mmdebstrap(options: Sequence[str], out: Path, progress: Progress) -> None:
    packages.ensure_tools({"mmdebstrap": "mmdebstrap"}, progress)
    listing = process.output(
        ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
    )
    sources = base_image.apt_sources(listing, suite())
    settings = [line for line in process.output(["apt-config", "dump"]).splitlines() if line.startswith(_HTTP)]
    # in a file and by standard input: an address may have a password in it, which a command line would show
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write("\n".join(settings))
        file.flush()
        command = ["mmdebstrap", "--quiet", "--format=tar", f"--aptopt={file.name}", *options]
        process.output([*command, suite(), out, "-"], stdin="\n".join(sources) + "\n")
