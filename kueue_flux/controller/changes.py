"""The step that looks at what was changed of a MiniCluster after its Job was made.

The Job keeps the specification that it was made from. Its queue and its priority class are labels, which Kueue lets
change in the time that it gives: the queue while no quota is held, the class at any time once there is one.
Source: Kueue 0.19, ``pkg/controller/jobframework/validation.go``.
"""

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.controller import accepted
from kueue_flux.controller.facts import Facts
from kueue_flux.controller.services import SPEC_CHANGED, Services, queue_of
from kueue_flux.controller.turn import REFUSED, Turn
from kueue_flux.kueue import labels as kueue
from kueue_flux.kueue.workload import Signal, WorkloadView
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Object

UNDO = "undo the change, or delete this MiniCluster and submit it again"


async def follow(turn: Turn) -> bool:
    """Have the Job follow its MiniCluster's queue and priority class, and say so where something cannot follow."""
    facts, job = turn.facts, turn.facts.job
    if job is None or facts.finished:
        return True
    turn.trouble = _kept(turn.obj, job, facts.mc) or turn.trouble
    if facts.queue is None:
        if facts.mc.queue:
            what = f"the queue was changed to {facts.mc.queue} after the Job was created for no queue"
            turn.trouble = Signal(SPEC_CHANGED, f"{what}: {UNDO}")
    elif not facts.decided:
        await _follow_queue(turn)
        await _follow_priority(turn)
    return True


def _kept(obj: Object, job: Object, mc: MiniCluster) -> Signal | None:
    """What was changed that the Job keeps as it was."""
    if accepted.is_changed(obj, job):
        return Signal(
            SPEC_CHANGED,
            "spec was changed after the Job was created, and the Job keeps the first one: undo the change, or delete "
            "this MiniCluster and submit the new one",
        )
    changed = [f"metadata.annotations.{key}" for key in accepted.changed_annotations(obj, job)]
    if mc.max_exec_time_seconds and str(mc.max_exec_time_seconds) != _label(job, kueue.MAX_EXEC_TIME_SECONDS):
        changed.append(f"label {kueue.MAX_EXEC_TIME_SECONDS}")
    if not changed:
        return None
    return Signal(SPEC_CHANGED, f"{' and '.join(changed)} changed after the Job was created: {UNDO}")


async def _follow_queue(turn: Turn) -> None:
    facts, wanted = turn.facts, turn.facts.mc.queue
    jobs = [job for job in _jobs(facts) if wanted and queue_of(job) not in (wanted, None)]
    if wanted is None or not jobs:
        return
    was = queue_of(jobs[0])
    if holder := _holder(facts):
        if not (facts.workload and facts.workload.evicted):  # else it gives its quota back in a moment
            turn.trouble = Signal(
                SPEC_CHANGED, f"the queue was changed to {wanted}, but {holder} quota of queue {was}: {UNDO}"
            )
    elif await _label_jobs(turn, jobs, kueue.QUEUE_NAME, wanted):
        turn.events.append(("Normal", "QueueChanged", f"it waits in queue {wanted} now, and no longer in {was}"))


async def _follow_priority(turn: Turn) -> None:
    facts, wanted = turn.facts, turn.facts.mc.priority_class
    jobs = [job for job in _jobs(facts) if wanted and _label(job, kueue.PRIORITY_CLASS) != wanted]
    if wanted is None or not jobs:
        return
    was = _label(jobs[0], kueue.PRIORITY_CLASS)
    if was is None and _holder(facts):
        turn.trouble = Signal(
            SPEC_CHANGED, f"the priority class was changed to {wanted}, but what has none cannot get one later: {UNDO}"
        )
    elif await _label_jobs(turn, jobs, kueue.PRIORITY_CLASS, wanted):
        note = f"its priority class is {wanted} now, and no longer {was or 'none'}"
        turn.events.append(("Normal", "PriorityChanged", note))


def _jobs(facts: Facts) -> list[Object]:
    """Its Job and that of its services."""
    of_services = facts.services.job if facts.services else None
    return [job for job in (facts.job, of_services) if job is not None]


def _holder(facts: Facts) -> str | None:
    """Who holds quota, and begins a sentence with it; None while all of it waits."""
    if not facts.suspended or _holds_quota(facts.workload):
        return "it holds"
    services = facts.services or Services()
    if services.job is not None and (not services.suspended or _holds_quota(services.workload)):
        return "its services hold"
    return None


def _holds_quota(workload: WorkloadView | None) -> bool:
    return workload is not None and workload.quota_reserved


async def _label_jobs(turn: Turn, jobs: list[Object], key: str, value: str) -> bool:
    """Label Jobs; returns whether Kueue has let that happen. Where it has not, the turn says why."""
    try:
        for job in jobs:
            _put(turn.facts, await turn.patch_job(job, {"metadata": {"labels": {key: value}}}))
    except ApiError as error:
        if error.status not in REFUSED:
            raise
        turn.trouble = Signal(SPEC_CHANGED, f"Kueue does not let {key} change to {value}: {error.message}; {UNDO}")
        return False
    return True


def _put(facts: Facts, job: Object) -> None:
    if facts.services and facts.services.job and facts.services.job["metadata"]["name"] == job["metadata"]["name"]:
        facts.services.job = job
    else:
        facts.job = job


def _label(job: Object, key: str) -> str | None:
    value: str | None = job["metadata"].get("labels", {}).get(key)
    return value
