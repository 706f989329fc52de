"""Layers as tar files, each made once and kept in the cache under a name that says what went into it."""

import fcntl
import hashlib
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy as copied
from pathlib import Path

from kueue_flux.devcluster import paths
from kueue_flux.devcluster.images.archive import Layer

# the time of everything that we put into a layer ourselves: the same tree gives the same digest (2024-01-01)
_EPOCH = 1704067200


def key(*parts: object) -> str:
    """A short name for what went into something.

    Args:
        parts: anything whose text tells it apart.
    """
    return hashlib.sha256("\0".join(str(part) for part in parts).encode()).hexdigest()[:12]


def tree_key(folder: Path, *, skip: Callable[[Path], bool] = lambda path: False) -> str:
    """A short name for the content of a folder: paths, modes, link targets and bytes.

    Args:
        folder: the folder.
        skip: told each path relative to the folder; True leaves it out.
    """
    digest = hashlib.sha256()
    for path in _walk(folder):
        name = path.relative_to(folder)
        if skip(name) or (path.is_dir() and not path.is_symlink()):
            continue
        content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        digest.update(f"{name}\0{path.lstat().st_mode:o}\0".encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()[:12]


def folder() -> Path:
    """Where layers are kept."""
    path = paths.cache_dir() / "layers"
    path.mkdir(exist_ok=True)
    return path


def cached(name: str, make: Callable[[Path], None]) -> Layer:
    """The layer of this name, made where the cache has none.

    Args:
        name: what it is and a key of everything that went into it; also the file's name.
        make: writes the tar file to the path it is given.
    """
    path = folder() / f"{name}.tar"
    digest = path.with_suffix(".sha256")
    with _locked(name):  # two processes that made it at once would mix up tar file and digest
        if not (path.exists() and digest.exists()):
            partial = path.with_suffix(".partial")  # renamed when whole, so that no interruption leaves half of it
            try:
                make(partial)
                with partial.open("rb") as file:
                    text = hashlib.file_digest(file, "sha256").hexdigest()
                digest.write_text(text)
                partial.rename(path)
            finally:
                partial.unlink(missing_ok=True)
        return Layer(path, digest.read_text())


@contextmanager
def _locked(name: str) -> Iterator[None]:
    with (folder() / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def copy(source: Path, target: Path, *, skip: Callable[[Path], bool]) -> None:
    """Copy a folder; links stay links.

    Args:
        source: the folder.
        target: the folder its content goes to; made where it is missing.
        skip: told each path relative to the source; True leaves it out.
    """

    def ignore(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if skip(Path(folder, name).relative_to(source))}

    shutil.copytree(source, target, symlinks=True, ignore=ignore, dirs_exist_ok=True)


def pack(root: Path, out: Path, *, owners: Mapping[Path, int] | None = None) -> None:
    """Write a folder as a layer: owned by root, with one time for all, in the order of its names.

    Args:
        root: the folder, which becomes the root of the image.
        out: the tar file.
        owners: user ids of what does not belong to root, by path below the folder.
    """
    with tarfile.open(out, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in _walk(root):
            name = path.relative_to(root)
            member = archive.gettarinfo(path, str(name))
            member.uid = member.gid = (owners or {}).get(name, 0)
            member.uname = member.gname = ""
            member.mtime = _EPOCH
            if member.islnk():  # gettarinfo found the same file twice; a copy keeps members independent
                member.type, member.size = tarfile.REGTYPE, path.stat().st_size
            if member.isreg():
                with path.open("rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)


def difference(lower: Path, upper: Path, out: Path) -> None:
    """Write the layer that turns one root filesystem into another.

    Args:
        lower: tar file of the first.
        upper: tar file of the second.
        out: the layer; what the second lacks appears as a whiteout (opencontainers/image-spec, layer.md).
    """
    with (
        tarfile.open(lower) as below,
        tarfile.open(upper) as above,
        tarfile.open(out, "w", format=tarfile.PAX_FORMAT) as archive,
    ):
        known = {_name(member): member for member in below}
        present = set()
        for member in above:
            name = _name(member)
            present.add(name)
            if name in known and _same(below, known[name], above, member):
                continue
            content = above.extractfile(member) if member.isreg() or member.islnk() else None
            written = copied(member)  # links to it are looked up by the name that it has
            written.name = name
            if member.islnk():  # what it links to may be in the layer below, where tar cannot reach it
                written.size, written.type = _target(above, member).size, tarfile.REGTYPE
            archive.addfile(written, content)
        for name in sorted(set(known) - present):
            if str(Path(name).parent) in present or Path(name).parent == Path():  # else its folder went, and it
                path = Path(name)
                archive.addfile(tarfile.TarInfo(str(path.with_name(f".wh.{path.name}"))))


def _same(below: tarfile.TarFile, one: tarfile.TarInfo, above: tarfile.TarFile, two: tarfile.TarInfo) -> bool:
    if two.isdir():  # times of folders differ from run to run, and matter to nobody
        return one.isdir() and (one.mode, one.uid, one.gid) == (two.mode, two.uid, two.gid)
    fields = ("type", "mode", "uid", "gid", "size", "linkname")
    if any(getattr(one, name) != getattr(two, name) for name in fields):
        return False
    return not two.isreg() or _content(below, one) == _content(above, two)


def _target(archive: tarfile.TarFile, link: tarfile.TarInfo) -> tarfile.TarInfo:
    return archive.getmember(link.linkname)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file else b""


def _name(member: tarfile.TarInfo) -> str:
    return member.name.removeprefix("./") or "."


def _walk(root: Path) -> Iterator[Path]:
    """Every path below a folder, folders before what they hold, sorted; links to folders are not followed."""
    for path in sorted(root.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
