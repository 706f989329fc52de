"""Pure builders of the Kubernetes objects behind a MiniCluster, one module for each component.

Two lists say what exists when. Before admission: what must be there for Kueue to decide and for pods
to be created. After it: what depends on how much was admitted, or is secret.
"""

from datetime import datetime
from typing import Any

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.kueue.workload import Admission
from kueue_flux.manifests import restful
from kueue_flux.manifests.certificate import certificate_secret
from kueue_flux.manifests.config_map import config_map
from kueue_flux.manifests.job import job
from kueue_flux.manifests.network_policy import network_policy
from kueue_flux.manifests.restful import server_service
from kueue_flux.manifests.service import service, sidecar_services


def before_admission(mc: MiniCluster) -> list[dict[str, Any]]:
    """What a MiniCluster needs while it waits for quota: Service, NetworkPolicy, suspended Job."""
    return [service(mc), network_policy(mc), job(mc)]


def for_convenience(mc: MiniCluster) -> list[dict[str, Any]]:
    """What it can do without, where something else has the name: Services of its sidecars and its RESTful API."""
    return [*sidecar_services(mc), *server_service(mc)]


def after_admission(
    mc: MiniCluster, admission: Admission, *, now: datetime, cluster_domain: str = "cluster.local"
) -> list[dict[str, Any]]:
    """What its admitted pods need to boot Flux: ConfigMap, and Secrets but for those that the user has made."""
    files = [config_map(mc, admission, cluster_domain)]
    if not mc.spec.flux.curve_cert_secret:
        files.append(certificate_secret(mc, admission, now))
    if restful.is_wanted(mc):
        files.append(restful.token_secret(mc, admission))
    return files
