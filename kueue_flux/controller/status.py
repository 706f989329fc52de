"""The status that the facts add up to: a pure function, so that every line of it can be tested by a table."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kueue_flux.api.conditions import ConditionType, set_condition
from kueue_flux.controller import mounts
from kueue_flux.controller.facts import Facts
from kueue_flux.controller.pods import IMAGE_REASONS
from kueue_flux.flux.termination import Reason, Termination
from kueue_flux.kueue.workload import Signal
from kueue_flux.manifests.common import MINICLUSTER

# Kueue makes the Workload within milliseconds; after this long without one, it is not at work.
KUEUE_GRACE = timedelta(seconds=10)

IMAGE_REMEDY = (
    "check the image's name, that the nodes reach its registry, and imagePullSecret where it asks for a login; "
    "the pod goes on by itself once the image can be had"
)
VIEW_REMEDY = (
    "this image brings Flux along: name one that the nodes can have in spec.flux.container.image (--flux-image), or "
    "set spec.flux.container.disable: true (--no-flux-view) where the application's image has Flux"
)
ACCEPTED = Signal("Accepted", "the specification is valid")


def derive(
    facts: Facts,
    record: Mapping[str, Any] | None,
    trouble: Signal | None,
    now: datetime,
    *,
    injections: int = 0,
    cleared: bool = False,
) -> dict[str, Any]:
    """Derive the whole status of a MiniCluster.

    Args:
        facts: What is known.
        record: `status.admission` as this turn leaves it: the admission whose files are in place, or None.
        trouble: Why the MiniCluster, or its last change, is not accepted; None when it is.
        now: The time to stamp on conditions that change.
        injections: How often files were written in this turn.
        cleared: Whether the files of the finished run are deleted.

    Returns:
        The status, complete: it replaces the former one.
    """
    mc, old = facts.mc, facts.status
    status: dict[str, Any] = {
        "observedGeneration": mc.generation,
        "selector": f"{MINICLUSTER}={mc.name}",
        "jobid": "",
        "size": record["size"] if record else 0,
        "maximumSize": mc.spec.size,
        "podsRunning": sum(pod.running for pod in facts.pods),
        "brokersReady": sum(pod.ready for pod in facts.pods),
        "admissions": old.get("admissions", 0) + injections,
    }
    optional = {
        "queue": facts.queue,
        "workload": facts.workload.name if facts.workload else None,
        "queuePosition": facts.position if facts.admission is None else None,
        "admission": dict(record) if record else None,
        "startTime": facts.job["status"].get("startTime") if facts.job else old.get("startTime"),
        "exitCode": old.get("exitCode"),
        "completionTime": old.get("completionTime"),
    }
    conditions = list(old.get("conditions", []))

    def put(kind: ConditionType, holds: bool, signal: Signal) -> None:
        nonlocal conditions
        conditions = set_condition(
            conditions,
            kind,
            "True" if holds else "False",
            signal.reason,
            signal.message,
            observed_generation=mc.generation,
            now=now,
        )

    put(ConditionType.ACCEPTED, trouble is None, trouble or ACCEPTED)
    if facts.finished:
        if cleared:
            put(
                ConditionType.INJECTED,
                False,
                Signal("Withdrawn", "the run has ended: certificate and configuration deleted"),
            )
        status.update({key: value for key, value in optional.items() if value is not None})
        status["conditions"] = conditions
        return status

    end = ending(facts, now)
    stages = {
        ConditionType.QUOTA_RESERVED: quota(facts, now),
        ConditionType.ADMITTED: admitted(facts),
        ConditionType.INJECTED: injected(facts, record),
        ConditionType.READY: ready(facts, record, end),
    }
    for kind, (holds, signal) in stages.items():
        put(kind, holds, signal)
    why = next((signal.message for holds, signal in stages.values() if not holds), "")
    put(ConditionType.FINISHED, end is not None, end or _not_finished(record, why))
    if end is not None:
        optional["completionTime"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        # The Job succeeds by its lead's exit code 0 alone, so that is known even where the lead's pod is gone.
        succeeded = 0 if end.reason == "Succeeded" else None
        optional["exitCode"] = facts.termination.exit_code if facts.termination else succeeded
    status.update({key: value for key, value in optional.items() if value is not None})
    status["conditions"] = conditions
    return status


def quota(facts: Facts, now: datetime) -> tuple[bool, Signal]:
    """Whether quota is set aside, and if not, why, in Kueue's words and with the place in the queue."""
    if facts.job is None:
        return False, facts.obstacle or Signal("WaitingForWorkload", "the Job is not created yet")
    if facts.queue is None:
        return True, Signal("NotQueued", "no queue was named, so nothing is waited for")
    if facts.workload is None:
        created = datetime.fromisoformat(facts.job["metadata"]["creationTimestamp"])
        if now - created < KUEUE_GRACE:
            return False, Signal("WaitingForWorkload", "Kueue has not made the Workload yet")
        return False, Signal(
            "KueueNotReady",
            f"Kueue has made no Workload for this Job in {KUEUE_GRACE.seconds} s: check that Kueue is installed and "
            "running, that its batch/job integration is on, that this namespace matches its "
            f"managedJobsNamespaceSelector{_and_priority_class(facts)}",
        )
    if facts.workload.quota_reserved or facts.workload.admission:
        return True, Signal("QuotaReserved", f"quota is reserved for Workload {facts.workload.name}")
    waiting = facts.workload.waiting or Signal("Pending", "")
    if facts.never and waiting.reason != "Deactivated":
        return False, facts.never
    if facts.services and facts.gated and not facts.services.admitted:
        return False, facts.services.waits_for()
    message = waiting.message
    if facts.position is not None:
        behind = f", behind {facts.behind}" if facts.behind else ""
        message = f"position {facts.position} in the queue (0 is next){behind}: {message}"
    return False, Signal(waiting.reason or "Pending", message)


