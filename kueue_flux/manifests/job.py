"""The Indexed Job: one pod for each broker, created suspended so that Kueue decides when it runs."""

from collections.abc import Iterable
from typing import Any

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.flux.script import KILLED, RESERVED
from kueue_flux.kueue import labels as kueue
from kueue_flux.manifests.common import metadata
from kueue_flux.manifests.pod import flux_container_name, pod_template
from kueue_flux.manifests.view import view

# Spared by `backoffLimit`: the loss of a pod, not the failure of the command. When the lead is lost every
# worker follows, so each retry of the whole costs up to one failure a pod.
RETRIES_OF_A_LOST_INSTANCE = 3


# Who keeps Kueue from admitting a Job (labels.ADMISSION_GATED_BY).
GATE = "flux-framework.org/services"


def job(mc: MiniCluster) -> dict[str, Any]:
    """Build the suspended Indexed Job.

    Nothing here depends on an admission: Kueue may change parallelism, completions, node selectors and
    tolerations (partial admission, flavors), and volumes cannot be added once the Job exists, so
    the files of the admission are declared as volumes now and written later.
    """
    size, limit = mc.spec.size, mc.spec.backoff_limit
    meta = metadata(mc, mc.name)
    meta["labels"] = {**mc.spec.job_labels, **queue_labels(mc), **meta["labels"]}
    # Its services come first: their quota is set aside before its own is looked for.
    gate = {kueue.ADMISSION_GATED_BY: GATE} if mc.spec.services else {}
    if annotations := {**_partial_admission(mc), **gate}:
        meta["annotations"] = annotations
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {
            "suspend": True,
            "completionMode": "Indexed",
            "parallelism": size,
            "completions": size,
            "backoffLimit": RETRIES_OF_A_LOST_INSTANCE * size if limit is None else limit,
            "activeDeadlineSeconds": mc.spec.deadline_seconds,
            # The lead's end is the end: no waiting for workers that are still shutting down.
            "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
            "podFailurePolicy": {"rules": _failures(mc)},
            "template": pod_template(mc),
        },
    }


def _failures(mc: MiniCluster) -> list[dict[str, Any]]:
    """What a pod's failure means, by the first rule that fits; where none does, the pod is replaced, and counted."""

    def fails_unless(container: str, codes: Iterable[int]) -> dict[str, Any]:
        exits = {"containerName": container, "operator": "NotIn", "values": sorted(codes)}
        return {"action": "FailJob", "onExitCodes": exits}

    return [
        # A drained or preempted pod is replaced without counting as a failure.
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        # Anything else than a lost pod is the command's own exit code: the Job has failed. Without the workers that
        # have completed it cannot run again.
        fails_unless(flux_container_name(mc), KILLED if mc.spec.flux.complete_workers else RESERVED),
        # An image that Flux cannot be copied from now is no better the next time.
        *(fails_unless(copying["name"], KILLED) for copying in view(mc).init_containers),
    ]


def queue_labels(mc: MiniCluster) -> dict[str, str]:
    """The labels by which Kueue takes a Job of this MiniCluster for one of its own."""
    wanted = {
        kueue.QUEUE_NAME: mc.queue,
        kueue.PRIORITY_CLASS: mc.priority_class,
        kueue.MAX_EXEC_TIME_SECONDS: str(mc.max_exec_time_seconds) if mc.max_exec_time_seconds else None,
    }
    return {key: value for key, value in wanted.items() if value}


def _partial_admission(mc: MiniCluster) -> dict[str, str]:
    # Without a queue, too: Kueue may give it the default one, and without Kueue nobody reads this.
    if not mc.spec.min_size or mc.spec.min_size >= mc.spec.size:
        return {}
    return {
        kueue.JOB_MIN_PARALLELISM: str(mc.spec.min_size),
        kueue.JOB_COMPLETIONS_EQUAL_PARALLELISM: "true",
    }
