"""When one run of a MiniCluster reached each stage, from outside: by watching, and from the lead's own log.

All times are this machine's clock, which a kind cluster shares; what a watch brings is timed on arrival.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bench.watching import changes, version
from kueue_flux.controller.resources import CONFIG_MAPS, JOBS, MINICLUSTERS, PODS, SECRETS, WORKLOADS
from kueue_flux.manifests.common import MINICLUSTER
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.resource import Resource

Object = dict[str, Any]

STAGES = ("created", "admitted", "injected", "containers up", "Flux RUN", "output", "finished")
# The broker's log, and the start script's: everything else in the lead's log is the command's output.
_OURS = re.compile(r"<\d>|kueue-flux: |[a-z-]+\.(info|err|warning|debug)\[")


@dataclass
class Run:
    """One run.

    Attributes:
        name: The MiniCluster.
        began: When it was submitted.
        reached: Stage -> seconds after `began`; a stage that was not seen is missing.
        output: The command's output, by line.
        result: The Finished condition's reason and message.
    """

    name: str
    began: datetime
    reached: dict[str, float] = field(default_factory=dict)
    output: list[str] = field(default_factory=list)
    result: tuple[str, str] = ("", "")

    def line(self) -> str:
        """All stages on one line, in seconds after submission."""
        return "  ".join(f"{stage} {self.reached[stage]:.2f} s" for stage in STAGES if stage in self.reached)


async def follow(client: Client, manifest: Object, timeout: float = 300.0) -> Run:  # noqa: ASYNC109
    """Submit a MiniCluster and time its stages until it has finished.

    Args:
        client: The API client.
        manifest: The MiniCluster, with name and namespace; `logging.quiet` off, so that Flux logs its states.
        timeout: Seconds until it must have finished.

    Raises:
        TimeoutError: It did not finish in time; conditions say why.
    """
    meta = manifest["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    size = int(manifest["spec"].get("size", 1))
    watched = (MINICLUSTERS, WORKLOADS, PODS, CONFIG_MAPS, SECRETS)
    starts = {resource: await version(client, resource, namespace) for resource in watched}
    run = Run(name, datetime.now(UTC))
    await client.create(MINICLUSTERS, manifest)
    _note(run, "created", datetime.now(UTC))
    started: set[str] = set()
    written: set[str] = set()

    def admitted(obj: Object) -> bool:
        owners = obj["metadata"].get("ownerReferences", [])
        return _true(obj, "Admitted") and any((o["kind"], o["name"]) == (JOBS.kind, name) for o in owners)

    def containers(obj: Object) -> bool:
        if _belongs(obj, name) and any(
            "waiting" not in status["state"] for status in obj.get("status", {}).get("containerStatuses", [])
        ):
            started.add(obj["metadata"]["name"])
        return len(started) >= size

    def injected(obj: Object) -> bool:
        if _belongs(obj, name):
            written.add(obj["metadata"]["name"])
        return len(written) >= 2

    def finished(obj: Object) -> bool:
        if obj["metadata"]["name"] != name:
            return False
        for condition in obj.get("status", {}).get("conditions", []):
            if condition["type"] == "Finished":
                run.result = (condition["reason"], condition["message"])
        return _true(obj, "Finished")

    try:
        async with asyncio.timeout(timeout), asyncio.TaskGroup() as group:
            reached: tuple[tuple[str, Resource, Callable[[Object], bool]], ...] = (
                ("admitted", WORKLOADS, admitted),
                ("injected", CONFIG_MAPS, injected),
                ("injected", SECRETS, injected),
                ("containers up", PODS, containers),
                ("finished", MINICLUSTERS, finished),
            )
            tasks = [group.create_task(_reach(client, run, starts[r], namespace, s, r, f)) for s, r, f in reached]
            await tasks[-1]
            for task in tasks[:-1]:  # a run that failed early never gets there
                task.cancel()
    except TimeoutError:
        raise TimeoutError(f"{name} did not finish in {timeout:g} s: {run.result[1]}") from None
    await _read_log(client, run, namespace)
    return run


async def _reach(
    client: Client,
    run: Run,
    since: str,
    namespace: str,
    stage: str,
    resource: Resource,
    reached: Callable[[Object], bool],
) -> None:
    found = changes(client, resource, namespace, since, metadata_only=resource in (CONFIG_MAPS, SECRETS))
    async with aclosing(found):
        async for at, obj in found:
            if reached(obj):
                _note(run, stage, datetime.fromtimestamp(at, UTC))
                return


async def _read_log(client: Client, run: Run, namespace: str) -> None:
    lead = "batch.kubernetes.io/job-completion-index=0"
    pods = await client.list_page(PODS, namespace, label_selector=f"flux-framework.org/minicluster={run.name},{lead}")
    for pod in pods["items"]:
        text = await _log(client, namespace, pod["metadata"]["name"])
        for line in text.splitlines():
            stamp, _, said = line.partition(" ")
            at = datetime.fromisoformat(stamp[:26].rstrip("Z") + "+00:00")
            if "quorum->run" in said:
                _note(run, "Flux RUN", at)
            elif not _OURS.match(said):
                _note(run, "output", at)
                run.output.append(said)


async def _log(client: Client, namespace: str, pod: str) -> str:
    path = f"{PODS.path(namespace, pod)}/log"
    response = await client.transport.request("GET", path, {"timestamps": "true"}, {}, None)
    try:
        return (await response.read()).decode(errors="replace")
    finally:
        response.close()


def _note(run: Run, stage: str, at: datetime) -> None:
    run.reached.setdefault(stage, (at - run.began).total_seconds())


def _belongs(obj: Object, name: str) -> bool:
    return bool(obj["metadata"].get("labels", {}).get(MINICLUSTER) == name)


def _true(obj: Mapping[str, Any], kind: str) -> bool:
    conditions = obj.get("status", {}).get("conditions", [])
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)
