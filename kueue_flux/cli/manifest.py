"""MiniClusters from what a user typed: the flags of `submit`, or the documents of a file. Pure, but for a suffix."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kueue_flux.api.minicluster import API_VERSION, GROUP, KIND
from kueue_flux.cli.failures import InputError
from kueue_flux.kueue.labels import PRIORITY_CLASS, QUEUE_NAME

# As Kubernetes' own generated names: no vowels, so no words; nothing that looks like something else.
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_HOSTNAME_LENGTH = 63
# Long enough to know it again, short enough for a table.
_STEM_LENGTH = 40


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


def from_flags(flags: Flags, command: Sequence[str], environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Build the MiniCluster that runs a command.

    Args:
        flags: What was asked for.
        command: The command's words; not empty.
        environ: Where `--env NAME` takes its value from.

    Raises:
        InputError: An environment variable cannot be understood.
    """
    labels = _set({QUEUE_NAME: flags.queue, PRIORITY_CLASS: flags.priority})
    resources = _set({"cpu": flags.cpu, "memory": flags.memory})
    container = _set(
        {
            "image": flags.image,
            "command": shlex.join(command),
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
            "name": flags.name or generated_name(command[0], flags.size),
            "namespace": flags.namespace,
            "labels": labels or None,
        }
    )
    spec = _set(
        {
            "size": flags.size,
            "minSize": flags.min_size,
            "tasks": max(flags.size, 1) if flags.tasks is None else flags.tasks,
            "ttlSecondsAfterFinished": flags.ttl,
            "logging": {"quiet": flags.quiet},
            "flux": {"container": view} if view else None,
            "containers": [container],
        }
    )
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def environment(settings: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Read `NAME=value` settings; `NAME` alone takes the value that it has in `environ`.

    Raises:
        InputError: A setting has no name, or no value anywhere.
    """
    values = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not name:
            raise InputError(f"--env {setting}: a name is missing", "write --env NAME=value")
        if not equals and name not in environ:
            raise InputError(f"--env {name}: it has no value here", f"write --env {name}=value, or export {name}")
        values[name] = value if equals else environ[name]
    return values


def generated_name(command: str, size: int) -> str:
    """Make a name from a command: its last part and a suffix, short enough for host names `<name>-<index>`.

    Args:
        command: The command's first word.
        size: Nodes asked for.
    """
    return _with_suffix(command.rsplit("/", 1)[-1], size)


def documents(text: str, source: str) -> list[dict[str, Any]]:
    """Read MiniClusters from YAML or JSON: several documents, or a List.

    Args:
        text: What the file holds.
        source: Its name, for messages.

    Returns:
        The objects, not validated, each with a name.

    Raises:
        InputError: It is no YAML, it holds nothing, or something other than MiniClusters.
    """
    import yaml

    try:
        found = [document for document in yaml.load_all(text, _loader()) if document is not None]
    except yaml.YAMLError as error:
        raise InputError(f"{source} is no YAML: {error}") from error
    objects = [item for document in found for item in _items(document)]
    if not objects:
        raise InputError(f"{source} holds no MiniCluster", "see examples/single-command/minicluster.yaml")
    for number, item in enumerate(objects, 1):
        where = f"{source}, document {number}," if len(objects) > 1 else source
        if not isinstance(item, dict):
            raise InputError(f"{where} is no Kubernetes object but {type(item).__name__}")
        group = str(item.get("apiVersion", "")).partition("/")[0]
        if item.get("kind") != KIND or group != GROUP:
            kind = f"{item.get('kind', 'object without a kind')} ({item.get('apiVersion', 'no apiVersion')})"
            raise InputError(
                f"{where} is a {kind}; submit takes {KIND} ({API_VERSION}) only",
                f"nothing was submitted; for other kinds: kubectl apply -f {source}",
            )
    return [_named(item) for item in objects]


def _loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _items(document: Any) -> list[Any]:
    if isinstance(document, dict) and document.get("kind") == "List":
        return list(document.get("items") or [])
    return [document]


def _named(item: dict[str, Any]) -> dict[str, Any]:
    """Give a name to an object that leaves it to `generateName`, as the API server would."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") or not metadata.get("generateName"):
        return item
    size = (item.get("spec") or {}).get("size")
    name = _with_suffix(str(metadata["generateName"]), size if isinstance(size, int) else 1)
    rest = {key: value for key, value in metadata.items() if key != "generateName"}
    return {**item, "metadata": {"name": name, **rest}}


def _with_suffix(stem: str, size: int) -> str:
    index = len(str(max(size - 1, 0)))
    room = _HOSTNAME_LENGTH - 1 - index - 1 - _SUFFIX_LENGTH
    stem = re.sub(r"[^a-z0-9]+", "-", stem.lower()).lstrip("-0123456789")
    stem = stem[: min(room, _STEM_LENGTH)].rstrip("-") or "minicluster"
    suffix = "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))
    return f"{stem}-{suffix}"


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
