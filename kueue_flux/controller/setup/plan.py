"""What is to be written for a FluxSetup, and what is to be said of it: a pure function of the facts.

Nothing of anybody else is ever changed. What several FluxSetups share (flavors, priority classes) has them all as
owners, and is changed only where all of them agree.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kueue_flux.api.pod import Toleration
from kueue_flux.api.setup import FluxSetup, SetupFlavor
from kueue_flux.controller.setup.facts import Facts, owners
from kueue_flux.controller.setup.findings import Finding, Level
from kueue_flux.controller.setup.quotas import Definition, Quotas, about_nodes, quotas
from kueue_flux.kueue.nodes import written
from kueue_flux.kueue.queues import read_cluster_queue, read_local_queue
from kueue_flux.manifests import setup as manifests
from kueue_flux.manifests.setup import DEFINED_BY, HELD
from kueue_flux.runtime.resource import Object


@dataclass(frozen=True)
class Change:
    """A write.

    Attributes:
        verb: What is done.
        obj: The object: as it is to be, or as it is.
        patch: JSON merge patch (RFC 7386), for "patch".
        note: What the admin is told once it is done; empty for nothing.
        warns: Whether that is a warning.
    """

    verb: Literal["create", "patch", "delete"]
    obj: Object
    patch: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    warns: bool = False


@dataclass
class Plan:
    """What is to be done, in this order, and what is to be said.

    Attributes:
        changes: The writes.
        findings: What is to be said.
        quotas: What the ClusterQueue is to give; None where there can be none.
        namespaces: Those that have, or get by these changes, their LocalQueue.
    """

    changes: list[Change] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    quotas: Quotas | None = None
    namespaces: list[str] = field(default_factory=list)

    def say(self, level: Level, reason: str, message: str) -> None:
        """Note a finding."""
        self.findings.append(Finding(level, reason, message))


def plan(facts: Facts) -> Plan:
    """Plan what a FluxSetup needs next."""
    found = Plan()
    definitions = _flavors(facts, found)
    _priority_classes(facts, found)
    if definitions is not None:
        seen = facts.cluster_queue is not None and is_seen(facts.cluster_queue)
        found.quotas = quotas(facts.setup, definitions, facts.nodes, facts.queue, seen=seen)
        found.findings += about_nodes(facts.setup, definitions, facts.nodes, facts.others)
    namespaces = list(_claimed(facts, found))
    if _cluster_queue(facts, namespaces, found):
        for namespace in namespaces:
            _local_queue(facts, namespace, found)
    _retire_queues(facts, namespaces, found)
    _release(facts, found)
    return found


# -- flavors


def _flavors(facts: Facts, found: Plan) -> dict[str, Definition] | None:
    """Plan the ResourceFlavors. Returns which nodes each stands for; None where one of them cannot be used."""
    definitions: dict[str, Definition] = {}
    for flavor in facts.setup.flavors:
        definition = _flavor(facts, flavor, found)
        if definition is not None:
            definitions[flavor.name] = definition
    return definitions if len(definitions) == len(facts.setup.flavors) else None


def _flavor(facts: Facts, flavor: SetupFlavor, found: Plan) -> Definition | None:
    said = Definition(flavor.node_labels or {}, tuple(flavor.tolerations or ()))
    present = facts.flavors.get(flavor.name)
    if present is None:
        new = manifests.resource_flavor(facts.setup, flavor.name, said.labels, said.tolerations)
        found.changes.append(Change("create", new))
        return said
    if _leaves(present, found):
        return None
    patch: dict[str, Any] = {}
    if _defines(facts, present, flavor):
        against = [other for other in _sharers(facts, present) if not _agrees(other, flavor.name, said)]
        spec = manifests.flavor_spec(said.labels, said.tolerations)
        if not _same_flavor(spec, present) and against:
            found.say(
                Level.REFUSED,
                "FlavorConflict",
                f"ResourceFlavor {flavor.name} is used by FluxSetup {against[0].name} too, which says otherwise what "
                "its nodes are: change both, or give this flavor another name",
            )
            return None
        if not _same_flavor(spec, present):
            patch["spec"] = merge(_managed(present.get("spec") or {}, ("nodeLabels", "tolerations")), spec)
        if present["metadata"].get("annotations", {}).get(DEFINED_BY) != facts.setup.metadata.uid:
            patch["metadata"] = {"annotations": {DEFINED_BY: facts.setup.metadata.uid}}
    elif conflict := _flavor_conflict(flavor, present):
        found.say(Level.REFUSED, "FlavorConflict", conflict)
        return None
    else:
        said = _defined(present)
    if owners(present) and not facts.owns(present):
        patch.setdefault("metadata", {})["ownerReferences"] = _with_owner(present, facts.setup)
    if patch:
        note = f"ResourceFlavor {flavor.name} now stands for other nodes; what runs stays where it is"
        found.changes.append(Change("patch", present, patch, note if "spec" in patch else ""))
    return said


def _defines(facts: Facts, present: Object, flavor: SetupFlavor) -> bool:
    """Whether it is this FluxSetup that says what a flavor is: it made it, or who did is gone and it says so itself."""
    definer = present["metadata"].get("annotations", {}).get(DEFINED_BY)
    found = owners(present)
    if definer == facts.setup.metadata.uid:
        return facts.owns(present)
    says = flavor.node_labels is not None or flavor.tolerations is not None
    return says and facts.owns(present) and definer not in found


def _sharers(facts: Facts, present: Object) -> list[FluxSetup]:
    """The other FluxSetups that a flavor belongs to."""
    return [other for other in facts.others if other.metadata.uid in owners(present)]


def _agrees(other: FluxSetup, name: str, said: Definition) -> bool:
    for flavor in other.flavors:
        if flavor.name == name:
            return flavor.node_labels in (None, said.labels) and (
                flavor.tolerations is None or _plain(flavor.tolerations) == _plain(said.tolerations)
            )
    return True


def _flavor_conflict(flavor: SetupFlavor, present: Object) -> str:
    """What is otherwise in a flavor that somebody else defines; empty for nothing."""
    there = _defined(present)
    differ = []
    if flavor.node_labels is not None and flavor.node_labels != there.labels:
        differ.append("nodeLabels")
    if flavor.tolerations is not None and _plain(flavor.tolerations) != _plain(there.tolerations):
        differ.append("tolerations")
    if not differ:
        return ""
    names = sorted(owners(present).values())
    whose = f"FluxSetup {names[0]}'s" if names else "there already and is not ours"
    return (
        f"ResourceFlavor {flavor.name} is {whose}, with other {' and '.join(differ)}: make them equal, leave them out "
        "to use it as it is, or give this flavor another name"
    )


def _defined(present: Object) -> Definition:
    spec = present.get("spec") or {}
    tolerations = [
        Toleration.model_validate({key: value for key, value in each.items() if key in _TOLERATION}, by_alias=True)
        for each in spec.get("tolerations") or []
    ]
    return Definition(spec.get("nodeLabels") or {}, tuple(tolerations))


_TOLERATION = ("key", "operator", "value", "effect")


def _same_flavor(spec: Object, present: Object) -> bool:
    there = present.get("spec") or {}
    same_labels = (there.get("nodeLabels") or {}) == spec.get("nodeLabels", {})
    return same_labels and _plain(_defined(present).tolerations) == _plain(_defined({"spec": spec}).tolerations)


def _plain(tolerations: Iterable[Toleration]) -> list[tuple[str, str, str, str]]:
    """Tolerations in a form that can be compared: Equal is what an operator is that is not given."""
    return sorted((each.key, each.operator or "Equal", each.value, each.effect) for each in tolerations)


# -- priority classes


def _priority_classes(facts: Facts, found: Plan) -> None:
    for name, value in facts.setup.spec.priorities.items():
        present = facts.priority_classes.get(name)
        if present is None:
            found.changes.append(Change("create", manifests.priority_class(facts.setup, name)))
        elif not _leaves(present, found):
            _share_priority_class(facts, name, value, present, found)


def _share_priority_class(facts: Facts, name: str, value: int, present: Object, found: Plan) -> None:
    there, sharing = present.get("value", 0), owners(present)
    patch: dict[str, Any] = {}
    note = ""
    if there != value:
        whose = [owner for uid, owner in sharing.items() if uid != facts.setup.metadata.uid]
        if whose or not sharing:
            other = f"FluxSetup {whose[0]}'s" if whose else "there already and is not ours"
            found.say(
                Level.REFUSED,
                "PriorityConflict",
                f"WorkloadPriorityClass {name} is {other}, with the value {there}: use that value, or another name",
            )
            return
        patch["value"] = value
        note = f"WorkloadPriorityClass {name} is now {value}; what was submitted before keeps {there}"
    if sharing and not facts.owns(present):
        patch["metadata"] = {"ownerReferences": _with_owner(present, facts.setup)}
    if patch:
        found.changes.append(Change("patch", present, patch, note))


# -- queues


def _claimed(facts: Facts, found: Plan) -> Iterator[str]:
    """Yield the namespaces that are this FluxSetup's, whether they exist or not."""
    for namespace in facts.setup.namespaces:
        if other := facts.older(namespace):
            found.say(
                Level.REFUSED,
                "NamespaceClaimed",
                f"namespace {namespace} belongs to FluxSetup {other.name}, which is older: take it out of the "
                "spec.namespaces of either; it passes on when that one gives it up",
            )
        else:
            yield namespace


