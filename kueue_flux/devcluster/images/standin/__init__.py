"""The stand-in's image, for machines where no Flux is at hand: named as a stand-in everywhere, never taken for Flux."""

import tempfile
from pathlib import Path

from kueue_flux.devcluster.images import debian, layers, store
from kueue_flux.devcluster.images.archive import Image
from kueue_flux.devcluster.images.prefix import compile_python
from kueue_flux.devcluster.progress import Progress

_PROGRAM = Path(__file__).with_name("flux_stand_in")
_HOME = "usr/local/lib/flux-stand-in"
_COMMAND = f"""#!/usr/bin/python3
import sys

sys.path.insert(0, "/{_HOME}")
from flux_stand_in.commands import main

sys.exit(main(sys.argv[1:]))
"""
_PACKAGES = ("python3-zmq",)


def standin_image(progress: Progress) -> str:
    """The image with the stand-in, where Flux would be found as well: /usr/local/bin/flux.

    Args:
        progress: told what is done.

    Returns:
        Its reference in the engine.
    """
    libraries = debian.with_packages("standin-libraries", _PACKAGES, progress, below=debian.PYTHON)
    program = layers.cached(f"standin-{layers.key(_COMMAND, layers.tree_key(_PROGRAM, skip=_is_cache))}", _pack)
    image = Image(
        (*debian.python_layers(progress), libraries, program),
        command=("/bin/bash",),
        labels={"org.opencontainers.image.title": "a STAND-IN for Flux"},
    )
    return store.load("flux-stand-in", image, progress)


def _is_cache(name: Path) -> bool:
    return "__pycache__" in name.parts


def _pack(out: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        package = Path(scratch, _HOME, _PROGRAM.name)
        layers.copy(_PROGRAM, package, skip=_is_cache)
        compile_python(debian.python(), package, Path("/", _HOME, _PROGRAM.name))
        command = Path(scratch, "usr/local/bin/flux")
        command.parent.mkdir()
        command.write_text(_COMMAND)
        command.chmod(0o755)
        layers.pack(Path(scratch), out)
