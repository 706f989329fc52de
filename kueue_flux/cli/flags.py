"""The MiniCluster that the flags of `submit` describe. Pure, but for the suffix of a generated name."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kueue_flux.api.base import MAX_INDEXED_PODS
from kueue_flux.api.minicluster import API_VERSION, KIND
from kueue_flux.api.problems import Problem
from kueue_flux.cli.failures import InputError
from kueue_flux.cli.given import Given
from kueue_flux.cli.names import generated_name
from kueue_flux.kueue.labels import PRIORITY_CLASS, QUEUE_NAME


@dataclass(frozen=True)
class Flags:
    """What `submit` was told of the MiniCluster by flags; None where it was told nothing.

    Attributes:
        image: The container image of the command.
        name: The MiniCluster's name; None generates one.
        namespace: Its namespace; None leaves it to where it is sent.
        queue: The LocalQueue; None runs it without Kueue.
        priority: A WorkloadPriorityClass.
        size: Nodes: one pod and one Flux broker each.
        min_size: The fewest nodes to start with.
        tasks: Tasks over all nodes; None runs one on each.
        cpu: CPUs of each node, a Kubernetes quantity.
        memory: Memory of each node, a Kubernetes quantity.
        env: `NAME=value`, or `NAME` for the value that it has here.
        workdir: The command's working directory.
        quiet: Whether only the command's output is shown.
        flux_view: Whether Flux is brought along; otherwise the image has it.
        flux_image: The image that Flux is brought from; None for the default.
        flux_volume: Whether that image is mounted instead of copied from.
        ttl: Seconds after the end after which it is deleted.
        interactive: Whether it waits for people to use it, in place of a command.
    """

    image: str
    name: str | None = None
    namespace: str | None = None
    queue: str | None = None
    priority: str | None = None
    size: int = 1
    min_size: int | None = None
    tasks: int | None = None
    cpu: str | None = None
    memory: str | None = None
    env: Sequence[str] = ()
    workdir: str | None = None
    quiet: bool = True
    flux_view: bool = True
    flux_image: str | None = None
    flux_volume: bool = False
    ttl: int | None = None
    interactive: bool = False


_RESOURCES = "spec.containers[0].resources"
_CPU = ("--cpu", "write --cpu 2 or --cpu 500m")
_MEMORY = ("--memory", "write --memory 4Gi or --memory 500Mi")

# Field of the MiniCluster -> the flag that sets it, and what to write; an empty text leaves that to the problem.
_FLAGS = {
    "metadata.name": ("--name", "write lower-case letters, digits and dashes, at most 57, as --name my-run"),
    f"metadata.labels.{QUEUE_NAME}": ("--queue", "write the name of a LocalQueue, as --queue user-queue"),
    f"metadata.labels.{PRIORITY_CLASS}": ("--priority", "write the name of a WorkloadPriorityClass"),
    "spec.size": ("--size", f"write a whole number from 1 to {MAX_INDEXED_PODS}, as --size 4"),
    "spec.minSize": ("--min-size", "write a whole number from 1 to that of --size"),
    "spec.tasks": ("--tasks", "write a whole number, 1 or more, as --tasks 8"),
    "spec.ttlSecondsAfterFinished": ("--ttl", "write a shorter time, as --ttl 1h"),
    "spec.flux.container.image": ("--flux-image", "write the name of an image"),
    "spec.containers[0].image": ("--image", "write the name of an image, as --image ubuntu:noble"),
    "spec.containers[0].workingDir": ("--workdir", "write the whole path, as --workdir /data"),
    "spec.containers[0].environment": ("--env", ""),
    f"{_RESOURCES}.requests.cpu": _CPU,
    f"{_RESOURCES}.limits.cpu": _CPU,
    f"{_RESOURCES}.requests.memory": _MEMORY,
    f"{_RESOURCES}.limits.memory": _MEMORY,
}


def given(flags: Flags, command: Sequence[str]) -> Given:
    """Read what was given by flags.

    Args:
        flags: What was asked for.
        command: The command's words; empty for an interactive MiniCluster.

    Raises:
        InputError: It is contradictory, or cannot be understood.
    """
    return Given(from_flags(flags, command), "this MiniCluster", explain)


def explain(problem: Problem) -> Problem:
    """A problem with a field as one with the flag that set it."""
    for field, (flag, remedy) in _FLAGS.items():
        if problem.field == field or problem.field.startswith(f"{field}."):
            part = problem.field.removeprefix(field).lstrip(".")
            return replace(problem, field=f"{flag} {part}".rstrip(), remedy=remedy or problem.remedy)
    return problem


def from_flags(flags: Flags, command: Sequence[str], environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Build the MiniCluster that runs a command.

    Args:
        flags: What was asked for.
        command: The command's words; empty for an interactive MiniCluster.
        environ: Where `--env NAME` takes its value from.

    Raises:
        InputError: The flags contradict each other, or an environment variable cannot be understood.
    """
    _check(flags, command)
    labels = _set({QUEUE_NAME: flags.queue, PRIORITY_CLASS: flags.priority})
    resources = _set({"cpu": flags.cpu, "memory": flags.memory})
    container = _set(
        {
            "image": flags.image,
            "command": shlex.join(command) or None,
            "workingDir": flags.workdir,
            "environment": environment(flags.env, environ) or None,
            # Requests alone count in the queue; the limit keeps to what was counted.
            "resources": {"requests": resources, "limits": dict(resources)} if resources else None,
        }
    )
    view: dict[str, Any] = (
        _set({"image": flags.flux_image, "imageVolume": flags.flux_volume or None})
        if flags.flux_view
        else {"disable": True}
    )
    metadata = _set(
        {
            "name": flags.name or generated_name(command[0] if command else "interactive", flags.size),
            "namespace": flags.namespace,
            "labels": labels or None,
        }
    )
    spec = _set(
        {
            "size": flags.size,
            "minSize": flags.min_size,
            "tasks": flags.size if flags.tasks is None else flags.tasks,
            "ttlSecondsAfterFinished": flags.ttl,
            "interactive": flags.interactive or None,
            "logging": {"quiet": flags.quiet},
            "flux": {"container": view} if view else None,
            "containers": [container],
        }
    )
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def _check(flags: Flags, command: Sequence[str]) -> None:
    """Refuse what would otherwise be passed over in silence."""
    if command and not command[0].strip():
        raise InputError("the command is empty", "write it after the two dashes: -- COMMAND...")
    if flags.min_size is not None and flags.min_size > flags.size:
        raise InputError(
            f"--min-size {flags.min_size} is above --size {flags.size}",
            "write the most nodes as --size, the fewest as --min-size",
        )
    check_view(flags.flux_view, flags.flux_image, flags.flux_volume)


def check_view(view: bool, image: str | None, volume: bool) -> None:
    """Refuse flags that say where Flux is brought from beside the one that says that it is not brought at all.

    Raises:
        InputError: They contradict each other.
    """
    for flag, asked in (("--flux-image", image is not None), ("--flux-volume", volume)):
        if asked and not view:
            raise InputError(
                f"{flag} says where Flux is brought from, --no-flux-view that it is in the image already",
                "leave one of the two out",
            )


def environment(settings: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Read `NAME=value` settings; `NAME` alone takes the value that it has in `environ`.

    Raises:
        InputError: A setting has no name, or no value anywhere.
    """
    values = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not name:
            raise InputError(f"--env {shlex.quote(setting)}: a name is missing", "write --env NAME=value")
        if not equals and name not in environ:
            raise InputError(f"--env {name}: it has no value here", f"write --env {name}=value, or export {name}")
        values[name] = value if equals else environ[name]
    return values


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