def _and_priority_class(facts: Facts) -> str:
    # Kueue makes no Workload for a Job whose priority class it does not find, and says so in its own log only.
    name = facts.mc.priority_class
    return f", and that there is a WorkloadPriorityClass {name}" if name else ""


def admitted(facts: Facts) -> tuple[bool, Signal]:
    """Whether the pods may run."""
    admission = facts.admission
    if admission and facts.queue is None:
        return True, Signal("NotQueued", "no queue was named, so the Job runs at once")
    if admission:
        asked = facts.mc.spec.size
        whole = "the pod is" if asked == 1 else f"all {asked} pods"
        amount = whole if admission.size == asked else f"{admission.size} of {asked} pods"
        return True, Signal("Admitted", f"{amount} admitted by ClusterQueue {admission.cluster_queue}")
    if facts.workload and facts.workload.evicted:
        evicted = facts.workload.evicted
        return False, Signal(evicted.reason or "Evicted", evicted.message)
    if facts.workload and facts.workload.quota_reserved and facts.workload.waiting:
        return False, facts.workload.waiting
    return False, Signal("Pending", "waiting for quota")


def injected(facts: Facts, record: Mapping[str, Any] | None) -> tuple[bool, Signal]:
    """Whether the certificate and the configuration of the admission in force are in place."""
    if facts.services and not record and facts.admission and not facts.services.ready:
        return False, Signal("WaitingForServices", "certificate and configuration are written once its services are up")
    if record:
        return True, Signal("FilesWritten", files_written(record["size"]))
    if facts.status.get("admissions"):  # counted up only together with a record
        return False, Signal("Withdrawn", "certificate and configuration of the last admission were deleted")
    return False, Signal("WaitingForAdmission", "certificate and configuration are written at admission")


