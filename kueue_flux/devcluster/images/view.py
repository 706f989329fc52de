"""A Flux *view*: an image that brings Flux, all its libraries and its Python into containers that have none.

It is laid out as the Flux Operator's views are, under /opt/view, and used in two ways: an init container copies
it into a volume (`kueue_flux/manifests/files/copy-view.sh`), or the image itself is mounted as a volume. Either way
it appears at /mnt/flux.

Flux has its prefix compiled in, so the copy is relocated: in every file the prefix gives way to /mnt/flux, in place,
which is why a prefix must not be shorter. Programs get the view's own dynamic loader and library path, so nothing
of the application's image is used, nor is its environment touched: a job inherits no LD_LIBRARY_PATH.
"""

import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from kueue_flux.devcluster import packages, process
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.images import debian, layers, prefix, store
from kueue_flux.devcluster.images.archive import Image
from kueue_flux.devcluster.images.prefix import FluxPrefix
from kueue_flux.devcluster.progress import Progress

MOUNT = "/mnt/flux"
"""Where a view appears: the default of `spec.flux.container.mountPath`. Ours works at no other place."""
_TREE = Path("opt/view")
_MARK = ".mounted-at"  # read by copy-view.sh
# Flux has the path of its Python compiled in too; a link of no longer a name takes its place
_PYTHON = f"{MOUNT}/python"
_UNUSED_MODULES = {"pydoc_data", "lib2to3", "idlelib", "turtledemo", "test", "ensurepip", "distutils", "__pycache__"}
_TOOLS = ("sh", "cp", "ln", "mkdir", "rm")
_VERSION = 4  # raised when the same prefix would become another view


def view_image(progress: Progress) -> str:
    """The image with a Flux view.

    Args:
        progress: told what is done.

    Returns:
        Its reference in the engine.

    Raises:
        DevClusterError: no Flux is installed here, or its prefix is too short to be relocated.
    """
    installed = prefix.find()
    if installed is None:
        raise DevClusterError("a Flux view is made of an installed Flux, and there is none", "set FLUX_PREFIX")
    return store.load(f"flux-view:{installed.version}", assemble(installed, progress), progress)


def assemble(installed: FluxPrefix, progress: Progress) -> Image:
    """The view as an image of one layer.

    Args:
        installed: the Flux.
        progress: told what is done.

    Raises:
        DevClusterError: its prefix is too short to be relocated.
    """
    for path, replacement in ((installed.path, MOUNT), (installed.python, _PYTHON)):
        if len(str(path)) < len(replacement):
            raise DevClusterError(
                f"{path} is too short a path to become {replacement} in a view",
                "install Flux under a longer prefix, or use an image with Flux in it",
            )
    packages.ensure_tools({"patchelf": "patchelf"}, progress)
    names, strays = installed.needs
    if strays:
        raise DevClusterError(f"{strays[0]} belongs to no package, so a view cannot bring it", "use FLUX_IMAGE")
    label = layers.key(_VERSION, installed.path, installed.key, *names)
    layer = layers.cached(f"flux-view-{installed.version}-{label}", lambda out: _pack(installed, names, out, progress))
    return Image((layer,), env={"PATH": "/bin"}, labels={"org.opencontainers.image.title": "Flux view"})


def _pack(installed: FluxPrefix, names: list[str], out: Path, progress: Progress) -> None:
    with (
        progress.stage(f"make a view of Flux {installed.version}"),
        tempfile.TemporaryDirectory() as scratch,
    ):
        system, root = Path(scratch, "system"), Path(scratch, "root")
        with tarfile.open(debian.rootfs((*debian.PYTHON, *names), progress)) as archive:
            archive.extractall(system, members=_files(archive), filter="tar")
        tree = root / _TREE
        installed.copy(tree)
        _add_python(installed, system, tree)
        # Flux starts its own scripts with bash; last on the PATH, so that an image's own is found before it
        shutil.copy2(system / "usr/bin/bash", tree / "bin/bash")
        for path in sorted(path for path in tree.rglob("*") if not path.is_dir() or path.is_symlink()):
            _relocate(path, {str(installed.path): MOUNT, str(installed.python): _PYTHON})
        loader = Path(_patchelf("--print-interpreter", tree / "bin/flux")).name
        _link_programs(tree, loader)
        _add_libraries(tree, system, loader)
        prefix.compile_python(installed.python, tree, Path(MOUNT))
        (tree / _MARK).write_text(f"{MOUNT}\n")
        _make_mountable(root, debian.extracted(("busybox-static",), progress))
        layers.pack(root, out)


def _files(archive: tarfile.TarFile) -> Iterable[tarfile.TarInfo]:
    return (member for member in archive if member.isreg() or member.issym() or member.isdir() or member.islnk())


