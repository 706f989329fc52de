"""All that is known of one FluxSetup at one moment, read from the stores."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kueue_flux.api.problems import InvalidFluxSetup
from kueue_flux.api.setup import API_VERSION, KIND, FluxSetup
from kueue_flux.kueue.nodes import Node
from kueue_flux.kueue.queues import ClusterQueueView, read_cluster_queue
from kueue_flux.runtime.resource import Key, Object
from kueue_flux.runtime.store import Store

PARSED = 256
"""How many FluxSetups are kept parsed."""


@dataclass(frozen=True)
class Facts:
    """One FluxSetup and what stands around it.

    Attributes:
        setup: The FluxSetup.
        others: All other FluxSetups that can be read and are not being deleted.
        nodes: All nodes.
        namespaces: The namespaces that exist and are not being deleted.
        flavors: All ResourceFlavors by name.
        priority_classes: All WorkloadPriorityClasses by name.
        cluster_queue: The ClusterQueue of its name, whosoever that is.
        local_queues: Its LocalQueues and those in their places, by (namespace, name).
        waiting: How many MiniClusters wait in each of these.
    """

    setup: FluxSetup
    others: Sequence[FluxSetup] = ()
    nodes: Sequence[Node] = ()
    namespaces: frozenset[str] = frozenset()
    flavors: Mapping[str, Object] = field(default_factory=dict)
    priority_classes: Mapping[str, Object] = field(default_factory=dict)
    cluster_queue: Object | None = None
    local_queues: Mapping[Key, Object] = field(default_factory=dict)
    waiting: Mapping[Key, int] = field(default_factory=dict)

    def owns(self, obj: Object) -> bool:
        """Whether an object is this FluxSetup's, perhaps with others."""
        return self.setup.metadata.uid in owners(obj)

    @cached_property
    def queue(self) -> ClusterQueueView | None:
        """Its own ClusterQueue; None while there is none."""
        if self.cluster_queue is None or not self.owns(self.cluster_queue):
            return None
        return read_cluster_queue(self.cluster_queue)

    def older(self, namespace: str) -> FluxSetup | None:
        """The oldest other FluxSetup that claims a namespace and is older than this one."""
        oldest = claimant(self.others, namespace)
        return oldest if oldest is not None and _age(oldest) < _age(self.setup) else None


def owners(obj: Object) -> dict[str, str]:
    """The FluxSetups that an object belongs to: names by uid."""
    return {
        owner["uid"]: owner["name"]
        for owner in obj["metadata"].get("ownerReferences", [])
        if (owner["apiVersion"], owner["kind"]) == (API_VERSION, KIND)
    }


def claimant(setups: Iterable[FluxSetup], namespace: str) -> FluxSetup | None:
    """The oldest of the FluxSetups that claim a namespace."""
    return min((setup for setup in setups if namespace in setup.namespaces), key=_age, default=None)


def _age(setup: FluxSetup) -> tuple[str, str]:
    return setup.metadata.creation_timestamp, setup.name  # names are unique


class Setups:
    """The FluxSetups of a store, parsed; each again only when it has changed.

    Args:
        store: Of FluxSetups.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parsed: OrderedDict[tuple[str, int], FluxSetup] = OrderedDict()

    def read(self, obj: Object) -> FluxSetup:
        """Parse a FluxSetup.

        Raises:
            InvalidFluxSetup: It cannot be carried out.
        """
        meta = obj["metadata"]
        key = (meta["uid"], meta.get("generation", 0))
        if key not in self._parsed:
            self._parsed[key] = FluxSetup.from_object({"metadata": meta, "spec": obj.get("spec") or {}})
            if len(self._parsed) > PARSED:
                self._parsed.popitem(last=False)
        return self._parsed[key]

    def __iter__(self) -> Iterator[FluxSetup]:
        """All that can be read and are not being deleted."""
        for obj in self._store:
            if "deletionTimestamp" in obj["metadata"]:
                continue
            try:
                yield self.read(obj)
            except InvalidFluxSetup:
                continue  # its own turn says so
