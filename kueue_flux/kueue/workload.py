"""What a Workload says of its Job's admission, read into one small value.

The control loop never looks into a Workload itself, so that all that is known of Kueue's
status conditions stands here. Source: Kueue 0.19, ``apis/kueue/v1beta2/workload_types.go``.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The only pod set of a batch/v1 Job's Workload.
MAIN_POD_SET = "main"
# Why a Workload is evicted whose maximum execution time is over: Kueue deactivates it then.
TIMED_OUT = "DeactivatedDueToMaximumExecutionTimeExceeded"
# How the reasons begin where Kueue deactivates one by itself: a check that says no, too many attempts, too much time.
DEACTIVATED_BY_KUEUE = "DeactivatedDueTo"


@dataclass(frozen=True)
class Admission:
    """One admission of one Workload.

    Attributes:
        id: Differs between two admissions of the same Workload (12 hexadecimal digits).
        size: Pods admitted; less than asked for under partial admission.
        cluster_queue: The ClusterQueue whose quota is used; empty without Kueue.
        workload: The Workload's name; empty without Kueue.
        completed: Indexes of the Job that have completed in an earlier admission; their pods do not come again.
    """

    id: str
    size: int
    cluster_queue: str = ""
    workload: str = ""
    completed: frozenset[int] = frozenset()

    @property
    def indexes(self) -> list[int]:
        """The indexes of the Job whose pods come."""
        return [index for index in range(self.size) if index not in self.completed]


@dataclass(frozen=True)
class Signal:
    """A condition's reason and message, as Kueue wrote them."""

    reason: str
    message: str


@dataclass(frozen=True)
class Owner:
    """What a Workload stands for, by the kind and the name of the object; both empty where it has no owner."""

    kind: str
    name: str


@dataclass(frozen=True)
class WorkloadView:
    """A Workload as the control loop needs it.

    Attributes:
        name: The Workload's name.
        priority: Its priority, for messages.
        admission: Set while the Job may run: Admitted, and not being evicted.
        quota_reserved: Whether quota is set aside (admission checks may still be pending).
        waiting: Why quota is not reserved, or why the reserved quota is not yet an admission.
        evicted: Why the last admission ended, until there is a new one.
        finished: Set once Kueue regards the Workload as finished.
        timed_out: Kueue has deactivated it because it ran longer than its maximum execution time.
    """

    name: str
    priority: int
    admission: Admission | None
    quota_reserved: bool
    waiting: Signal | None
    evicted: Signal | None
    finished: Signal | None
    timed_out: bool = False


def read(workload: Mapping[str, Any]) -> WorkloadView:
    """Read a Workload of a batch/v1 Job.

    Args:
        workload: A ``kueue.x-k8s.io`` Workload as the API server returns it.

    Returns:
        The view; conditions that Kueue has not written yet count as not true.
    """
    meta = workload["metadata"]
    spec = workload.get("spec", {})
    status = workload.get("status", {})
    conditions = {c["type"]: c for c in status.get("conditions", [])}

    def true(kind: str) -> Signal | None:
        condition = conditions.get(kind)
        return _signal(condition) if condition and condition.get("status") == "True" else None

    evicted = true("Evicted")
    reserved = true("QuotaReserved")
    admission = None
    if true("Admitted") and not evicted and "admission" in status:
        size = _admitted_size(spec, status["admission"])
        admission = Admission(
            id=_admission_id(meta["uid"], conditions["QuotaReserved" if reserved else "Admitted"], size),
            size=size,
            cluster_queue=status["admission"].get("clusterQueue", ""),
            workload=meta["name"],
        )
    return WorkloadView(
        name=meta["name"],
        priority=spec.get("priority", 0),
        admission=admission,
        quota_reserved=reserved is not None,
        waiting=None if admission else _waiting(meta["name"], spec, status, conditions, reserved is not None),
        evicted=evicted,
        finished=true("Finished"),
        timed_out=spec.get("active") is False and evicted is not None and evicted.reason == TIMED_OUT,
    )


def job_uid(workload: Mapping[str, Any]) -> str | None:
    """The uid of the Job that the Workload stands for, or None when it stands for something else."""
    uid: str | None = workload["metadata"].get("labels", {}).get("kueue.x-k8s.io/job-uid")
    return uid


def owner(meta: Mapping[str, Any]) -> Owner:
    """The object that a Workload stands for: its controller, else the first that owns it.

    Args:
        meta: The Workload's metadata; the visibility API tells owners without saying which of them controls it.
    """
    owners = meta.get("ownerReferences") or []
    found = next((ref for ref in owners if ref.get("controller")), owners[0] if owners else {})
    return Owner(str(found.get("kind", "")), str(found.get("name", "")))


def _signal(condition: Mapping[str, Any]) -> Signal:
    return Signal(condition.get("reason", ""), condition.get("message", ""))


def _admission_id(uid: str, condition: Mapping[str, Any], size: int) -> str:
    # Kueue numbers no admissions. Quota is given back before it is reserved anew, so the time at which it
    # was reserved tells two admissions of one Workload apart. That time counts in whole seconds: of two
    # admissions within one, which nobody saw end, at least those differ for which other files are needed.
    text = f"{uid}/{condition.get('lastTransitionTime', '')}/{size}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _admitted_size(spec: Mapping[str, Any], admission: Mapping[str, Any]) -> int:
    for assignment in admission.get("podSetAssignments", []):
        if assignment.get("name", MAIN_POD_SET) == MAIN_POD_SET and "count" in assignment:
            return int(assignment["count"])
    # An absent count means the full size (Kueue: PodSetAssignment.count).
    return int(spec["podSets"][0]["count"])


def _waiting(
    name: str,
    spec: Mapping[str, Any],
    status: Mapping[str, Any],
    conditions: Mapping[str, Mapping[str, Any]],
    reserved: bool,
) -> Signal:
    if spec.get("active") is False:
        return _deactivated(name, conditions)
    if not reserved:
        condition = conditions.get("QuotaReserved")
        return _signal(condition) if condition else Signal("PendingEvaluation", "Kueue has not looked at it yet")
    pending = [_check(c) for c in status.get("admissionChecks", []) if c.get("state") != "Ready"]
    if pending:
        return Signal("AdmissionChecks", f"quota is reserved; waiting for admission checks: {', '.join(pending)}")
    condition = conditions.get("Admitted")
    return _signal(condition) if condition else Signal("Pending", "quota is reserved; admission follows")


def _check(check: Mapping[str, Any]) -> str:
    """An admission check, and what its controller says of it."""
    said = check.get("message", "")
    return f"{check['name']} ({said})" if said else str(check["name"])


def _deactivated(name: str, conditions: Mapping[str, Mapping[str, Any]]) -> Signal:
    evicted = conditions.get("Evicted", {})
    said = f" ({evicted.get('message', '')})" if evicted.get("status") == "True" else ""
    deactivated = f"Workload {name} is deactivated{said}"
    if said and evicted.get("reason") == TIMED_OUT:
        return Signal("Deactivated", deactivated)
    if said and str(evicted.get("reason", "")).startswith(DEACTIVATED_BY_KUEUE):
        # Kueue 0.19 leaves it waiting for ever when it is activated (`workload_controller.go`: Requeued stays False).
        return Signal(
            "Deactivated", f"{deactivated}: to queue it again, have Kueue make it anew: kubectl delete workload {name}"
        )
    again = f'kubectl patch workload {name} --type merge -p \'{{"spec":{{"active":true}}}}\''
    return Signal("Deactivated", f"{deactivated}: it is queued again once its spec.active is true: {again}")
