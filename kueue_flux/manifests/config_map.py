"""The ConfigMap with what Flux reads at start: it depends on how much was admitted."""

import json
from typing import Any

from kueue_flux.api import broker_config
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.flux import layout
from kueue_flux.flux.broker import BrokerConfig, broker_toml
from kueue_flux.flux.resource_set import resource_set
from kueue_flux.flux.script import scripts
from kueue_flux.kueue.workload import Admission
from kueue_flux.manifests import restful
from kueue_flux.manifests.common import ADMISSION, config_map_name, metadata
from kueue_flux.manifests.mode import user_files


def config_map(mc: MiniCluster, admission: Admission, cluster_domain: str = "cluster.local") -> dict[str, Any]:
    """Build the ConfigMap: broker.toml, R, the scripts, how many nodes and tasks, and what the user wrote.

    Args:
        mc: The MiniCluster.
        admission: Which of the pods come; partial admission may have made them fewer.
        cluster_domain: The cluster's DNS domain.
    """
    hosts = mc.hosts(admission.indexes, cluster_domain)
    meta = metadata(mc, config_map_name(mc.name))
    meta["labels"][ADMISSION] = admission.id
    broker = BrokerConfig(
        hosts=hosts,
        # full names say themselves where they are found
        domain="" if mc.spec.network.set_hostname_as_fqdn else mc.domain(cluster_domain),
        # what a node calls its network interface nobody knows
        interface="*" if mc.spec.network.host_network else "eth0",
        connect_timeout=mc.spec.flux.connect_timeout or None,
        topology=mc.spec.flux.topology or None,
        queue_policy=mc.spec.flux.scheduler.queue_policy or None,
        sched_simple=mc.spec.flux.scheduler.simple,
        allow_root_owner=runs_as_root(mc),
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "data": {
            layout.BROKER_FILE: broker_toml(broker, broker_config.read(mc.spec.flux.broker_config)),
            layout.RESOURCES_FILE: json.dumps(resource_set(hosts, mc.cores_per_rank, mc.gpus_per_rank)),
            layout.SIZE_FILE: str(len(hosts)),
            layout.TASKS_FILE: str(admitted_tasks(mc, len(hosts))),
            **scripts(),
            **user_files(mc),
            **restful.server_files(mc),
        },
    }


def admitted_tasks(mc: MiniCluster, brokers: int) -> int:
    """The number of tasks that fit the admitted size: as many a node as were asked for (0: one each).

    A job of 8 tasks on 4 nodes runs 6 on 3: with 8 it could never start there.
    """
    if brokers >= mc.spec.size:
        return mc.spec.tasks
    return mc.spec.tasks and max(1, mc.spec.tasks * brokers // mc.spec.size)


def runs_as_root(mc: MiniCluster) -> bool:
    """Whether the broker may run as root: nothing in the spec says otherwise, and the image decides.

    What the container says goes before what the pod says (Kubernetes: SecurityContext).
    """
    context = {**mc.spec.pod.security_context, **mc.flux_container.security_context}
    if "runAsUser" in context:
        return context["runAsUser"] == 0
    return not context.get("runAsNonRoot")