def _cluster_queue(facts: Facts, namespaces: Sequence[str], found: Plan) -> bool:
    """Plan the ClusterQueue. Returns whether it is there, or made."""
    present = facts.cluster_queue
    if present is not None and not facts.owns(present) and not owners(present) and not _is_leaving(present):
        found.say(
            Level.REFUSED,
            "NameTaken",
            f"ClusterQueue {facts.setup.name} is there and is not ours: rename this FluxSetup, or delete that",
        )
        return False
    if present is not None and _leaves(present, found, ours=facts.owns(present)):
        return False
    if found.quotas is None:
        return present is not None
    wanted = manifests.cluster_queue(facts.setup, namespaces, found.quotas.flavors)
    if present is None:
        spec = {key: value for key, value in wanted["spec"].items() if value is not None}
        found.changes.append(Change("create", {**wanted, "spec": spec}))
        return True
    if patch := _spec_patch(present, wanted):
        found.changes.append(Change("patch", present, {"spec": patch}, *_reductions(facts, found.quotas)))
    _about_use(facts, found)
    queue = facts.queue
    if queue is not None and queue.inactive and not found.changes:
        found.say(Level.NOT_READY, "ClusterQueueInactive", f"ClusterQueue {queue.name}: {queue.inactive.message}")
    return True


