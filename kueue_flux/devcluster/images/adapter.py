"""The controller's image, made of this checkout so that a cluster runs the code at hand.

Dependencies and our own package are two layers: a change of code makes only the second one anew, in a second.
The layout is the Dockerfile's, which is used where a registry answers.
"""

import platform
import sys
import tempfile
import tomllib
from pathlib import Path

import kueue_flux
from kueue_flux.devcluster import process
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.images import debian, layers, store
from kueue_flux.devcluster.images.archive import PATH, Image, Layer
from kueue_flux.devcluster.images.prefix import compile_python
from kueue_flux.devcluster.progress import Progress

_HOME = Path("opt/kueue-flux")
_COMMAND = "kueue-flux-controller"
_USER = "65532:65532"  # "nonroot" in many images; named by number so that a kubelet can see that it is not root
_LEFT_OUT = {"devcluster", "__pycache__"}  # what brings the cluster up does not run in it; also in .dockerignore
# What only the user's command needs; and the typed clients of all API groups, 100 MB that the controller never
# imports since it speaks raw JSON. The Dockerfile leaves out the same.
_COMMAND_LINE_ONLY = ("cryptography", "httpx", "kr8s", "rich", "typer")
_UNUSED = ("kubernetes/**/client/api/*.py", "kubernetes/**/client/models/*.py")
_VERSION = 1  # raised when the same sources would become another image


def adapter_image(progress: Progress) -> str:
    """The controller's image.

    Args:
        progress: told what is done.

    Returns:
        Its reference in the engine; the tag changes with the code.

    Raises:
        DevClusterError: this is no checkout, or a dependency cannot be fetched.
    """
    root = checkout()
    dockerfile = root / "Dockerfile"
    bases = [line.split()[1] for line in dockerfile.read_text().splitlines() if line.startswith("FROM ")]
    if all(store.pull(base, progress) is None for base in dict.fromkeys(bases)):
        reference = f"{store.REPOSITORY}/adapter:{_source_key(root, dockerfile.read_text())}"
        if not store.present(reference):
            store.build([str(root)], reference, progress)
        return reference
    return store.load("adapter", assemble(root, progress), progress)


def checkout() -> Path:
    """The folder of this project's sources.

    Raises:
        DevClusterError: the package was installed without them.
    """
    root = Path(kueue_flux.__file__).resolve().parents[1]
    if not (root / "pyproject.toml").exists() or not (root / "constraints.txt").exists():
        raise DevClusterError(
            "the controller's image is made of a checkout, and kueue-flux was installed without one",
            "clone the project and run `pip install --editable .` in it",
        )
    return root


def assemble(root: Path, progress: Progress) -> Image:
    """The controller's image without a registry: Debian's Python, and packages for it from a Python index.

    Args:
        root: the checkout.
        progress: told what is done.
    """
    code = layers.cached(f"adapter-{_source_key(root, _VERSION)}", lambda out: _pack_code(root, out, progress))
    python_path = ":".join(f"/{_HOME}/{name}" for name in ("app", "lib"))
    return Image(
        (*debian.python_layers(progress), _dependencies(root, progress), code),
        env={"PATH": PATH, "PYTHONPATH": python_path, "PYTHONUNBUFFERED": "1"},
        user=_USER,
        entrypoint=(_COMMAND,),
        labels={"org.opencontainers.image.title": "kueue-flux"},
    )


def _source_key(root: Path, *more: object) -> str:
    parts = [(root / name).read_text() for name in ("pyproject.toml", "constraints.txt")]
    return layers.key(*parts, layers.tree_key(root / "kueue_flux", skip=_left_out), *more)


def _left_out(name: Path) -> bool:
    return not _LEFT_OUT.isdisjoint(name.parts)


def _dependencies(root: Path, progress: Progress) -> Layer:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = [item for item in project["dependencies"] if not item.startswith(_COMMAND_LINE_ONLY)]
    pins = root / "constraints.txt"
    version = _python_version()
    name = layers.key(_VERSION, *wanted, *_UNUSED, pins.read_text(), version, platform.machine())

    def make(out: Path) -> None:
        with (
            progress.stage("install the controller's dependencies") as stage,
            tempfile.TemporaryDirectory() as scratch,
        ):
            target = Path(scratch, _HOME, "lib")
            command = [sys.executable, "-m", "pip", "install", "--no-compile", "--only-binary=:all:"]
            command += ["--target", str(target), "--constraint", str(pins), *_tags(version), *wanted]
            process.stream(command, stage.update)
            for unused in (path for pattern in _UNUSED for path in target.glob(pattern)):
                if unused.name != "__init__.py":
                    unused.unlink()
            compile_python(debian.python(), target, Path("/", _HOME, "lib"))
            layers.pack(Path(scratch), out)

    return layers.cached(f"adapter-dependencies-{name}", make)


def _python_version() -> str:
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    return process.output([debian.python(), "-c", program]).strip()


def _tags(version: str) -> list[str]:
    """Tell pip for which Python it chooses wheels, where that is not the one it runs on (PEP 600 for the names)."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return []
    minor = int(platform.libc_ver()[1].split(".")[1])
    platforms = [f"manylinux_2_{number}_{platform.machine()}" for number in range(minor, 4, -1)]
    platforms += [f"manylinux2014_{platform.machine()}"]
    return ["--python-version", version, *(word for name in platforms for word in ("--platform", name))]


def _pack_code(root: Path, out: Path, progress: Progress) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        package = Path(scratch, _HOME, "app", "kueue_flux")
        layers.copy(root / "kueue_flux", package, skip=_left_out)
        compile_python(debian.python(), package, Path("/", _HOME, "app", "kueue_flux"))
        script = Path(scratch, "usr/local/bin", _COMMAND)
        script.parent.mkdir(parents=True)
        script.write_text("#!/usr/bin/env python3\nfrom kueue_flux.controller.main import main\n\nmain()\n")
        script.chmod(0o755)
        layers.pack(Path(scratch), out)
