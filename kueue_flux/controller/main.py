"""The controller's process: what it watches, which MiniCluster each event concerns, and its flags."""

import argparse
import asyncio
import contextlib
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from kueue_flux.controller import metrics, quota, resources
from kueue_flux.controller.positions import Positions, Waiting
from kueue_flux.controller.quota import Quota
from kueue_flux.controller.reconcile import Reconciler
from kueue_flux.controller.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    MINICLUSTERS,
    PODS,
    WORKLOADS,
)
from kueue_flux.controller.services import JOB_INDEXES, Turns
from kueue_flux.controller.setup import wiring as setup
from kueue_flux.kueue import labels as kueue
from kueue_flux.kueue.workload import read
from kueue_flux.log import configure
from kueue_flux.manifests.common import MANAGED_BY, MANAGER, MINICLUSTER
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.controller import Controller
from kueue_flux.runtime.lease import LeaseConfig
from kueue_flux.runtime.manager import Manager
from kueue_flux.runtime.resource import Object
from kueue_flux.runtime.store import Store

OURS = f"{MANAGED_BY}={MANAGER}"
STATUS_LAG = timedelta(seconds=1)  # the Job controller gathers what its pods do for as long
SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def main() -> None:
    """Run the controller until it is told to stop."""
    args = _arguments().parse_args()
    configure(args.log_level)
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(asyncio.run(run(args)))


async def run(args: argparse.Namespace) -> int:
    """Wire stores, control loop and queue positions together, and run them. Returns the exit code."""
    identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
    host, _, port = args.metrics_address.rpartition(":")
    lease = None
    if not args.no_leader_election:
        lease = LeaseConfig(namespace=args.leader_election_namespace, name=MANAGER, identity=identity)
    client = await Client.connect(args.kubeconfig, field_manager=MANAGER)
    manager = Manager(client, name=MANAGER, identity=identity, lease=lease, health_host=host, health_port=int(port))

    miniclusters = manager.watch(MINICLUSTERS, transform=resources.keep_minicluster).store
    indexes = {**JOB_INDEXES, **quota.JOB_INDEXES}
    jobs = manager.watch(JOBS, label_selector=OURS, indexes=indexes, transform=resources.keep_job).store
    pods = manager.watch(PODS, label_selector=OURS, transform=resources.keep_pod).store
    # Kueue may be absent: MiniClusters without a queue run all the same.
    workloads = manager.watch(WORKLOADS, optional=True, transform=resources.keep_workload).store

    cluster_queues = manager.watch(CLUSTER_QUEUES, optional=True, transform=resources.keep_queue).store
    local_queues = manager.watch(
        LOCAL_QUEUES, optional=True, indexes=quota.LOCAL_QUEUE_INDEXES, transform=resources.keep_queue
    ).store
    cohorts = manager.watch(COHORTS, optional=True, transform=resources.keep_queue).store
    queues = Quota(cluster_queues, local_queues, cohorts)
    setups = None if args.no_flux_setup else setup.add(manager, miniclusters, cluster_queues, local_queues)

    positions = Positions(client, lambda: _waiting(miniclusters, jobs, workloads))
    reconciler = Reconciler(
        client,
        miniclusters=miniclusters,
        jobs=jobs,
        workloads=workloads,
        pods=pods,
        positions=positions,
        quota=queues,
        events=manager.recorder,
        cluster_domain=args.cluster_domain,
        status_lag=STATUS_LAG,
        awaited=setups.obstacle if setups else lambda _namespace: None,
    )
    controller = manager.controller("minicluster", reconciler.reconcile, workers=args.workers)
    _route(controller, miniclusters, jobs, pods, workloads)
    _pass_turns(controller, reconciler.turns, miniclusters, jobs, workloads)
    positions.subscribe(controller.enqueue)
    queues.wakes(jobs, lambda job: _enqueue_owner(controller, job))
    if setups:
        setups.wake(controller.enqueue)
    metrics.contested.set_function(lambda: len(reconciler.conflicts))
    manager.while_leading(positions.run)
    manager.while_leading(lambda: metrics.miniclusters.count(miniclusters))
    return await manager.run()


def _enqueue_owner(controller: Controller, obj: Object) -> None:
    """Enqueue the MiniCluster that an object's label names."""
    if name := obj["metadata"].get("labels", {}).get(MINICLUSTER):
        controller.enqueue(obj["metadata"]["namespace"], name)


def _route(controller: Controller, miniclusters: Store, jobs: Store, pods: Store, workloads: Store) -> None:
    """Say which MiniCluster an event concerns. All its objects bear its name, so no look-up is needed."""

    def by_name(old: Object | None, new: Object | None) -> None:
        meta = (new or old or {})["metadata"]
        controller.enqueue(meta["namespace"], meta["name"])

    def by_label(old: Object | None, new: Object | None) -> None:
        _enqueue_owner(controller, new or old or {})

    def by_job(old: Object | None, new: Object | None) -> None:
        meta = (new or old or {})["metadata"]
        for owner in meta.get("ownerReferences", []):
            if owner["kind"] == JOBS.kind and (job := jobs.get(meta["namespace"], owner["name"])):
                by_label(None, job)

    miniclusters.subscribe(by_name)
    jobs.subscribe(by_label)
    pods.subscribe(by_label)
    workloads.subscribe(by_job)


def _pass_turns(controller: Controller, turns: Turns, *stores: Store) -> None:
    """Wake the MiniCluster whose turn it is to get its services, when another has come, gone or been admitted."""

    def wake(old: Object | None, new: Object | None) -> None:
        for key in turns.concerned(new, old):
            controller.enqueue(*key)

    for store in stores:
        store.subscribe(wake)


def _waiting(miniclusters: Store, jobs: Store, workloads: Store) -> Iterator[Waiting]:
    for job in jobs:
        if not job["spec"].get("suspend"):
            continue
        meta = job["metadata"]
        queue = meta.get("labels", {}).get(kueue.QUEUE_NAME)
        key = (meta["namespace"], meta["name"])
        if queue is None or key not in miniclusters:
            continue
        for workload in workloads.owned_by(meta["uid"]):
            view = read(workload)
            if not view.quota_reserved and view.finished is None:
                yield meta["namespace"], queue, view.name, key


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kueue-flux-controller", description=__doc__)
    parser.add_argument("--kubeconfig", help="path of a kubeconfig; default: the pod's service account, or kubectl's")
    parser.add_argument(
        "--metrics-address",
        default=":8080",
        metavar="HOST:PORT",
        help="where /metrics, /healthz and /readyz are served",
    )
    parser.add_argument("--no-leader-election", action="store_true", help="for a single process, as in development")
    parser.add_argument("--leader-election-namespace", default=_own_namespace(), metavar="NAMESPACE")
    parser.add_argument("--cluster-domain", default="cluster.local", help="the cluster's DNS domain")
    parser.add_argument("--workers", type=int, default=64, help="MiniClusters worked on at once")
    parser.add_argument(
        "--no-flux-setup",
        action="store_true",
        help="leave FluxSetups alone; the ClusterRole kueue-flux-setup is not needed then",
    )
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    return parser


def _own_namespace() -> str:
    with contextlib.suppress(OSError):
        return SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip()
    return os.environ.get("POD_NAMESPACE", "kueue-flux-system")


if __name__ == "__main__":
    main()
