"""The Job of the service containers: one pod beside the MiniCluster, in the same queue.

A Job and not a bare pod, because Kueue's own batch/job integration then counts it: it has a Workload, waits for quota
and can be evicted, like the MiniCluster's own. It is complete at no time of its own; the controller deletes it when
the run has ended.
"""

from typing import Any

from kueue_flux.api.container import MiniClusterContainer
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.kueue import labels as kueue
from kueue_flux.manifests.common import ROLE, SERVICES, metadata, pod_labels
from kueue_flux.manifests.container import container, literal
from kueue_flux.manifests.job import queue_labels
from kueue_flux.manifests.pod import placement, pull_secrets
from kueue_flux.manifests.volumes import volumes

# Who keeps Kueue from admitting it (labels.ADMISSION_GATED_BY).
TURN = "flux-framework.org/turn"


def services_job(mc: MiniCluster) -> dict[str, Any]:
    """Build the suspended Job of the service containers."""
    meta = metadata(mc, mc.services_name)
    wanted = queue_labels(mc)
    wanted.pop(kueue.MAX_EXEC_TIME_SECONDS, None)  # it counts from the MiniCluster's admission, which comes later
    meta["labels"] = {**mc.spec.job_labels, **wanted, **meta["labels"], ROLE: SERVICES}
    meta["labels"].pop(kueue.MAX_EXEC_TIME_SECONDS, None)
    meta["annotations"] = {kueue.ADMISSION_GATED_BY: TURN}
    again = mc.spec.pod.restart_policy != "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {
            "suspend": True,
            "parallelism": 1,
            "completions": 1,
            # A container that ends is started again in its pod, for as long as the MiniCluster is there.
            "backoffLimit": 2**31 - 1 if again else 0,
            # There are never two pods of this host name, nor two that write to its volumes.
            "podReplacementPolicy": "Failed",
            "template": _pod_template(mc, "OnFailure" if again else "Never"),
        },
    }


def _pod_template(mc: MiniCluster, restart_policy: str) -> dict[str, Any]:
    pod, services = mc.spec.pod, mc.spec.services
    spec: dict[str, Any] = {
        "hostname": mc.services_name,
        "subdomain": mc.headless_name,
        "restartPolicy": restart_policy,
        "enableServiceLinks": False,
        "automountServiceAccountToken": pod.automount_service_account_token,
        "containers": [_service(user) for user in services],
    }
    optional = {"volumes": volumes(services), "imagePullSecrets": pull_secrets(*services), **placement(mc)}
    spec.update({key: value for key, value in optional.items() if value})
    template: dict[str, Any] = {"metadata": {"labels": {**pod.labels, **pod_labels(mc), ROLE: SERVICES}}, "spec": spec}
    # Kueue's annotations are about the MiniCluster's own pods and how they lie to one another.
    if annotations := {key: value for key, value in pod.annotations.items() if not key.startswith(kueue.PREFIX)}:
        template["metadata"]["annotations"] = annotations
    return template


def _service(user: MiniClusterContainer) -> dict[str, Any]:
    built = container(user, user.name)
    if user.command:
        # Shell text by the Flux Operator's definition; one argument, so that it is data here.
        built |= {"command": ["/bin/sh", "-c"], "args": [literal(user.command)]}
    if user.ports:
        # Ready when it can be called, which is what the MiniCluster waits for; nothing is probed afterwards.
        built["startupProbe"] = {
            "tcpSocket": {"port": user.ports[0]},
            "periodSeconds": 1,
            "failureThreshold": 2**31 - 1,
        }
    return built
