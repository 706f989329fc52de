"""A program for namespaces without an engine: brings one up and takes it down, and tells what it saw.

A container that carries the label of a kind node stands for the node of a cluster: to the engine it is one.
"""

from __future__ import annotations

import json
import sys

from e2e import traces
from e2e.kit import KUEUE_FLUX, run
from kueue_flux.devcluster import engine, guard, kind, paths, process
from kueue_flux.devcluster.progress import Progress

NAME = "alone"


def main(image: str) -> None:
    """Print as JSON the machine before and after, the traces of the cluster up and down, and how `down` ended.

    Args:
        image: an archive of a root filesystem with a program /pause.
    """
    told: dict[str, object] = {"before": traces.of_machine()}
    try:
        bring_up(image)
        names = traces.names_of(NAME)
        told["up"] = traces.of_cluster(NAME, names)
    finally:
        down = run(KUEUE_FLUX, "dev", "down", "--name", NAME)
    told |= {"code": down.code, "said": down.err, "down": traces.of_cluster(NAME, names), "after": traces.of_machine()}
    print(json.dumps(told))


def bring_up(image: str) -> None:
    """What `kueue-flux dev up` does for the network and the nodes, with the smallest container there is."""
    engine.ensure(Progress())
    guard.block(kind.ensure_network(NAME))
    (paths.state_dir(NAME) / "cluster.json").write_text("{}")
    docker = engine.docker()
    process.output([docker, "import", "--change", 'ENTRYPOINT ["/pause"]', image, "pause:1"])
    node = ["--name", f"{NAME}-worker", "--label", f"io.x-k8s.kind.cluster={NAME}", "--network", kind.network(NAME)]
    process.output([docker, "run", "--detach", *node, "--publish", "127.0.0.1::6443", "--volume", "/var", "pause:1"])


if __name__ == "__main__":
    main(sys.argv[1])
