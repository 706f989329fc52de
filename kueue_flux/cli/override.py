"""What flags of `submit` change in the MiniClusters of a file: what differs from cluster to cluster."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kueue_flux.cli.failures import InputError
from kueue_flux.cli.flags import check_view
from kueue_flux.cli.given import Given
from kueue_flux.kueue.labels import QUEUE_NAME

# The flags that may stand beside a file, as they are called in the command's signature.
FLAGS = frozenset({"image", "queue", "flux_view", "flux_image", "flux_volume"})


@dataclass(frozen=True)
class Override:
    """What to put in the place of what a file says; None leaves it.

    Attributes:
        image: The image of the container that runs Flux.
        queue: The LocalQueue.
        flux_view: Whether Flux is brought along; otherwise the image has it.
        flux_image: The image that Flux is brought from.
        flux_volume: Whether that image is mounted instead of copied from.
    """

    image: str | None = None
    queue: str | None = None
    flux_view: bool | None = None
    flux_image: str | None = None
    flux_volume: bool | None = None

    def apply(self, given: Sequence[Given]) -> list[Given]:
        """Change MiniClusters, which may not be valid: what is not as it should be is left for the validation.

        Raises:
            InputError: The flags contradict each other.
        """
        check_view(self.flux_view is not False, self.flux_image, bool(self.flux_volume))
        return [replace(one, object=self._changed(one)) for one in given]

    def _changed(self, given: Given) -> dict[str, Any]:
        obj = copy.deepcopy(given.object)
        try:
            if self.image is not None:
                _flux_container(obj)["image"] = self.image
            if self.queue is not None:
                _in(obj, "metadata", "labels")[QUEUE_NAME] = self.queue
                (obj["spec"].get("jobLabels") or {}).pop(QUEUE_NAME, None)  # the other place where a file may name it
            if view := self._view():
                flux = _in(obj, "spec", "flux")
                kept = {} if view.get("disable") else flux.get("container") or {}
                flux["container"] = {**kept, **view}
        except (AttributeError, LookupError, TypeError) as error:
            if not given.problems():
                raise InputError(f"{given.title} cannot be changed by flags", "change it itself") from error
        return obj

    def _view(self) -> dict[str, Any]:
        if self.flux_view is False:
            return {"disable": True}
        asked = {"image": self.flux_image, "imageVolume": self.flux_volume}
        view = {key: value for key, value in asked.items() if value is not None}
        return {"disable": False, **view} if view or self.flux_view else {}


def _flux_container(obj: dict[str, Any]) -> dict[str, Any]:
    containers: list[dict[str, Any]] = obj["spec"]["containers"]
    return next((container for container in containers if container.get("runFlux")), containers[0])


def _in(obj: dict[str, Any], *path: str) -> dict[str, Any]:
    """The mapping at a path, made where there is none."""
    for key in path:
        obj[key] = obj.get(key) or {}
        obj = obj[key]
    return obj