def ready(facts: Facts, record: Mapping[str, Any] | None, end: Signal | None) -> tuple[bool, Signal]:
    """Whether all brokers are up; if not, what the first pod that is stuck says."""
    if end is not None:
        return False, Signal("Finished", "the run has ended")
    services = facts.services.trouble() if facts.services and not facts.services.ready else None
    if not record:
        if services and (facts.admission or services.reason == "ServicesNotReady"):
            return False, services
        return False, Signal("WaitingForAdmission", "no pods before admission")
    size, up = record["size"], sum(pod.ready for pod in facts.pods)
    failing = next((f"pod {pod.name}: {pod.failing}" for pod in facts.pods if pod.failing), None)
    if up >= size:
        if failing:  # the run goes on without it, or with what it does between its failures
            return True, Signal("SidecarFailed", f"{_brokers_up(size)}, but {failing}")
        if services:  # evicted, or failing: the run goes on without them, or until it needs them
            return True, Signal(services.reason, f"{_brokers_up(size)}, but {services.message}")
        return True, Signal("BrokersUp", _brokers_up(size))
    for pod in facts.pods:
        if pod.stuck:
            return False, _stuck(facts, pod.name, pod.stuck)
    if failing:
        return False, Signal("SidecarFailed", failing)
    if facts.holdup:
        return False, facts.holdup
    running = sum(pod.running for pod in facts.pods)
    if running < size:
        return False, Signal("PodsPending", f"{running} of {size} pods run" if size > 1 else "the pod does not run yet")
    return False, Signal(
        "BrokersStarting", f"{up} of {size} brokers are up" if size > 1 else "the broker is not up yet"
    )


def _brokers_up(size: int) -> str:
    return "the broker is up" if size == 1 else f"all {size} brokers are up"


def files_written(size: int) -> str:
    """Say for how many brokers certificate and configuration were written."""
    return f"certificate and configuration for {size} {'broker' if size == 1 else 'brokers'} written"


def _stuck(facts: Facts, pod: str, why: Signal) -> Signal:
    if claim := mounts.unbound(why, facts.mc.spec.containers):
        return Signal(claim.reason, f"pod {pod}: {claim.message}")
    said = f"pod {pod}: {why.reason}: {why.message}"
    if why.reason in IMAGE_REASONS and facts.no_pull_secret:
        named = " and ".join(f"Secret {name}" for name in facts.no_pull_secret)
        return Signal("ImagePullFailed", f"{said}; imagePullSecret: {named} not found in its namespace: create it")
    if why.reason in IMAGE_REASONS:
        view = facts.mc.spec.flux.container
        brings_flux = not view.disable and view.image in why.message
        return Signal("ImagePullFailed", f"{said}; {VIEW_REMEDY if brings_flux else IMAGE_REMEDY}")
    return Signal("PodsPending", said)


# How long the lead's last words may lag behind the Job's end: they come by another watch.
LAST_WORDS = timedelta(seconds=5)


def ending(facts: Facts, now: datetime) -> Signal | None:
    """How the run ended, once that is decided and the lead's exit code is known (or will not be)."""
    decided = facts.decided
    if decided is None:
        return None
    end = facts.termination
    if (end is None or facts.timed_out) and not _past_last_words(facts, now):
        return None
    if facts.timed_out:
        return decided
    if decided.reason == "Succeeded":
        stopped = end is not None and end.reason is Reason.STOPPED
        return Signal("Succeeded", "it was stopped" if stopped else "the command exited with code 0")
    too_long = decided.message.startswith("DeadlineExceeded")
    if end is None or (too_long and end.reason in (Reason.TERMINATED, Reason.KILLED)):
        return Signal("Failed", decided.message)
    return Signal("Failed", explain(end))


