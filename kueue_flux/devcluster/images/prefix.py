"""A Flux that is installed on this machine: where it is, and what it needs to run somewhere else.

What it needs is read off its files (ldd) and its Python, and traced back to the machine's packages, rather than
listed here: a Flux built elsewhere links other libraries.
"""

import json
import os
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kueue_flux.devcluster import packages, process
from kueue_flux.devcluster.errors import CommandFailed, DevClusterError
from kueue_flux.devcluster.images import debian, layers

# what Flux's own Python code imports beyond the standard library
_MODULES = ("_cffi_backend", "cffi", "pycparser", "yaml", "ply")
# of no use to a running Flux, by path below the prefix
_SKIPPED_FOLDERS = ("include", "lib/pkgconfig", "lib/systemd", "lib/tmpfiles.d", "share/man", "share/doc")
_SKIPPED_SUFFIXES = {".a", ".la", ".pyc"}
# where an installation is mixed with everything else on the machine
_SYSTEM = (Path("/"), Path("/usr"))

_ASK_PYTHON = """
import importlib.util, json, sys
specs = {name: importlib.util.find_spec(name) for name in sys.argv[1:]}
print(json.dumps({"executable": sys.executable, "modules": {n: s.origin for n, s in specs.items() if s}}))
"""


@dataclass(frozen=True)
class FluxPrefix:
    """A folder that holds an installed Flux.

    Args:
        path: the folder, as it was configured (`--prefix`); Flux has it compiled in.
    """

    path: Path

    @property
    def flux(self) -> Path:
        """The command."""
        return self.path / "bin/flux"

    @cached_property
    def key(self) -> str:
        """A short name for its content."""
        return layers.tree_key(self.path, skip=_skipped)

    @cached_property
    def version(self) -> str:
        """Its version, for example `0.88.0`."""
        words = process.output([self.flux, "--version"]).split()
        return words[words.index("libflux-core:") + 1]

    @cached_property
    def python(self) -> Path:
        """The Python that Flux was built for."""
        return Path(self._python["executable"])

    @cached_property
    def modules(self) -> dict[str, Path]:
        """The modules Flux imports that neither it nor the standard library has, by name."""
        return {name: Path(origin) for name, origin in self._python["modules"].items()}

    @cached_property
    def _python(self) -> dict[str, Any]:
        answer = process.output([self.flux, "python", "-c", _ASK_PYTHON, *_MODULES])
        return dict(json.loads(answer))

    @cached_property
    def libraries(self) -> list[Path]:
        """The shared libraries that its programs and modules load from outside it.

        Raises:
            DevClusterError: one of them is not on this machine.
        """
        files = [path for path in self.path.rglob("*") if is_elf(path)]
        found = libraries([*files, *(path for path in self.modules.values() if is_elf(path))])
        return [path for path in found if not path.is_relative_to(self.path)]

    @cached_property
    def needs(self) -> tuple[list[str], list[Path]]:
        """The Debian packages it needs, and the files it needs that belong to none."""
        return debian.owners([*self.libraries, self.python, *self.modules.values()])

    def copy(self, target: Path) -> None:
        """Copy what a running Flux needs, without debugging symbols and with its Python code compiled.

        Compiled here since in a container nobody could keep the result: rc1 and rc3 are Python.

        Args:
            target: the folder to copy into; made here.
        """
        layers.copy(self.path, target, skip=_skipped)
        if packages.find("strip"):
            for path in target.rglob("*"):
                if is_elf(path):
                    process.output(["strip", "--strip-unneeded", path])
        compile_python(self.python, target, self.path)


def find() -> FluxPrefix | None:
    """The Flux that `FLUX_PREFIX` names, else the one on PATH; None where there is neither.

    Raises:
        DevClusterError: `FLUX_PREFIX` names no Flux, or the Flux on PATH cannot be told from the system.
    """
    named = os.environ.get("FLUX_PREFIX")
    if named:
        prefix = Path(named).resolve()
        remedy = "set FLUX_PREFIX to the folder that holds bin/flux, or unset it"
    else:
        command = shutil.which("flux")
        if command is None or not _is_flux_core(command):
            return None
        prefix = Path(command).resolve().parent.parent
        remedy = "set FLUX_IMAGE to an image with Flux, or FLUX_PREFIX to a Flux in a folder of its own"
    if not os.access(prefix / "bin/flux", os.X_OK):
        raise DevClusterError(f"FLUX_PREFIX={named} has no bin/flux", remedy)
    if prefix in _SYSTEM:
        raise DevClusterError(f"the Flux in {prefix} cannot be told from the rest of the machine", remedy)
    return FluxPrefix(prefix)


def libraries(files: list[Path]) -> list[Path]:
    """The shared libraries that ELF files load, directly or not (ldd(1)).

    Args:
        files: programs, libraries and modules.

    Raises:
        DevClusterError: one of them is not on this machine.
    """
    found = set()
    for file in files:
        try:
            lines = process.output(["ldd", file]).splitlines()
        except CommandFailed as error:
            if "not a dynamic executable" in error.output:
                continue
            raise
        for line in lines:
            name, _, rest = line.strip().partition(" => ")
            if rest.startswith("not found"):
                raise DevClusterError(f"{file} needs {name}, which is not on this machine", "install it")
            location = (rest or name).split(" (")[0]
            if location.startswith("/"):  # else the kernel's own linux-vdso
                found.add(Path(location))
    return sorted(found)


def is_elf(path: Path) -> bool:
    """Whether a path is a program, a library or a module for this machine.

    Args:
        path: any path; a link is none.
    """
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def compile_python(python: Path, folder: Path, final: Path) -> None:
    """Compile all Python code below a folder, so that the result holds wherever and whenever it is unpacked.

    Args:
        python: the interpreter that will run it.
        folder: where the code is now.
        final: where it will be, for tracebacks.
    """
    how = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    process.output([python, *how, "-s", folder, "-p", final, folder])


def _skipped(name: Path) -> bool:
    return (
        name.suffix in _SKIPPED_SUFFIXES
        or name.name == "__pycache__"
        or any(name.is_relative_to(folder) for folder in _SKIPPED_FOLDERS)
    )


def _is_flux_core(command: str) -> bool:
    """Tell Flux from FluxCD, whose command has the same name."""
    try:
        return "libflux-core" in process.output([command, "--version"], timeout=30)
    except CommandFailed:
        return False
