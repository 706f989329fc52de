"""Real pods: the stages of runs with Flux in them on a kind cluster, and how much they spread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.load import minicluster
from bench.stages import Run, follow
from kueue_flux.controller.resources import MINICLUSTERS
from kueue_flux.devcluster import cluster as kind_cluster
from kueue_flux.devcluster import deploy, engine, kind, paths
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.images import FluxImage
from kueue_flux.devcluster.progress import Progress
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Resource

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
DEV, OWN = "dev", "bench"
NAMESPACE, QUEUE = "default", "user-queue"
PAUSE_SECONDS = 2.0
"""Between two runs, so that the pods of one do not end while the next one starts."""


async def measure(name: str, flux: FluxImage, progress: Progress, *, runs: int, size: int) -> dict[str, Any]:
    """Run MiniClusters, one after another.

    Args:
        name: The kind cluster.
        flux: The image to run.
        progress: Told what is done.
        runs: How many.
        size: Pods of each, and tasks.

    Returns:
        Of each run the seconds after submission at which it reached each stage (see `bench.stages.STAGES`).

    Raises:
        RuntimeError: A run failed.
    """
    client = await Client.connect(str(paths.kubeconfig(name)), field_manager="kueue-flux-bench")
    reached = []
    try:
        with progress.stage(f"{runs} runs of {size} brokers on the kind cluster {name}") as stage:
            for number in range(runs):
                stage.update(f"run {number + 1}")
                manifest = minicluster(NAMESPACE, f"bench-{number:02}", QUEUE, size=size, image=flux.reference)
                run = await follow(client, manifest)
                _check(run, size)
                reached.append(run.reached)
                await _delete(client, run.name)
                await asyncio.sleep(PAUSE_SECONDS)
        adapter = await client.get(DEPLOYMENTS, "kueue-flux-controller", deploy.NAMESPACE)
    finally:
        await client.close()
    (image,) = [container["image"] for container in adapter["spec"]["template"]["spec"]["containers"]]
    return {
        "cluster": name,
        "flux": flux.origin,
        "real_flux": flux.real,
        "adapter": image,
        "size": size,
        "runs": reached,
    }


@contextmanager
def running(progress: Progress) -> Iterator[tuple[str, FluxImage]]:
    """The name of a kind cluster, and its image with Flux: the dev cluster where it is up, else one for the occasion.

    Raises:
        DevClusterError: There is none, and none can be made here.
    """
    flux = deploy.deployed_flux(DEV)
    if flux and engine.answers() and "running" in kind.nodes(DEV).values():
        yield DEV, flux
        return
    try:
        kind_cluster.up(OWN, progress, deploy=deploy.deploy)
        flux = deploy.deployed_flux(OWN)
        if flux is None:
            raise DevClusterError(f"nothing was deployed to the kind cluster {OWN}")
        yield OWN, flux
    finally:
        kind_cluster.down(OWN, progress)


def _check(run: Run, size: int) -> None:
    reason, message = run.result
    if reason != "Succeeded" or len(run.output) != size:
        raise RuntimeError(f"{run.name}: {reason}: {message}; its output: {run.output}")


async def _delete(client: Client, name: str) -> None:
    await client.delete(MINICLUSTERS, name, NAMESPACE, propagation="Foreground")
    try:
        while True:
            await client.get(MINICLUSTERS, name, NAMESPACE)
            await asyncio.sleep(0.2)
    except ApiError as error:
        if not error.not_found:
            raise