def explain(end: Termination) -> str:
    """The end of the lead, or of the pod that failed, in words; the reason and the exit code in parentheses."""
    code, reason = end.exit_code, end.reason or Reason.COMMAND_FAILED
    words = {
        Reason.COMMAND_NOT_FOUND: "the command was not found",
        Reason.COMMAND_NOT_EXECUTABLE: "the command cannot be executed",
        Reason.COMMAND_SIGNALED: f"the command was ended by signal {code - 128}",
        Reason.TERMINATED: "the lead was asked to stop before the command ended",
        Reason.STOPPED: "it was stopped before the command ended",
        Reason.BATCH_FAILED: end.note or "the batch failed",
        Reason.PRE_FAILED: end.note or "what runs before Flux failed",
        Reason.POST_FAILED: end.note or "what runs after the command failed",
        Reason.JOB_REJECTED: "Flux rejected the job: it asks for more than the admitted pods have; see the log",
        Reason.FLUX_NOT_FOUND: "there is no flux in the container: use an image with Flux, or a view image",
        Reason.FLUX_FAILED: end.note or "Flux failed to start or to run the command; see the lead's log",
        Reason.WORKER_LOST: "a broker on which the command ran was lost",
        Reason.OUT_OF_MEMORY: "the lead needed more memory than spec.containers[].resources.limits allows: raise it",
        Reason.KILLED: "the lead was killed from outside",
    }
    if reason in words:
        return f"{words[reason]} ({reason}, exit code {code})"
    return f"the command exited with code {code} ({reason})"


def _past_last_words(facts: Facts, now: datetime) -> bool:
    times = [
        datetime.fromisoformat(c["lastTransitionTime"])
        for c in (facts.job or {}).get("status", {}).get("conditions", [])
        if c["status"] == "True" and "lastTransitionTime" in c
    ]
    return bool(times) and now - max(times) > LAST_WORDS


def _not_finished(record: Mapping[str, Any] | None, why: str) -> Signal:
    """That there is no end yet, and what it waits for: what `kubectl get -o wide` shows of a MiniCluster."""
    said = Signal("Running", "the run has begun") if record else Signal("Waiting", "the run has not begun")
    return Signal(said.reason, f"{said.message}: {why}") if why else said


def refusal(obj: Mapping[str, Any], trouble: Signal, now: datetime) -> dict[str, Any]:
    """The status of a MiniCluster whose specification cannot be used: the former one, and why not."""
    generation = obj["metadata"].get("generation", 0)
    conditions = set_condition(
        obj["status"].get("conditions", []),
        ConditionType.ACCEPTED,
        "False",
        trouble.reason,
        trouble.message,
        observed_generation=generation,
        now=now,
    )
    return {**obj["status"], "observedGeneration": generation, "conditions": conditions}


def turned(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a change of status is more than progress: a condition turned, or the files are another admission's."""
    before = {c["type"]: c["status"] for c in old.get("conditions", [])}
    return old.get("admission") != new.get("admission") or any(
        before.get(c["type"], "True" if c["type"] == ConditionType.ACCEPTED else "False") != c["status"]
        for c in new["conditions"]
    )


# What is worth an event when a condition turns, beyond what the steps tell themselves.
WARNINGS = frozenset(
    {
        "ImagePullFailed",
        "PodsNotCreated",
        "ServicesNotReady",
        "SidecarFailed",
        "VolumeMissing",
        "VolumePending",
        "KueueNotReady",
        "NameTaken",
        "ConflictingController",
        "ExceedsMaxQuota",
        "SpecChanged",
        "Refused",
    }
)

# Every MiniCluster passes through these on its way; no news.
TRANSIENT = frozenset({"WaitingForWorkload", "PendingEvaluation", "ServicesPending"})


def tell(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The events, as (type, reason, note), that a change of status is worth."""
    before = {c["type"]: (c["status"], c["reason"]) for c in old.get("conditions", [])}
    events = []
    for condition in new["conditions"]:
        kind, now_, reason = condition["type"], condition["status"], condition["reason"]
        if before.get(kind) == (now_, reason):
            continue
        if kind == ConditionType.FINISHED and now_ == "True":
            events.append(("Normal" if reason == "Succeeded" else "Warning", reason, condition["message"]))
        elif kind == ConditionType.READY and now_ == "True":
            events.append(("Warning" if reason in WARNINGS else "Normal", reason, condition["message"]))
        elif now_ == "False" and reason in WARNINGS:
            events.append(("Warning", reason, condition["message"]))
        elif kind == ConditionType.QUOTA_RESERVED and now_ == "False" and reason not in TRANSIENT:
            events.append(("Normal", reason, condition["message"]))
    return events