def _spec_patch(present: Object, wanted: Object) -> dict[str, Any]:
    """What to change of a ClusterQueue; whatever a FluxSetup does not speak of stays as it is."""
    there = present.get("spec") or {}
    patch: dict[str, Any] = merge(
        {key: value for key, value in there.items() if key in wanted["spec"] and key != "resourceGroups"},
        {key: value for key, value in wanted["spec"].items() if value is not None and key != "resourceGroups"},
    )
    # amounts can be written in several ways, and Kueue writes them anew
    now, then = read_cluster_queue(present), read_cluster_queue(wanted)
    if (now.groups, now.quotas) != (then.groups, then.quotas):
        patch["resourceGroups"] = wanted["spec"]["resourceGroups"]
    return patch


def _reductions(facts: Facts, wanted: Quotas) -> tuple[str, bool]:
    """What to say where less than is used is to be the FluxSetup's own: (note, whether it is a warning).

    Without a cohort, its status says so as long as it is so.
    """
    queue = facts.queue if facts.setup.spec.cohort else None
    notes = []
    for cell, quota in queue.quotas.items() if queue else ():
        then, usage = wanted.nominal.get(cell), queue.reserved.get(cell) if queue else None
        if then is not None and usage is not None and then < min(quota.nominal, usage.total):
            flavor, resource = cell
            notes.append(f"{written(resource, usage.total)} {resource} of {written(resource, then)} ({flavor})")
    if not notes:
        return "", False
    then_what = f"what is above it is borrowed from cohort {facts.setup.spec.cohort}, and others may take it back"
    return f"the quota is now less than what is used: {', '.join(notes)}: {then_what}", True


