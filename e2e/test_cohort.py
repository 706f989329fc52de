"""Two teams share a cohort, each with a FluxSetup: one takes back what it has lent, and the other goes on smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.kit import UNTIL_TOLD, Namespace
from tests.control_plane.kit import is_true, wait_for

pytestmark = pytest.mark.real_flux

SETUP = "flux-framework.org/v1alpha2"
DEFAULT = "default"  # given by Kueue to whoever names no queue
# Runs until it is told, and then says which nodes it has: on the lead alone, of all that were admitted.
NODES = ("sh", "-c", f"{UNTIL_TOLD[2]}; flux resource list -n -o {{nnodes}} -s all")


def setup(namespace: Namespace, cohort: str, cpu: str) -> dict[str, Any]:
    """A FluxSetup of one namespace; what it does not name, the cohort does not count."""
    return {
        "apiVersion": SETUP,
        "kind": "FluxSetup",
        "metadata": {"name": f"s-{namespace.name}"},
        "spec": {"namespaces": [namespace.name], "cohort": cohort, "quota": {"cpu": cpu}},
    }


@pytest.fixture
def teams(make_namespace: Callable[..., Namespace]) -> Iterator[tuple[Namespace, Namespace]]:
    """Two namespaces, each with a FluxSetup of 200m cpu and a LocalQueue `default`, in one cohort."""
    both = make_namespace(), make_namespace()
    made = [setup(namespace, both[0].name, "200m") for namespace in both]
    for namespace, obj in zip(both, made, strict=True):
        namespace.api.create(obj)
    for namespace in both:
        wait_for("its queue", lambda found=namespace: is_true(found.get("LocalQueue", DEFAULT), "Active"), timeout=60)
    yield both
    for namespace, obj in zip(both, made, strict=True):
        namespace.api.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace.name}})
        namespace.api.delete(obj)


def test_who_borrowed_comes_back_smaller_when_it_is_reclaimed(teams: tuple[Namespace, Namespace]):
    borrower, owner = teams
    flags = ("--min-size", "2", "--tasks", "1", "--cpu", "100m")
    borrower.start("sim", *NODES, flags=flags, size=4, queue=None)
    borrower.wait_running("sim")
    first = borrower.certificate("sim")
    with borrower.beside("status", "sim", "--watch") as watching:
        watching.wait_says("it borrows cpu 200m of cohort")
        owner.start("urgent", *UNTIL_TOLD, flags=("--cpu", "100m"), size=2, queue=None)
        owner.wait_running("urgent")
        borrower.wait_for("the second admission", lambda: borrower.minicluster("sim")["status"]["admissions"] == 2)
        borrower.wait_running("sim")
        assert borrower.minicluster("sim")["status"]["size"] == 2
        assert borrower.certificate("sim") != first
        borrower.release("sim")
        borrower.wait_succeeded("sim")
        said = watching.ended(timeout=30).out
    assert borrower.kueue_flux("logs", "sim").lines[-1].strip() == "2"
    owner.release("urgent")
    owner.wait_succeeded("urgent")

    steps = ["running on 4 nodes", "evicted", "admitted with 2 of 4 nodes", "new certificate", "running on 2 nodes"]
    places = [said.find(step) for step in (*steps, "succeeded")]
    assert -1 not in places, said
    assert places == sorted(places), said
    print(said)  # what its user saw, for `pytest -rP`
