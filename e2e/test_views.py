"""Flux in an application's image that has none: copied from a view image, or mounted from it."""

from __future__ import annotations

import pytest

from e2e.kit import Cluster, Namespace
from kueue_flux.devcluster import kind
from kueue_flux.devcluster.images import app_image
from kueue_flux.devcluster.progress import Progress

pytestmark = pytest.mark.real_flux


@pytest.fixture(scope="module")
def bare(cluster: Cluster) -> str:
    """A bare Debian in the cluster: no Flux, no Python."""
    reference = app_image(Progress())
    kind.load_image(cluster.name, reference)
    return reference


WAYS = pytest.mark.parametrize("way", [(), ("--flux-volume",)], ids=["copied", "mounted"])


@WAYS
def test_flux_comes_from_a_view(namespace: Namespace, view: str, bare: str, way: tuple[str, ...]):
    command = ("sh", "-c", "command -v python3; hostname")
    flags = ("--name", "viewed", "--flux-image", view, *way, "--wait")
    ran = namespace.submit(*command, size=2, image=bare, flags=flags)
    assert ran.code == 0, ran.err
    assert sorted(ran.lines) == ["viewed-0", "viewed-1"], "Flux's Python is not the application's"
    spec = namespace.lead("viewed")["spec"]
    assert bool(spec.get("initContainers")) == (not way)
    assert any("image" in volume for volume in spec["volumes"]) == bool(way)


@WAYS
def test_an_image_that_runs_as_a_user_with_a_python_of_its_own(
    namespace: Namespace, view: str, image_without_flux: str, way: tuple[str, ...]
):
    program = "import os, structlog; print(os.getuid(), structlog.__name__)"
    flags = ("--flux-image", view, *way, "--wait")
    ran = namespace.submit("python3", "-c", program, size=2, image=image_without_flux, flags=flags)
    assert ran.code == 0, ran.err
    assert ran.lines == ["65532 structlog"] * 2


def test_a_view_image_without_a_view_ends_it_at_once(namespace: Namespace, bare: str):
    ran = namespace.submit("hostname", image=bare, flags=("--name", "blank", "--flux-image", bare, "--wait"))
    assert ran.code == 1
    assert "Container flux-view for pod" in namespace.message("blank", "Finished")
    assert namespace.get("Job", "blank")["status"]["failed"] == 1