def _about_use(facts: Facts, found: Plan) -> None:
    """Say where more is used than there is quota, and of flavors that are used and no longer named."""
    queue, wanted = facts.queue, found.quotas
    if queue is None or wanted is None:
        return
    for name in wanted.held:
        used = [
            f"{written(resource, usage.total)} {resource}"
            for (flavor, resource), usage in sorted(queue.reserved.items())
            if flavor == name and usage.total
        ]
        if not used:
            continue  # it goes as soon as Kueue has taken note that it has no quota
        found.say(
            Level.WARNING,
            "FlavorInUse",
            f"flavor {name} is not in spec any more, and {', '.join(used)} of it are in use: that goes on to its end, "
            "nothing new gets any, and the flavor is taken away then",
        )
    for (flavor, resource), usage in sorted(queue.reserved.items()):
        quota = wanted.nominal.get((flavor, resource))
        if quota is None or flavor in wanted.held or facts.setup.spec.cohort or usage.total <= quota:
            continue
        found.say(
            Level.WARNING,
            "QuotaInUse",
            f"flavor {flavor} uses {written(resource, usage.total)} {resource} of {written(resource, quota)}: nothing "
            f"is ended, and nothing new that asks for {resource} starts until "
            f"{written(resource, usage.total - quota)} and what it asks for have been given back",
        )


def _local_queue(facts: Facts, namespace: str, found: Plan) -> None:
    if namespace not in facts.namespaces:
        found.say(
            Level.NOT_READY,
            "NamespaceMissing",
            f"namespace {namespace} does not exist: create it, or take it out of spec.namespaces",
        )
        return
    name = facts.setup.spec.queue
    present = facts.local_queues.get((namespace, name))
    if present is None:
        found.changes.append(Change("create", manifests.local_queue(facts.setup, namespace)))
    elif not facts.owns(present):
        _queue_of_others(facts, present, found)
        return
    elif _leaves(present, found):
        return
    elif HELD in present["metadata"].get("annotations", {}):
        patch = {"metadata": {"annotations": {HELD: None}}, "spec": {"stopPolicy": "None"}}
        found.changes.append(Change("patch", present, patch, f"LocalQueue {namespace}/{name} admits again"))
    found.namespaces.append(namespace)


def _queue_of_others(facts: Facts, present: Object, found: Plan) -> None:
    where = f"LocalQueue {_place(present)}"
    theirs = sorted(owners(present).values())
    if theirs:
        found.say(
            Level.NOT_READY,
            "QueueLeaving",
            f"{where} is still FluxSetup {theirs[0]}'s, and goes once what runs in it has ended; it is made anew then",
        )
    else:
        found.say(
            Level.REFUSED,
            "NameTaken",
            f"{where} is there and is not ours: delete it, or choose another spec.queue",
        )


