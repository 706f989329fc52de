"""What the stores keep of each object: all that is read, and nothing that is big."""

from typing import Any

from kueue_flux.controller import pods
from kueue_flux.controller.resources import (
    FOREIGN_WRITERS,
    REQUEST,
    keep_job,
    keep_minicluster,
    keep_pod,
    keep_workload,
)
from kueue_flux.kueue import workload as kueue
from kueue_flux.kueue.capacity import read_request
from tests import builders
from tests.builders import minicluster

MC = minicluster().queue("q")
JOB = builders.job(MC).started().complete()


def bulky(obj: dict[str, Any]) -> dict[str, Any]:
    """The object with what real ones carry along."""
    obj["metadata"]["managedFields"] = [{"manager": "someone", "fieldsV1": {"f:spec": {}}}]
    obj["metadata"]["selfLink"] = "/somewhere"
    obj.setdefault("spec", {})["template"] = {"spec": {"containers": ["x" * 1000]}}
    return obj


def test_a_workload_is_read_the_same_from_what_is_kept() -> None:
    for built in (
        builders.workload(JOB),
        builders.workload(JOB).waiting(),
        builders.workload(JOB).reserved().condition("Admitted", "False"),
        builders.workload(JOB).admitted(3),
        builders.workload(JOB).admitted().evicted(),
        builders.workload(JOB).admitted().finished(),
        builders.workload(JOB).spec(active=False, priority=7),
    ):
        kept = keep_workload(bulky(built.obj()))
        assert kueue.read(kept) == kueue.read(built.obj())
        assert kueue.job_uid(kept) == JOB.obj()["metadata"]["uid"]
        assert "template" not in str(kept)
        assert kept[REQUEST] == read_request(built.obj())


def test_a_pod_is_read_the_same_from_what_is_kept() -> None:
    for built in (
        builders.pod(JOB, 2),
        builders.pod(JOB).unscheduled(),
        builders.pod(JOB).waiting_for("ErrImagePull", container="initContainerStatuses"),
        builders.pod(JOB).ready(),
        builders.pod(JOB).ended(3, "exit-code=3\nreason=CommandFailed\n"),
    ):
        kept = keep_pod(bulky(built.condition("Initialized").obj()))
        assert pods.read(kept, "flux") == pods.read(built.obj(), "flux")
        assert "spec" not in kept


def test_a_job_keeps_its_size_and_status() -> None:
    kept = keep_job(bulky(JOB.obj()))
    assert kept["spec"] == {"suspend": False, "parallelism": 4, "completions": 4}
    assert kept["status"] == JOB.obj()["status"]
    assert keep_job({"metadata": {"name": "new"}}) == {"metadata": {"name": "new"}, "spec": {}, "status": {}}


def test_metadata_keeps_what_tells_objects_apart_and_drops_the_rest() -> None:
    for keep, built in ((keep_minicluster, MC), (keep_job, JOB), (keep_pod, builders.pod(JOB))):
        obj = built.obj()
        kept = keep(bulky(built.obj()))["metadata"]
        assert kept == obj["metadata"]
        assert keep(built.meta(deletionTimestamp=builders.AT).obj())["metadata"]["deletionTimestamp"] == builders.AT
        del built._obj["metadata"]["deletionTimestamp"]


def written_by(*managers: tuple[str, str | None]) -> dict[str, Any]:
    obj = MC.obj()
    entries = [
        {"manager": manager, "subresource": part} if part else {"manager": manager} for manager, part in managers
    ]
    obj["metadata"]["managedFields"] = entries
    return keep_minicluster(obj)


def test_other_writers_of_the_status_are_noticed() -> None:
    assert FOREIGN_WRITERS not in written_by()
    assert FOREIGN_WRITERS not in written_by(("kubectl", None), ("kueue-flux", "status"))
    assert FOREIGN_WRITERS not in written_by(("kubectl", "scale"))
    found = written_by(("manager", "status"), ("kueue-flux", "status"), ("another", "status"))
    assert set(found[FOREIGN_WRITERS]) == {"another", "manager"}
    assert "managedFields" not in found["metadata"]


def test_the_last_time_of_a_writer_counts() -> None:
    obj = MC.obj()
    times = ("2030-01-31T12:00:02Z", "2030-01-31T12:00:03Z", "2030-01-31T12:00:01Z")
    obj["metadata"]["managedFields"] = [{"manager": "m", "subresource": "status", "time": time} for time in times]
    assert keep_minicluster(obj)[FOREIGN_WRITERS] == {"m": "2030-01-31T12:00:03Z"}