def _add_python(installed: FluxPrefix, system: Path, tree: Path) -> None:
    """Copy Flux's Python: its program out of the way of any PATH, its library where it looks for it from there."""
    program = installed.python.resolve()
    library = program.name  # python3.11
    shutil.copy2(system / program.relative_to("/"), tree / "libexec" / library)
    (tree / "python").symlink_to(f"libexec/{library}")
    layers.copy(
        system / "usr/lib" / library,
        tree / "lib" / library,
        skip=lambda name: not _UNUSED_MODULES.isdisjoint(name.parts) or name.name.startswith("config-"),
    )
    # With the standard library, and not beside Flux's own packages: those may come to be on the PYTHONPATH of a
    # user's Python, which must not get another YAML by it.
    for path in installed.modules.values():
        source = path.parent if path.name == "__init__.py" else path
        target = tree / "lib" / library / source.name
        if source.is_dir():
            layers.copy(source, target, skip=lambda name: "__pycache__" in name.parts)
        else:
            shutil.copy2(source, target)


def _relocate(path: Path, names: dict[str, str]) -> None:
    """Replace paths in a file or a link; in a program by what is no longer, so that nothing moves."""
    pattern = re.compile("|".join(f"{re.escape(name)}(?![\\w.-])" for name in names).encode())
    if path.is_symlink():
        target = os.fsencode(path.readlink())
        if pattern.match(target):
            place = target.decode().removeprefix(next(name for name in names if target.decode().startswith(name)))
            path.unlink()
            path.symlink_to(os.path.relpath(_root_of(path) / place.lstrip("/"), path.parent))
        return
    content = path.read_bytes()
    if not pattern.search(content):
        return
    binary = content.startswith(b"\x7fELF")

    def replace(match: re.Match[bytes]) -> bytes:
        replacement = names[match.group().decode()].encode()
        if not binary:
            return replacement
        # more slashes than needed mean the same to the kernel; after the last name there must be none
        ends = match.string[match.end() : match.end() + 1] in (b"\0", b"")
        return replacement.ljust(len(match.group()), b"\0" if ends else b"/")

    mode = path.stat().st_mode
    path.write_bytes(pattern.sub(replace, content))
    path.chmod(mode)


def _root_of(path: Path) -> Path:
    """The view's tree that a path is in."""
    return next(parent for parent in path.parents if parent.match(str(_TREE)))


def _link_programs(tree: Path, loader: str) -> None:
    """Let Flux and Python look for libraries in the view, before anything that a user's environment says."""
    for path in tree.rglob("*"):
        if not prefix.is_elf(path) or "lib-dynload" in path.parts:
            continue
        words = ["--force-rpath", "--set-rpath", f"{MOUNT}/lib"]
        if process.works(["patchelf", "--print-interpreter", path]):  # a program, not a library
            words += ["--set-interpreter", f"{MOUNT}/lib/{loader}"]
        _patchelf(*words, path)


def _add_libraries(tree: Path, system: Path, loader: str) -> None:
    """Copy every library that anything in the view needs, and what those need, with the loader that fits them."""
    folders = [*system.glob("usr/lib/*-linux-gnu*"), system / "usr/lib"]
    todo = [path for path in tree.rglob("*") if prefix.is_elf(path)]
    wanted = {loader}
    while todo or wanted:
        for name in wanted:
            target = tree / "lib" / name
            if not target.exists():
                source = next((folder / name for folder in folders if (folder / name).exists()), None)
                if source is None:
                    raise DevClusterError(f"a view needs {name}, and none of its packages has it")
                shutil.copy2(source, target)
                todo.append(target)
        wanted = {name for path in todo for name in _patchelf("--print-needed", path).split()}
        todo = []


def _patchelf(*words: str | Path) -> str:
    return process.output(["patchelf", *words]).strip()


def _make_mountable(root: Path, tools: Path) -> None:
    """Give the image the paths that a mount of it needs, and a shell for the init container that copies it."""
    for path in sorted((root / _TREE).iterdir()):
        if path.name not in {"bin", "etc", _MARK}:
            (root / path.name).symlink_to(_TREE / path.name)
    for name in ("bin", "etc"):  # a container's own, besides
        (root / name).mkdir()
        for path in sorted((root / _TREE / name).iterdir()):
            (root / name / path.name).symlink_to(Path("..", _TREE, name, path.name))
    with tarfile.open(tools) as archive:
        member = next(member for member in archive if member.name.endswith("/busybox"))
        content = archive.extractfile(member)
        assert content is not None  # noqa: S101 - it is a plain file
        (root / "bin/busybox").write_bytes(content.read())
    (root / "bin/busybox").chmod(0o755)
    for name in _TOOLS:
        (root / "bin" / name).symlink_to("busybox")
