"""The image in which Flux runs: found, assembled or fetched, and what it is said in words.

The order: an image that `FLUX_IMAGE` names; an installed Flux (`FLUX_PREFIX`, else a `flux` on PATH) with the
machine's own Debian packages around it; Flux's published image where a registry answers; a stand-in.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.images import debian, layers, prefix, standin, store
from kueue_flux.devcluster.images.archive import PATH, Image
from kueue_flux.devcluster.images.prefix import FluxPrefix
from kueue_flux.devcluster.progress import Progress

PUBLISHED = "fluxrm/flux-core:bookworm-v0.88.0-amd64"
USER = "flux"
USER_ID = 1000
_VERSION = 1  # raised when the same prefix would become another image


@dataclass(frozen=True)
class FluxImage:
    """An image with Flux in it.

    Args:
        reference: its name in the engine.
        origin: where it comes from, in words.
        real: False for the stand-in.
    """

    reference: str
    origin: str
    real: bool


def flux_image(progress: Progress) -> FluxImage:
    """The image with Flux that is best to be had here.

    Args:
        progress: told what is done.

    Raises:
        DevClusterError: `FLUX_IMAGE` or `FLUX_PREFIX` names something that is not there.
    """
    named = os.environ.get("FLUX_IMAGE")
    if named:
        problem = store.pull(named, progress)
        if problem:
            raise DevClusterError(f"FLUX_IMAGE={named} is not to be had: {problem}", "build, load or unset it")
        return FluxImage(named, f"real Flux, {named} (FLUX_IMAGE)", real=True)
    installed = prefix.find()
    if installed is not None:
        reference = store.load(f"flux:{installed.version}", assemble(installed, progress), progress)
        origin = f"real Flux {installed.version}, assembled from {installed.path} and this machine's packages"
        return FluxImage(reference, origin, real=True)
    problem = store.pull(PUBLISHED, progress)
    if problem is None:
        return FluxImage(PUBLISHED, f"real Flux, the published image {PUBLISHED}", real=True)
    why = f"no FLUX_IMAGE, no FLUX_PREFIX, no flux on PATH, and {PUBLISHED} is not to be had: {problem}"
    return FluxImage(standin.standin_image(progress), f"A STAND-IN, NOT FLUX ({why})", real=False)


def assemble(installed: FluxPrefix, progress: Progress) -> Image:
    """Flux with everything it needs, as layers on the base that all images share.

    Args:
        installed: the Flux.
        progress: told what is done.
    """
    names, strays = installed.needs
    libraries = debian.with_packages("flux-libraries", names, progress, below=debian.PYTHON)
    tree = layers.cached(
        f"flux-{installed.version}-{layers.key(_VERSION, installed.path, installed.key, *names, *strays)}",
        lambda out: _pack(installed, names, strays, out, progress),
    )
    env = {"PATH": f"{installed.path}/bin:{PATH}"}
    folders = sorted({str(path.parent) for path in strays if ".so" in path.name})
    if folders:
        env["LD_LIBRARY_PATH"] = ":".join(folders)
    title = f"Flux {installed.version} from {installed.path}"
    return Image(
        (*debian.python_layers(progress), libraries, tree),
        env=env,
        command=("/bin/bash",),
        labels={"org.opencontainers.image.title": title},
    )


def stray_layer(strays: list[Path], root: Path) -> None:
    """Copy files that belong to no package to the same place below a folder.

    Args:
        strays: the files; for a Python package its `__init__.py` stands for all of it.
        root: the folder.
    """
    for path in strays:
        source = path.parent if path.name == "__init__.py" else path
        target = root / source.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)


def _pack(installed: FluxPrefix, names: list[str], strays: list[Path], out: Path, progress: Progress) -> None:
    with (
        progress.stage(f"copy Flux {installed.version} from {installed.path}"),
        tempfile.TemporaryDirectory() as scratch,
    ):
        root = Path(scratch)
        installed.copy(root / installed.path.relative_to("/"))
        stray_layer(strays, root)
        for file, line in debian.accounts(USER, USER_ID).items():
            path = root / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(debian.read(file, (*debian.PYTHON, *names), progress) + line)
        (root / "home" / USER).mkdir(parents=True)
        layers.pack(root, out, owners={Path("home", USER): USER_ID})
