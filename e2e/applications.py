"""Applications for the examples, of Debian's packages, where the images that the examples name cannot be had.

They stand in for those images alone: what runs in them is the real thing. Each is made once and kept in the cache.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kueue_flux.devcluster import kind
from kueue_flux.devcluster.images import debian, flux, layers, prefix, store
from kueue_flux.devcluster.images.archive import PATH, Image, Layer
from kueue_flux.devcluster.progress import Progress

LAMMPS = ("lammps", "openmpi-bin")
SNAKEMAKE = ("snakemake",)
CONTAINERS = ("squashfs-tools", "tzdata")  # what an Apptainer without setuid needs beside itself

# Debian's LAMMPS has no ReaxFF: a Lennard-Jones melt of the same size stands where examples/mpi expects its input.
MELT = """\
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 $(4*v_x) 0 $(4*v_y) 0 $(4*v_z)
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
thermo 20
run 100
"""


def lammps(cluster: str) -> str:
    """LAMMPS with Open MPI and Flux; in it the input that examples/mpi runs."""

    def fill(root: Path) -> None:
        folder = root / "opt/lammps/examples/reaxff/HNS"
        folder.mkdir(parents=True)
        (folder / "in.reaxc.hns").write_text(MELT)

    return _beside_flux(cluster, "lammps", LAMMPS, _tree("lammps-input", MELT, fill))


def snakemake(cluster: str) -> str:
    """Snakemake, with Flux and its Python bindings where Debian's Python finds them."""

    def fill(root: Path) -> None:
        (root / "usr/bin").mkdir(parents=True)
        (root / "usr/bin/python").symlink_to("python3")  # Snakemake starts its steps by this name, which Debian has not

    return _beside_flux(cluster, "snakemake", SNAKEMAKE, _tree("python", "python3", fill))


def singularity(cluster: str) -> str:
    """The machine's own Apptainer, by its other name too, and an image file of Debian's essential packages."""
    program = shutil.which("apptainer")
    if program is None:
        pytest.skip("there is no apptainer on PATH, and Debian has no package of it")
    if shutil.which("mksquashfs") is None:
        pytest.skip("an image file is made by mksquashfs, of the package squashfs-tools")
    installed = Path(program).resolve().parents[1]
    progress = Progress()
    base = debian.base(progress)

    def fill(root: Path) -> None:
        place = root / installed.relative_to("/")
        shutil.copytree(installed, place, symlinks=True)
        programs = root / "usr/local/bin"
        programs.mkdir(parents=True)
        for name in ("singularity", "apptainer"):
            (programs / name).symlink_to(installed / "bin/apptainer")
        (root / "var/apptainer/mnt/session").mkdir(parents=True)
        (root / "opt/images").mkdir(parents=True)
        _image_file(program, base.path, root / "opt/images/app.sif")

    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    tools = debian.with_packages("containers", CONTAINERS, progress)
    tree = _tree("apptainer", f"{version} {installed} {base.digest}", fill)
    return _loaded(cluster, "singularity", Image((base, tools, tree), env={"PATH": PATH}, command=("/bin/bash",)))


def _image_file(apptainer: str, rootfs: Path, out: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["tar", "-xf", rootfs, "-C", scratch, "--exclude=./dev/*"], check=True)
        subprocess.run([apptainer, "--quiet", "build", out, scratch], check=True)


def _beside_flux(cluster: str, title: str, packages: tuple[str, ...], *more: Layer) -> str:
    installed = prefix.find()
    if installed is None:
        pytest.skip("an application beside Flux needs an installed one: FLUX_PREFIX, or a flux on PATH")
    progress = Progress()
    image = flux.assemble(installed, progress)
    below = (*debian.PYTHON, *installed.needs[0])
    application = debian.with_packages(title, packages, progress, below=below)
    bindings = next(installed.path.glob("lib/python3*/site-packages"))
    env = {**image.env, "PYTHONPATH": str(bindings)}
    return _loaded(cluster, title, Image((*image.layers, application, *more), env=env, command=image.command))


def _tree(title: str, content: str, fill: Callable[[Path], None]) -> Layer:
    def make(out: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            fill(Path(scratch))
            layers.pack(Path(scratch), out)

    return layers.cached(f"{title}-{layers.key(content)}", make)


def _loaded(cluster: str, title: str, image: Image) -> str:
    progress = Progress()
    reference = store.load(title, image, progress)
    kind.load_image(cluster, reference, progress)
    return reference
