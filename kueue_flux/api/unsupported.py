"""The fields that this version does not act on, and what to do instead.

A field is refused when it says something other than its default, never silently ignored: whoever sets it expects
something of it. As a field comes to be acted on, its row goes; docs/minicluster.md is generated from this table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kueue_flux.api.paths import Found, find
from kueue_flux.api.problems import Problem

if TYPE_CHECKING:
    from kueue_flux.api.minicluster import MiniCluster


@dataclass(frozen=True)
class Refusal:
    """A field that is refused.

    Args:
        field: as a pattern for `paths.find`; what is below it is refused with it.
        message: why, without the field's name.
        remedy: what to do instead.
        unless: in words, for the documentation, what is accepted besides the default; empty for nothing.
        accepts: the same as a function of the value and the MiniCluster.
        sidecars: it is acted on in the containers that do not run Flux.
    """

    field: str
    message: str
    remedy: str
    unless: str = ""
    accepts: Callable[[Any, MiniCluster], bool] = lambda value, mc: False
    sidecars: bool = False

    def problems(self, mc: MiniCluster) -> Iterator[Problem]:
        """Yield a problem for each place where the field is set."""
        for found in find(mc, self.field):
            if self.sidecars and not found.path.startswith(f"{mc.flux_container_path}."):
                continue
            if self._is_set(found) and not self.accepts(found.value, mc):
                yield Problem(found.path, self.message, self.remedy, "UnsupportedField")

    def _is_set(self, found: Found) -> bool:
        return bool(found.value != found.default)


_BURSTING = "one Flux instance over several clusters is not supported yet"
_OF_SIDECARS = "it is that of a container that does not run Flux"
_SHELL_TEXT = "shell text around the broker is not supported yet"

REFUSALS: list[Refusal] = [
    Refusal("spec.containers[].batch", "batch jobs are not supported yet", "write a script: command: sh -c '...'"),
    Refusal("spec.containers[].batchRaw", "batch jobs are not supported yet", "write a script: command: sh -c '...'"),
    Refusal("spec.containers[].logs", "it belongs to batch jobs, which are not supported yet", "remove it"),
    Refusal(
        "spec.containers[].noWrapEntrypoint",
        "the container that runs Flux is started by kueue-flux",
        "remove it",
        unless=_OF_SIDECARS,
        sidecars=True,
    ),
    Refusal("spec.containers[].commands.prefix", _SHELL_TEXT, "put the words before the command itself"),
    Refusal(
        "spec.containers[].commands.script",
        _SHELL_TEXT,
        "write it as command: sh -c '...'",
        unless=_OF_SIDECARS,
        sidecars=True,
    ),
    Refusal(
        "spec.containers[].commands.init",
        _SHELL_TEXT,
        "do it in the image, or first in command: sh -c '...'",
        unless=_OF_SIDECARS,
        sidecars=True,
    ),
    Refusal(
        "spec.containers[].commands.pre",
        _SHELL_TEXT,
        "do it in the image, or first in command: sh -c '...'",
        unless=_OF_SIDECARS,
        sidecars=True,
    ),
    Refusal(
        "spec.containers[].commands.post",
        _SHELL_TEXT,
        "do it last in command: sh -c '...'",
        unless=_OF_SIDECARS,
        sidecars=True,
    ),
    Refusal("spec.containers[].commands.workerPre", _SHELL_TEXT, "do it in the image"),
    Refusal("spec.containers[].commands.brokerPre", _SHELL_TEXT, "do it in the image"),
    Refusal(
        "spec.containers[].commands.servicePre",
        "it runs before the command of a sidecar, and this container runs Flux",
        "write it into commands.pre",
        unless=_OF_SIDECARS,
        sidecars=True,
    ),
    Refusal(
        "spec.maxSize",
        "growing is not supported yet",
        "set spec.size to the most pods and spec.minSize to the fewest",
        unless="it equals spec.size",
        accepts=lambda size, mc: size == mc.spec.size,
    ),
    Refusal(
        "spec.interactive",
        "interactive MiniClusters are not supported yet",
        "set spec.containers[0].command, e.g. to sleep infinity",
    ),
    Refusal("spec.archive.path", "saving and loading Flux's state is not supported yet", "remove it"),
    Refusal("spec.logging.strict", "the start script always ends at a failure", "remove it"),
    Refusal("spec.logging.zeromq", "logging ZeroMQ's events is not supported yet", "set spec.logging.debug"),
    Refusal("spec.logging.timed", "timing Flux's commands is not supported yet", "use time in the command"),
    Refusal(
        "spec.flux.submitCommand",
        "another command than flux run is not supported yet",
        "set launcher: true and call it in the command",
    ),
    Refusal("spec.flux.wrap", "wrapping the broker is not supported yet", "wrap the command"),
    Refusal("spec.flux.arch", "no binaries are downloaded", "name an image of that architecture"),
    Refusal("spec.flux.minimalService", "all pods have DNS names in this version", "remove it"),
    Refusal("spec.flux.disableSocket", "the broker's socket always has a path of its own", "remove it"),
    Refusal(
        "spec.flux.completeWorkers",
        "a failed worker fails or restarts the Job in this version",
        "remove it; see spec.backoffLimit",
    ),
    Refusal("spec.flux.curveCert", "each admission gets a new certificate, kept in a Secret", "remove it"),
    Refusal("spec.flux.mungeSecret", _BURSTING, "remove it"),
    Refusal("spec.flux.bursting", _BURSTING, "remove it"),
    Refusal(
        "spec.flux.brokerConfig",
        "a configuration by hand is not supported yet",
        "remove it; see spec.flux for single settings",
    ),
    Refusal(
        "spec.flux.scheduler.simple", "choosing the scheduler is not supported yet", "take an image without Fluxion"
    ),
    Refusal(
        "spec.flux.scheduler.queuePolicy",
        "choosing the queue policy is not supported yet",
        "remove it",
        unless="it is fcfs, Flux's own default",
        accepts=lambda policy, mc: policy == "fcfs",
    ),
    Refusal("spec.flux.container.workingDir", "the container that brings Flux only copies", "remove it"),
    Refusal(
        "spec.flux.container.pythonPath", "Flux finds its Python by itself", "set PYTHONPATH in spec.flux.environment"
    ),
]

MISSING_COMMAND = "a MiniCluster without a command (interactive, RESTful API) is not supported yet"


def missing_command(mc: MiniCluster) -> Iterator[Problem]:
    """Yield a problem if nothing says what to run: the one default that this version refuses."""
    if mc.spec.interactive or mc.flux_container.commands.script:
        return  # refused as such
    if not mc.flux_container.command.strip():
        index = mc.spec.containers.index(mc.flux_container)
        yield Problem(f"spec.containers[{index}].command", MISSING_COMMAND, "set it", "UnsupportedField")
