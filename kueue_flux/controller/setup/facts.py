"""All that is known of one FluxSetup at one moment, read from the stores."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kueue_flux.api.problems import InvalidFluxSetup
from kueue_flux.api.setup import API_VERSION, KIND, FluxSetup
from kueue_flux.kueue.nodes import Node, pooled, read_node
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
        nodes: All nodes, those of one kind together.
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


class Nodes:
    """The nodes of a store, those of one kind together; read again only when one of them has changed.

    Turns come with each MiniCluster that starts or ends, and nodes by the thousand.

    Args:
        store: Of nodes.
        flavors: Store of ResourceFlavors.
        setups: The FluxSetups.
    """

    def __init__(self, store: Store, flavors: Store, setups: Setups) -> None:
        self._store = store
        self._flavors = flavors
        self._setups = setups
        self._found: tuple[frozenset[str], list[Node]] | None = None
        store.subscribe(self._see)

    def read(self) -> Sequence[Node]:
        """Return the kinds of nodes, told apart by the labels that flavors name."""
        keys = frozenset(self._keys())
        if self._found is None or self._found[0] != keys:
            self._found = keys, pooled((read_node(node) for node in self._store), keys)
        return self._found[1]

    def _keys(self) -> Iterator[str]:
        for flavor in self._flavors:
            yield from (flavor.get("spec") or {}).get("nodeLabels") or ()
        for setup in self._setups:
            for said in setup.flavors:
                yield from said.node_labels or ()

    def _see(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or _capacity(old) != _capacity(new):
            self._found = None


def _capacity(node: Object) -> tuple[object, ...]:
    return node["metadata"].get("labels"), node["spec"], node["status"]
