"""A MiniCluster as the user gave it, which knows how to speak of itself in the user's own terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kueue_flux.api import labels
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.problems import InvalidMiniCluster, Problem


@dataclass(frozen=True)
class Given:
    """A MiniCluster by flags, or from a file.

    Attributes:
        object: The MiniCluster, not validated.
        title: What to call it.
        explain: Turns a problem with a field into one with what the user typed: a flag, or a line of the file.
    """

    object: dict[str, Any]
    title: str
    explain: Callable[[Problem], Problem]

    def problems(self) -> list[Problem]:
        """All that is wrong with it, in the user's terms; none means that it can be run."""
        try:
            mc = MiniCluster.from_object(self.object)
            found = list(labels.malformed("metadata.labels", mc.metadata.labels))
        except InvalidMiniCluster as error:
            found = error.problems
        # One flag may set several fields.
        return list(dict.fromkeys(map(self.explain, found)))