def _retire_queues(facts: Facts, namespaces: Sequence[str], found: Plan) -> None:
    """Hold its LocalQueues that are no longer wanted while something runs in them, and delete them then."""
    wanted = {(namespace, facts.setup.spec.queue) for namespace in namespaces}
    for key, present in sorted(facts.local_queues.items()):
        if key in wanted or not facts.owns(present) or _is_leaving(present):
            continue
        queue = read_local_queue(present)
        waiting = facts.waiting.get(key, 0)  # Kueue counts none in a queue that is held
        waits = f"; what waits in it ({waiting}) goes on waiting until there is one of this name" * bool(waiting)
        where = f"LocalQueue {_place(present)}"
        if HELD not in present["metadata"].get("annotations", {}):
            patch = {"metadata": {"annotations": {HELD: facts.setup.name}}, "spec": {"stopPolicy": "Hold"}}
            note = f"{where} is not in spec any more: it admits nothing, and goes when what runs in it has ended{waits}"
            found.changes.append(Change("patch", present, patch, note, warns=True))
        elif is_seen(present) and not queue.admitted and not any(use.total for use in queue.reserved.values()):
            found.changes.append(Change("delete", present, note=f"{where} is deleted: nothing runs in it{waits}"))
            continue
        found.say(
            Level.WARNING,
            "QueueInUse",
            f"{where} is not in spec any more, and is held until what runs in it ({queue.admitted}) has ended{waits}",
        )


def is_seen(queue: Object) -> bool:
    """Whether Kueue has taken note of a LocalQueue or ClusterQueue as it is now."""
    conditions = (queue.get("status") or {}).get("conditions") or []
    generation = queue["metadata"].get("generation", 0)
    return any(each["type"] == "Active" and each.get("observedGeneration") == generation for each in conditions)


# -- what is shared, and what is left


def _release(facts: Facts, found: Plan) -> None:
    """Give up the flavors and priority classes that it no longer names."""
    flavors = {flavor.name for flavor in facts.setup.flavors} | set(_listed(facts))
    for name, present in sorted(facts.flavors.items()):
        if name not in flavors:
            _give_up(facts, present, found)
    for name, present in sorted(facts.priority_classes.items()):
        if name not in facts.setup.spec.priorities:
            _give_up(facts, present, found)


def _listed(facts: Facts) -> Iterator[str]:
    """The flavors that its ClusterQueue lists now: to be given up when it no longer does."""
    queue = facts.queue
    return (flavor for _, flavors in (queue.groups if queue else ()) for flavor in flavors)


def _give_up(facts: Facts, present: Object, found: Plan) -> None:
    if not facts.owns(present) or _is_leaving(present):
        return
    what = f"{present['kind']} {present['metadata']['name']}"
    left = [owner for owner in present["metadata"]["ownerReferences"] if owner["uid"] != facts.setup.metadata.uid]
    if left:
        found.changes.append(Change("patch", present, {"metadata": {"ownerReferences": left}}))
    else:
        found.changes.append(Change("delete", present, note=f"{what} is deleted: no FluxSetup names it any more"))


def _with_owner(present: Object, setup: FluxSetup) -> list[Object]:
    return [*present["metadata"].get("ownerReferences", []), manifests.owner(setup)]


def _is_leaving(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _leaves(present: Object, found: Plan, *, ours: bool = True) -> bool:
    """Say so of an object that is being deleted, or that a deleted FluxSetup has left."""
    if not _is_leaving(present) and ours:
        return False
    found.say(
        Level.NOT_READY,
        "BeingDeleted",
        f"{present['kind']} {_place(present)} of before is being deleted, which takes until what it has admitted has "
        "ended; it is made anew then",
    )
    return True


def _place(obj: Object) -> str:
    namespace = obj["metadata"].get("namespace")
    return f"{namespace}/{obj['metadata']['name']}" if namespace else str(obj["metadata"]["name"])


def _managed(spec: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: spec[key] for key in keys if key in spec}


def merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that makes `new` of `old` (RFC 7386)."""
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        if isinstance(value, Mapping) and isinstance(old.get(key), Mapping):
            if inner := merge(old[key], value):
                patch[key] = inner
        elif old.get(key) != value:
            patch[key] = value
    return patch
