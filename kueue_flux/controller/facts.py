"""All that is known of one MiniCluster at one moment, read from the stores.

Steps decide from this alone, and never from what an event said: a restart at any moment, with any
event lost or repeated, ends in the same state.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from kueue_flux.api import hostlist
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.controller.pods import PodView, lead
from kueue_flux.controller.services import Services, is_gated, queue_of
from kueue_flux.flux.termination import Reason, Termination
from kueue_flux.kueue import labels
from kueue_flux.kueue.workload import Admission, Signal, WorkloadView

# What ends a run on any pod, and how the lead ends when another pod has.
CAUSES = frozenset({Reason.PRE_FAILED, Reason.FLUX_NOT_FOUND, Reason.FLUX_FAILED})
FOLLOWING = frozenset({Reason.TERMINATED, Reason.WORKER_LOST, Reason.KILLED})


# The run took longer than Kueue's label max-exec-time-seconds allows; how the message of its end begins.
TIMED_OUT = "MaximumExecutionTimeExceeded"


@dataclass
class Facts:
    """One MiniCluster and what stands behind it.

    Attributes:
        mc: The MiniCluster, parsed.
        job: Its Job as the API server returned it; None while there is none.
        workload: The Job's Workload; None without Kueue, or before Kueue made it.
        pods: The Job's pods that are not being deleted.
        position: Place in the ClusterQueue, from 0; None where unknown.
        behind: Who is ahead in the queue, in words; empty where unknown, or too many to say.
        never: Why it can never be given what it asks for, as things are.
        status: The status as last written.
        obstacle: Why the Job could not be created just now.
        services: Its service containers; None where it has none.
        holdup: What keeps pods from starting, where they do not say so themselves.
        no_pull_secret: The Secrets that do not exist and an image is to be pulled with that cannot be pulled.
    """

    mc: MiniCluster
    job: dict[str, Any] | None = None
    workload: WorkloadView | None = None
    pods: list[PodView] = field(default_factory=list)
    position: int | None = None
    behind: str = ""
    never: Signal | None = None
    status: dict[str, Any] = field(default_factory=dict)
    obstacle: Signal | None = None
    services: Services | None = None
    holdup: Signal | None = None
    no_pull_secret: list[str] = field(default_factory=list)

    @property
    def queue(self) -> str | None:
        """The LocalQueue: the Job's own label first, since Kueue's webhook may have chosen the default queue."""
        return self.mc.queue if self.job is None else queue_of(self.job)

    @property
    def admission(self) -> Admission | None:
        """The admission in force. A Job without a queue is nobody's to admit, so it counts as admitted."""
        if self.job is None:
            return None
        found = self.workload.admission if self.workload else None
        if self.queue is None:
            found = Admission(id=self.job["metadata"]["uid"][:12], size=self.job["spec"]["parallelism"])
        return replace(found, completed=self._completed()) if found else None

    def _completed(self) -> frozenset[int]:
        """The Job's completed indexes (batch/v1, JobStatus.completedIndexes: 1,3-5)."""
        text = self.job["status"].get("completedIndexes") if self.job else ""
        return frozenset(map(int, hostlist.decode(f"[{text}]"))) if text else frozenset()

    @property
    def gated(self) -> bool:
        """Whether Kueue is kept from admitting the Job."""
        return self.job is not None and is_gated(self.job)

    @property
    def suspended(self) -> bool:
        """Whether the Job is suspended."""
        return bool(self.job and self.job["spec"].get("suspend"))

    @property
    def decided(self) -> Signal | None:
        """Set once the Job's end is decided, while its pods may still be leaving; reason is Succeeded or Failed."""
        if self.timed_out:
            return Signal("Failed", f"{TIMED_OUT}: it ran longer than {labels.MAX_EXEC_TIME_SECONDS} allows")
        return self._decided_by_job()

    def _decided_by_job(self) -> Signal | None:
        for condition in self._job_conditions():
            if condition["status"] == "True":
                if condition["type"] in ("SuccessCriteriaMet", "Complete"):
                    return Signal("Succeeded", condition.get("message", ""))
                if condition["type"] in ("FailureTarget", "Failed"):
                    return Signal("Failed", f"{condition.get('reason', '')}: {condition.get('message', '')}")
        return None

    @property
    def timed_out(self) -> bool:
        """Whether Kueue has ended the run because it took too long, which the Job itself never says."""
        end = self.condition("Finished")
        if end is not None and end["status"] == "True":
            return str(end["message"]).startswith(TIMED_OUT)
        deactivated = self.workload is not None and self.workload.timed_out
        return deactivated and self.suspended and self._decided_by_job() is None

    @property
    def over(self) -> bool:
        """Whether the Job has ended, and all its pods with it."""
        return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in self._job_conditions())

    @property
    def termination(self) -> Termination | None:
        """How the lead ended; its exit code is the command's. A worker that failed by itself took the lead with it."""
        leader = lead(self.pods)
        end = leader.termination if leader else None
        if end is None or end.reason in FOLLOWING:
            ends = (pod.termination for pod in self.pods)
            return next((one for one in ends if one and one.reason in CAUSES), end)
        return end

    def condition(self, kind: str) -> dict[str, Any] | None:
        """A condition as last written."""
        return next((c for c in self.status.get("conditions", []) if c["type"] == kind), None)

    @property
    def finished(self) -> bool:
        """Whether the end has been reported; nothing runs again after that."""
        condition = self.condition("Finished")
        return condition is not None and condition["status"] == "True"

    def _job_conditions(self) -> list[dict[str, Any]]:
        conditions: list[dict[str, Any]] = self.job["status"].get("conditions", []) if self.job else []
        return conditions
