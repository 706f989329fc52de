"""What is submitted: MiniClusters, and the plain Jobs that they are measured beside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench.observer import SUBMITTED, Seen
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.kueue.labels import QUEUE_NAME
from kueue_flux.manifests import before_admission
from kueue_flux.manifests.common import MANAGED_BY
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.resource import Object, Resource

CPU_MILLIS = 100
"""What each pod asks for."""
AT_ONCE = 8
"""Requests under way while submitting: as a few users, or one script, would."""


def minicluster(namespace: str, name: str, queue: str, *, size: int, image: str = "fake") -> Object:
    """A MiniCluster with Flux in its image.

    Args:
        namespace: Where.
        name: Its name.
        queue: The LocalQueue.
        size: Its pods.
        image: With Flux; for pods that nothing runs, any word.
    """
    return {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": {"name": name, "namespace": namespace, "labels": {QUEUE_NAME: queue}},
        "spec": {
            "size": size,
            "tasks": size,
            "flux": {"container": {"disable": True}},
            "containers": [
                {
                    "image": image,
                    "command": "hostname",
                    "resources": {"requests": {"cpu": f"{CPU_MILLIS}m", "memory": "64Mi"}},
                }
            ],
        },
    }


def plain_job(manifest: Object) -> Object:
    """The Job that the adapter would make of a MiniCluster, as a user would submit it: nobody owns or manages it.

    Args:
        manifest: The MiniCluster.
    """
    mc = MiniCluster.from_object(
        {**manifest, "metadata": {**manifest["metadata"], "uid": manifest["metadata"]["name"]}}
    )
    job: Object = before_admission(mc)[-1]
    del job["metadata"]["ownerReferences"]
    for labels in (job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]):
        del labels[MANAGED_BY]
    return job


async def submit(client: Client, resource: Resource, manifests: Sequence[Object], seen: Seen) -> None:
    """Create objects, as fast as the API server takes them from `AT_ONCE` users.

    Args:
        client: The API client.
        resource: Their type.
        manifests: The objects.
        seen: Is told when each was submitted.
    """
    users = asyncio.Semaphore(AT_ONCE)

    async def one(manifest: Object) -> None:
        async with users:
            seen.note(SUBMITTED, manifest["metadata"]["name"], time.time())
            await client.create(resource, manifest)

    await asyncio.gather(*(one(manifest) for manifest in manifests))
