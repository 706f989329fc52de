"""How many MiniClusters of each LocalQueue wait, run and have finished, counted as events come."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from kueue_flux.api.setup import DEFAULT_QUEUE
from kueue_flux.runtime.resource import Key, Object

WAITING_FOR_SETUP = "WaitingForSetup"


class Stage(StrEnum):
    """How far a MiniCluster is; the status fields of a FluxSetup."""

    WAITING = "waiting"
    ADMITTED = "admitted"
    RUNNING = "running"
    FINISHED = "finished"


class Counts:
    """Counts the MiniClusters of a store: `store.subscribe(counts.observe)`."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Key, Stage]] = Counter()

    def observe(self, old: Object | None, new: Object | None) -> None:
        """Count a MiniCluster as it is now, and no longer as it was."""
        for obj, step in ((old, -1), (new, 1)):
            if obj is not None and (key := queue_of(obj)):
                self._counts[key, stage_of(obj)] += step

    def of(self, queues: Iterable[Key]) -> dict[str, int]:
        """Numbers by stage over some LocalQueues, given by (namespace, name)."""
        keys = list(queues)
        return {str(stage): sum(self._counts[key, stage] for key in keys) for stage in Stage}


def queue_of(obj: Object) -> Key | None:
    """The LocalQueue of a MiniCluster, by (namespace, name); None where it has none."""
    status = obj.get("status") or {}
    name = status.get("queue")
    if not name and _condition(obj, "QuotaReserved").get("reason") == WAITING_FOR_SETUP:
        name = DEFAULT_QUEUE
    return (obj["metadata"]["namespace"], name) if name else None


def stage_of(obj: Object) -> Stage:
    """How far a MiniCluster is."""
    for kind, stage in (("Finished", Stage.FINISHED), ("Ready", Stage.RUNNING), ("Admitted", Stage.ADMITTED)):
        if _condition(obj, kind).get("status") == "True":
            return stage
    return Stage.WAITING


def _condition(obj: Object, kind: str) -> Object:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})
