"""The examples, as they are but for images that cannot be had here: each prints what its comments promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import applications
from e2e.kit import Namespace, as_yaml
from tests.control_plane.kit import QUEUE, QUEUE_LABEL

EXAMPLES = Path(__file__).parents[1] / "examples"
TITLE = "<title>Directory listing for /</title>"

pytestmark = [pytest.mark.real_flux, pytest.mark.extended]


def example(namespace: Namespace, folder: str, web: str) -> dict[str, Any]:
    """An example's MiniCluster, with images and a queue that there are."""
    obj: dict[str, Any] = yaml.safe_load((EXAMPLES / folder / "minicluster.yaml").read_text())
    obj["metadata"]["labels"][QUEUE_LABEL] = QUEUE
    spec = obj["spec"]
    spec.setdefault("flux", {})["container"] = {"disable": True}
    for container in (*spec["containers"], *spec.get("services", [])):
        if container["image"] == "nginx":
            container |= {"image": web, "command": "exec python3 -m http.server 80"}
        else:
            container["image"] = namespace.cluster.flux.reference
    return obj


@pytest.mark.parametrize(
    ("folder", "output"),
    [
        ("volumes", ["hello from volumes-0", "hello from volumes-1"]),
        ("sidecar", [TITLE] * 2),
        ("services", [TITLE] * 2),
    ],
)
def test_it_prints_what_it_says(namespace: Namespace, image_without_flux: str, folder: str, output: list[str]):
    with_objects(namespace, folder)
    obj = example(namespace, folder, image_without_flux)
    ran = namespace.kueue_flux("submit", "-", "--wait", stdin=as_yaml(obj), timeout=240)
    assert ran.code == 0, ran.err
    assert sorted(ran.lines) == output


def test_the_watching_sidecar_has_seen_the_job(namespace: Namespace, image_without_flux: str):
    obj = example(namespace, "sidecar", image_without_flux)
    ran = namespace.kueue_flux("submit", "-", "--wait", stdin=as_yaml(obj), timeout=240)
    assert ran.code == 0, ran.err
    log = namespace.kubectl("logs", namespace.lead("sidecar")["metadata"]["name"], "-c", "watch")
    assert "NAME" in log
    assert "bash" in log


@pytest.mark.parametrize(
    ("file", "code", "output"),
    [
        ("minicluster", 0, [f"hello-{index}" for index in range(4)]),
        ("environment", 3, ["hello, world from /tmp"]),
    ],
)
def test_a_single_command(namespace: Namespace, file: str, code: int, output: list[str]):
    ran = namespace.run_example(f"single-command/{file}.yaml")
    assert (ran.code, sorted(ran.lines)) == (code, output), ran.err


def test_flux_is_in_the_image(namespace: Namespace):
    ran = namespace.run_example("single-command/flux-in-image.yaml")
    assert [row.split()[1] for row in ran.lines if row.split()[0] in ("free", "allocated")] == ["3", "1"], ran.out


def test_flux_is_on_an_image_volume(namespace: Namespace, view: str, image_without_flux: str):
    file, flags = str(EXAMPLES / "single-command" / "flux-image-volume.yaml"), ("--flux-image", view)
    ran = namespace.kueue_flux("submit", file, "-q", QUEUE, "-i", image_without_flux, *flags, "--wait")
    assert (ran.code, sorted(ran.lines)) == (0, ["flux-image-volume-0", "flux-image-volume-1"]), ran.err


@pytest.mark.quota(pods=3)
def test_fewer_nodes_where_quota_is_short(namespace: Namespace):
    ran = namespace.run_example("partial-admission/minicluster.yaml")
    assert ran.code == 0, ran.err
    nodes = {row[0]: int(row[1]) for row in map(str.split, ran.lines[1:])}
    assert nodes["free"] + nodes["allocated"] == 3, ran.out


@pytest.mark.quota(pods=4, preemption=True)
def test_the_urgent_one_ends_before_the_patient_one(namespace: Namespace):
    for obj in yaml.safe_load_all((EXAMPLES / "queue" / "queue.yaml").read_text()):
        if obj["kind"] == "WorkloadPriorityClass":
            namespace.api.apply(obj)
    image = ("-i", namespace.cluster.flux.reference, "--no-flux-view")
    ran = namespace.kueue_flux(
        "submit", str(EXAMPLES / "priority/minicluster.yaml"), "-q", QUEUE, *image, "--wait", timeout=300
    )
    assert ran.code == 0, ran.err
    ends = [namespace.get("MiniCluster", name)["status"]["completionTime"] for name in ("urgent", "patient")]
    assert ends == sorted(ends)


def with_objects(namespace: Namespace, folder: str) -> str:
    """Create what an example needs beside its MiniCluster; returns the path of that."""
    for file in EXAMPLES.glob(f"{folder}/*.yaml"):
        if file.name != "minicluster.yaml":
            for obj in yaml.safe_load_all(file.read_text()):
                namespace.create(obj)
    return str(EXAMPLES / folder / "minicluster.yaml")


def test_lammps_runs_as_one_mpi_job(namespace: Namespace):
    file, image = with_objects(namespace, "mpi"), applications.lammps(namespace.cluster.name)
    ran = namespace.kueue_flux("submit", file, "-q", QUEUE, "-i", image, "--no-flux-view", "--wait", timeout=240)
    assert ran.code == 0, ran.err
    assert "1 by 1 by 2 MPI processor grid" in ran.out, "the two ranks did not find each other"
    assert "Total wall time" in ran.out


def test_snakemake_submits_its_steps_to_flux(namespace: Namespace):
    file, image = with_objects(namespace, "workflow"), applications.snakemake(namespace.cluster.name)
    ran = namespace.kueue_flux("submit", file, "-q", QUEUE, "-i", image, "--no-flux-view", "--wait", timeout=240)
    assert ran.code == 0, ran.err
    assert "4 of 4 steps (100%) done" in ran.lines
    assert ran.lines[-1] == "a b c"


def test_a_singularity_container_runs_under_flux(namespace: Namespace, view: str):
    file, image = with_objects(namespace, "singularity"), applications.singularity(namespace.cluster.name)
    ran = namespace.kueue_flux("submit", file, "-q", QUEUE, "-i", image, "--flux-image", view, "--wait", timeout=240)
    assert ran.code == 0, ran.err
    assert ran.lines == ["hello from Debian GNU/Linux"] * 2
