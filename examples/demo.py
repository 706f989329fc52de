"""The main job: four Flux brokers under Kueue print their host names, and when each stage was reached.

Run it by `make demo`, which brings up the cluster first.
"""

import argparse
import asyncio
import sys
from pathlib import Path

import yaml

from bench.stages import Run, follow
from kueue_flux.controller.resources import MINICLUSTERS
from kueue_flux.devcluster import paths
from kueue_flux.devcluster.deploy import deployed_flux
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.errors import ApiError

NAME, NAMESPACE, QUEUE, SIZE = "demo", "default", "user-queue", 4


def minicluster(image: str) -> dict[str, object]:
    """The MiniCluster: four pods with Flux in their image, each of which prints its name."""
    return {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"kueue.x-k8s.io/queue-name": QUEUE},
        },
        "spec": {
            "size": SIZE,
            "tasks": SIZE,
            "flux": {"container": {"disable": True}},
            "containers": [
                {
                    "image": image,
                    "command": "hostname",
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }
            ],
        },
    }


async def demo(cluster: str) -> int:
    """Run the main job on the dev cluster `cluster`. Returns the exit code."""
    flux = deployed_flux(cluster)
    if flux is None:
        print(f"the dev cluster {cluster} is not up: kueue-flux dev up --name {cluster}", file=sys.stderr)
        return 2
    client = await Client.connect(str(paths.kubeconfig(cluster)), field_manager="kueue-flux-demo")
    try:
        await _delete(client)
        manifest = minicluster(flux.reference)
        print(f"\nThis runs {flux.origin}.\n")
        print(yaml.safe_dump(manifest, sort_keys=False))
        run = await follow(client, manifest)
    finally:
        await client.close()
    return report(run, cluster, flux.reference)


def report(run: Run, cluster: str, image: str) -> int:
    """Print the run's output and its stages. Returns the exit code."""
    reason, message = run.result
    print(f"{reason}: {message}\n")
    print("\n".join(run.output))
    print(f"\nseconds after submission: {run.line()}")
    print(next_steps(cluster, image))
    return 0 if reason == "Succeeded" and len(run.output) == SIZE else 1


def next_steps(cluster: str, image: str) -> str:
    """What to type next, ready to be copied."""
    return f"""
The cluster stays up. To go on:
  export KUBECONFIG={paths.kubeconfig(cluster)} PATH={Path(sys.executable).parent}:$PATH
  kueue-flux submit -q {QUEUE} -N 4 --cpu 100m -i {image} --no-flux-view --wait -- hostname
  kueue-flux dev load-image IMAGE --name {cluster}   # lets its pods use an image of this machine's Docker engine
  kueue-flux dev down --name {cluster}"""


async def _delete(client: Client) -> None:
    try:
        await client.delete(MINICLUSTERS, NAME, NAMESPACE, propagation="Foreground")
        while True:
            await client.get(MINICLUSTERS, NAME, NAMESPACE)
            await asyncio.sleep(0.2)
    except ApiError as error:
        if not error.not_found:
            raise


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="dev", help="the dev cluster's name")
    sys.exit(asyncio.run(demo(parser.parse_args().name)))
