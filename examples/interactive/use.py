"""Uses a MiniCluster that runs: python examples/interactive/use.py NAME [NAMESPACE]."""

import sys

from kueue_flux.client import MiniClusters


def main(name: str, namespace: str | None = None) -> None:
    """Run a job on all nodes, leave another to itself, look at both, and stop the MiniCluster."""
    with MiniClusters(namespace) as miniclusters:
        nodes = sum(found.nodes for found in miniclusters.resources(name))
        ran = miniclusters.run(name, ["hostname"], options=[f"-N{nodes}"])
        print(*sorted(ran.stdout.split()))
        submitted = miniclusters.submit_job(name, ["sleep", "600"])
        for job in miniclusters.jobs(name):
            print(f"{job.name}: {job.state} on {job.nodes} of {nodes} nodes", "(this one)" * (job.id == submitted))
        miniclusters.stop(name)
        print(miniclusters.wait(name).message)


if __name__ == "__main__":
    main(*sys.argv[1:])
