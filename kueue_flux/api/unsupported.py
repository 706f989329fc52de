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

REFUSALS: list[Refusal] = [
    Refusal(
        "spec.containers[].noWrapEntrypoint",
        "the container that runs Flux is started by kueue-flux",
        "remove it",
        unless=_OF_SIDECARS,
        sidecars=True,
    ),
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
    Refusal("spec.flux.bursting", _BURSTING, "remove it"),
    Refusal(
        "spec.flux.container.pythonPath",
        "it is that of a Flux that is brought along, and this one is in the application's image",
        "set PYTHONPATH in spec.flux.environment",
        unless="spec.flux.container brings Flux",
        accepts=lambda path, mc: not mc.spec.flux.container.disable,
    ),
]

NO_EFFECT: dict[str, str] = {
    "spec.flux.arch": "nothing is downloaded, and images say themselves for which architectures they are",
    "spec.flux.disableSocket": "the broker's socket has a path of its own in any case, /run/flux/local",
}
"""Fields that are accepted whatever they say, since nothing that their user may want depends on them here; and why."""
