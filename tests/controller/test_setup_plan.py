"""What a FluxSetup needs next, by what there is: nothing of others is changed, and nothing that runs is ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kueue_flux.api.setup import FluxSetup
from kueue_flux.controller.setup.facts import Facts
from kueue_flux.controller.setup.plan import Plan, merge, plan
from kueue_flux.controller.setup.status import derive, news, summary, used
from kueue_flux.kueue.nodes import read_node
from kueue_flux.manifests import setup as manifests
from tests.controller.setups import NOW, flux_setup, node

Object = dict[str, Any]


def facts(setup: FluxSetup | None = None, **given: Any) -> Facts:
    """A FluxSetup on a cluster with two nodes, where its namespace exists and nothing else."""
    setup = setup or flux_setup()
    nodes = [read_node(each) for each in given.pop("nodes", [node("n1"), node("n2")])]
    given.setdefault("namespaces", frozenset(setup.namespaces))
    return Facts(setup=setup, nodes=nodes, **given)


def after(before: Facts, found: Plan | None = None) -> Facts:
    """The same, once all that is to be made has been made."""
    flavors, classes, queues, cluster_queue = {}, {}, {}, None
    for change in (found or plan(before)).changes:
        assert change.verb == "create", change
        obj = {**change.obj, "metadata": {**change.obj["metadata"], "resourceVersion": "1", "generation": 1}}
        match obj["kind"]:
            case "ResourceFlavor":
                flavors[obj["metadata"]["name"]] = obj
            case "WorkloadPriorityClass":
                classes[obj["metadata"]["name"]] = obj
            case "ClusterQueue":
                cluster_queue = obj
            case _:
                queues[obj["metadata"]["namespace"], obj["metadata"]["name"]] = obj
    given = {"flavors": {**before.flavors, **flavors}, "priority_classes": classes, "local_queues": queues}
    return Facts(before.setup, before.others, before.nodes, before.namespaces, cluster_queue=cluster_queue, **given)


def changed(before: Facts, **spec: Any) -> Facts:
    """The same, with another spec."""
    setup = flux_setup(before.setup.name, **spec)
    return Facts(
        setup,
        before.others,
        before.nodes,
        before.namespaces | set(setup.namespaces),
        before.flavors,
        before.priority_classes,
        before.cluster_queue,
        before.local_queues,
        before.waiting,
    )


def using(before: Facts, flavor: str = "default-flavor", borrowed: str = "0", **amounts: str) -> Facts:
    """The same, with so much in use."""
    assert before.cluster_queue
    resources = [{"name": name, "total": amount, "borrowed": borrowed} for name, amount in amounts.items()]
    status = {"flavorsReservation": [{"name": flavor, "resources": resources}]}
    before.cluster_queue["status"] = status
    return changed(before, **before.setup.spec.model_dump(by_alias=True, exclude_unset=True))


def said(found: Plan) -> dict[str, str]:
    """What is said, by reason."""
    return {each.reason: f"{each.level.name}: {each.message}" for each in found.findings}


def done(found: Plan) -> list[tuple[str, str, str]]:
    return [(change.verb, change.obj["kind"], change.obj["metadata"]["name"]) for change in found.changes]


def quota(found: Plan) -> list[dict[str, dict[str, str]]]:
    """Nominal quota by resource, of each flavor in order."""
    assert found.quotas
    return [
        {each["name"]: {res["name"]: res["nominalQuota"] for res in each["resources"]}} for each in found.quotas.flavors
    ]


# -- from nothing


def test_from_nothing_all_is_made() -> None:
    found = plan(facts(flux_setup(priorities={"high": 1})))
    assert done(found) == [
        ("create", "ResourceFlavor", "default-flavor"),
        ("create", "WorkloadPriorityClass", "high"),
        ("create", "ClusterQueue", "physics"),
        ("create", "LocalQueue", "default"),
    ]
    assert quota(found) == [{"default-flavor": {"cpu": "32", "memory": "128Gi"}}]
    assert (found.findings, found.namespaces) == ([], ["physics"])
    assert "cohortName" not in found.changes[2].obj["spec"]


def test_once_it_stands_nothing_is_to_be_done() -> None:
    assert done(plan(after(facts(flux_setup(priorities={"high": 1}, cohort="c"))))) == []


def test_amounts_that_kueue_writes_otherwise_are_the_same() -> None:
    there = after(facts(flux_setup(quota={"cpu": "1.5", "memory": "1024Mi"})))
    assert there.cluster_queue
    (flavor,) = there.cluster_queue["spec"]["resourceGroups"][0]["flavors"]
    flavor["resources"] = [{"name": "cpu", "nominalQuota": "1500m"}, {"name": "memory", "nominalQuota": "1Gi"}]
    assert done(plan(there)) == []


def test_what_kueue_and_others_set_beside_stays() -> None:
    there = after(facts())
    assert there.cluster_queue
    there.cluster_queue["spec"] |= {"stopPolicy": "None", "flavorFungibility": {}, "fairSharing": {"weight": "2"}}
    assert done(plan(there)) == []


@pytest.mark.parametrize(
    ("spec", "patch"),
    [
        ({"cohort": "c"}, {"cohortName": "c"}),
        ({"queueingStrategy": "StrictFIFO"}, {"queueingStrategy": "StrictFIFO"}),
        ({"preemption": {"withinClusterQueue": "Never"}}, {"preemption": {"withinClusterQueue": "Never"}}),
    ],
)
def test_only_what_differs_is_written(spec: dict[str, Any], patch: Object) -> None:
    (change,) = plan(changed(after(facts()), **spec)).changes
    assert (change.verb, change.patch) == ("patch", {"spec": patch})


def test_a_cohort_that_is_left_is_removed() -> None:
    (change,) = plan(changed(after(facts(flux_setup(cohort="c"))))).changes
    assert change.patch == {"spec": {"cohortName": None}}


def test_merge() -> None:
    old = {"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": 0}
    new = {"a": 1, "b": {"c": 3}, "e": [2], "g": {}}
    assert merge(old, new) == {"b": {"c": 3, "d": None}, "e": [2], "f": None, "g": {}}


# -- quota


GPUS = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4", "ephemeral-storage": "10Gi"}


def test_all_that_the_nodes_have_is_covered_in_each_flavor() -> None:
    flavors = [{"name": "gpu", "nodeLabels": {"pool": "gpu"}}, {"name": "cpu", "nodeLabels": {"pool": "cpu"}}]
    nodes = [node("g", labels={"pool": "gpu"}, allocatable=GPUS), node("c", labels={"pool": "cpu"})]
    assert quota(plan(facts(flux_setup(flavors=flavors), nodes=nodes))) == [
        {"gpu": {"cpu": "8", "memory": "64Gi", "ephemeral-storage": "10Gi", "nvidia.com/gpu": "4"}},
        {"cpu": {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "0", "nvidia.com/gpu": "0"}},
    ]


def test_what_is_not_named_is_what_the_nodes_have() -> None:
    found = plan(facts(flux_setup(quota={"cpu": "4", "nvidia.com/gpu": 0}), nodes=[node("g", allocatable=GPUS)]))
    assert quota(found) == [
        {"default-flavor": {"cpu": "4", "memory": "64Gi", "ephemeral-storage": "10Gi", "nvidia.com/gpu": "0"}}
    ]


def test_a_node_counts_once_for_the_flavor_with_the_most_labels() -> None:
    flavors = [{"name": "any"}, {"name": "fast", "nodeLabels": {"speed": "high"}}]
    found = plan(facts(flux_setup(flavors=flavors), nodes=[node("a"), node("b", labels={"speed": "high"})]))
    assert quota(found) == [{"any": {"cpu": "16", "memory": "64Gi"}}, {"fast": {"cpu": "16", "memory": "64Gi"}}]


def test_nodes_that_take_no_pods_are_not_counted() -> None:
    tainted = node("t", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
    found = plan(facts(nodes=[node("a"), tainted, node("c", unschedulable=True)]))
    assert quota(found) == [{"default-flavor": {"cpu": "16", "memory": "64Gi"}}]


def test_no_more_is_lent_than_there_is() -> None:
    flavors = [{"name": "f", "lendingLimit": {"cpu": "100"}, "borrowingLimit": {"cpu": "100"}}]
    found = plan(facts(flux_setup(cohort="c", flavors=flavors)))
    assert found.quotas
    cpu = found.quotas.flavors[0]["resources"][0]
    assert cpu == {"name": "cpu", "nominalQuota": "32", "borrowingLimit": "100", "lendingLimit": "32"}


LABELLED = [{"name": "fast", "nodeLabels": {"speed": "high"}}]
TAINTED = node("t", labels={"speed": "high"}, taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])


@pytest.mark.parametrize(
    ("spec", "nodes", "reason", "says"),
    [
        ({}, [], "FlavorWithoutNodes", "NOT_READY: flavor default-flavor: there is no node, so its quota is 0"),
        (
            {"flavors": LABELLED},
            [node("a")],
            "FlavorWithoutNodes",
            "NOT_READY: flavor fast: no node has the labels speed=high, so its quota is 0: set its quota",
        ),
        (
            {"flavors": LABELLED},
            [TAINTED],
            "FlavorWithoutNodes",
            "NOT_READY: flavor fast: none of its 1 nodes takes pods, with taints that its tolerations do not cover "
            "(k=v:NoSchedule)",
        ),
        (
            {},
            [node("a", unschedulable=True)],
            "FlavorWithoutNodes",
            "NOT_READY: flavor default-flavor: none of its 1 nodes takes pods, cordoned",
        ),
        (
            {"quota": {"cpu": "4"}},
            [],
            "FlavorWithoutNodes",
            "WARNING: flavor default-flavor: there is no node: what is admitted waits for one; until then there is "
            "no quota of memory, of which spec says nothing",
        ),
        (
            {"quota": {"cpu": "100", "memory": "1Gi", "nvidia.com/gpu": 1}},
            [node("a")],
            "QuotaExceedsNodes",
            "WARNING: flavor default-flavor: the quota of cpu is 100, and its nodes have 16; the quota of "
            "nvidia.com/gpu is 1, and its nodes have 0: what is admitted",
        ),
    ],
)
def test_what_is_said_of_nodes(spec: dict[str, Any], nodes: Sequence[Object], reason: str, says: str) -> None:
    assert said(plan(facts(flux_setup(**spec), nodes=nodes)))[reason].startswith(says)


def test_a_quota_that_fits_is_not_spoken_of() -> None:
    assert said(plan(facts(flux_setup(quota={"cpu": "32", "memory": "128Gi"})))) == {}


@pytest.mark.parametrize(
    ("mine", "theirs", "told"),
    [
        ({}, {}, "cpu, memory"),
        ({"quota": {"cpu": 1}}, {}, "memory"),
        ({"quota": {"cpu": 1}}, {"quota": {"memory": 1}}, None),
        ({}, {"flavors": [{"name": "other"}]}, None),
    ],
)
def test_two_that_get_the_same_nodes_are_told(mine: Object, theirs: Object, told: str | None) -> None:
    found = said(plan(facts(flux_setup(**mine), others=[flux_setup("other", **theirs)])))
    assert ("NodesGivenTwice" in found) == (told is not None)
    if told:
        assert f"this FluxSetup and other both have all {told} of its nodes" in found["NodesGivenTwice"]


def test_many_that_get_the_same_nodes_are_told_once() -> None:
    others = [flux_setup(f"team-{letter}") for letter in "hgfedcba"]
    (finding,) = [each for each in plan(facts(flux_setup(), others=others)).findings if "Twice" in each.reason]
    assert "this FluxSetup and team-a, team-b, team-c, team-d, team-e and 3 more each have all cpu" in finding.message


def test_less_quota_than_is_used_is_told_and_written() -> None:
    found = plan(changed(using(after(facts(flux_setup(quota={"cpu": 8, "memory": 1}))), cpu="8"), quota={"cpu": 4}))
    (change,) = found.changes
    assert (change.verb, change.note) == ("patch", "")
    assert said(found)["QuotaInUse"].startswith("WARNING: flavor default-flavor uses 8 cpu of 4: nothing is ended")


def test_in_a_cohort_an_event_says_so() -> None:
    there = using(after(facts(flux_setup(cohort="c", quota={"cpu": 8, "memory": 1}))), cpu="8")
    found = plan(changed(there, cohort="c", quota={"cpu": 4, "memory": 1}))
    (change,) = found.changes
    assert change.warns
    assert change.note.startswith("the quota is now less than what is used: 8 cpu of 4 (default-flavor): what is above")
    assert "QuotaInUse" not in said(found), "to borrow is what a cohort is for"


def test_a_flavor_in_use_stays_with_no_quota_and_cannot_borrow() -> None:
    there = using(after(facts(flux_setup(cohort="c", flavors=[{"name": "old"}]))), "old", cpu="2")
    found = plan(changed(there, cohort="c", flavors=[{"name": "new"}]))
    assert quota(found)[1] == {"old": {"cpu": "0", "memory": "0"}}
    assert found.quotas
    assert found.quotas.flavors[1]["resources"][0]["borrowingLimit"] == "0"
    assert said(found)["FlavorInUse"].startswith(
        "WARNING: flavor old is not in spec any more, and 2 cpu of it are in use"
    )
    assert ("delete", "ResourceFlavor", "old") not in done(found)


@pytest.mark.parametrize("spec", [{}, {"cohort": "c"}])
def test_a_flavor_is_given_up_once_kueue_has_seen_that_it_gives_none(spec: Object) -> None:
    there = after(facts(flux_setup(**spec, flavors=[{"name": "old"}])))
    queue = there.cluster_queue
    assert queue

    def turn(generation: int, seen: int) -> list[tuple[str, str, str]]:
        """Carry a turn out, when Kueue has seen so much of the ClusterQueue."""
        queue["metadata"]["generation"] = generation
        queue["status"] = {"conditions": [{"type": "Active", "status": "True", "observedGeneration": seen}]}
        found = plan(changed(there, **spec, flavors=[{"name": "new"}]))
        for change in found.changes:
            if change.obj["kind"] == "ClusterQueue":
                queue["spec"] |= change.patch["spec"]
        assert "FlavorInUse" not in said(found)
        return [each for each in done(found) if each != ("create", "ResourceFlavor", "new")]

    # the status is behind: what was just admitted is not in it
    assert turn(1, seen=1) == [("patch", "ClusterQueue", "physics")]
    assert [each["name"] for each in queue["spec"]["resourceGroups"][0]["flavors"]] == ["new", "old"]
    assert turn(2, seen=1) == []
    assert turn(2, seen=2) == [("patch", "ClusterQueue", "physics")]
    assert [each["name"] for each in queue["spec"]["resourceGroups"][0]["flavors"]] == ["new"]
    assert turn(3, seen=2) == [("delete", "ResourceFlavor", "old")]


# -- flavors that are shared


def flavor(owner: FluxSetup | None, labels: Mapping[str, str] | None = None, *others: FluxSetup) -> Object:
    made = manifests.resource_flavor(owner or flux_setup("nobody"), "f", labels or {}, [])
    owners = [manifests.owner(each) for each in others]
    made["metadata"]["ownerReferences"] = [*(made["metadata"]["ownerReferences"] if owner else []), *owners]
    if owner is None:
        del made["metadata"]["annotations"]
    return made


OTHER = flux_setup("other", flavors=[{"name": "f", "nodeLabels": {"a": "b"}}])


def test_somebody_elses_flavor_is_used_as_it_is() -> None:
    there = flavor(None, {"pool": "x"})
    found = plan(
        facts(flux_setup(flavors=[{"name": "f"}]), flavors={"f": there}, nodes=[node("n", labels={"pool": "x"})])
    )
    assert done(found)[0] == ("create", "ClusterQueue", "physics"), "it is not changed"
    assert quota(found) == [{"f": {"cpu": "16", "memory": "64Gi"}}]


@pytest.mark.parametrize("whose", [None, OTHER])
def test_a_flavor_that_says_otherwise_is_refused(whose: FluxSetup | None) -> None:
    mine = flux_setup(flavors=[{"name": "f", "nodeLabels": {"a": "c"}, "tolerations": [{"operator": "Exists"}]}])
    found = plan(facts(mine, flavors={"f": flavor(whose, {"a": "b"})}, others=[OTHER]))
    who = "FluxSetup other's" if whose else "there already and is not ours"
    assert said(found)["FlavorConflict"].startswith(
        f"REFUSED: ResourceFlavor f is {who}, with other nodeLabels and tolerations: make them equal"
    )
    assert done(found) == []


def test_an_equal_flavor_gets_another_owner() -> None:
    mine = flux_setup(flavors=[{"name": "f", "nodeLabels": {"a": "b"}}])
    there = flavor(OTHER, {"a": "b"})
    change = plan(facts(mine, flavors={"f": there}, others=[OTHER])).changes[0]
    owners = [manifests.owner(OTHER), manifests.owner(mine)]
    assert change.patch == {"metadata": {"ownerReferences": owners}}


def test_its_own_flavor_can_be_changed_where_the_others_agree() -> None:
    mine = flux_setup(flavors=[{"name": "f", "nodeLabels": {"a": "c"}}])
    there = {"f": flavor(mine, {"a": "b"}, OTHER)}
    found = plan(facts(mine, flavors=there, others=[OTHER]))
    assert said(found)["FlavorConflict"].startswith("REFUSED: ResourceFlavor f is used by FluxSetup other too")
    silent = flux_setup("other", flavors=[{"name": "f"}])
    change = plan(facts(mine, flavors=there, others=[silent])).changes[0]
    assert change.patch == {"spec": {"nodeLabels": {"a": "c"}}}
    assert "what runs stays where it is" in change.note


def test_who_says_nothing_never_strips_what_another_has_said() -> None:
    mine = flux_setup(flavors=[{"name": "f"}])
    there = flavor(OTHER, {"a": "b"}, mine)
    there["metadata"]["ownerReferences"] = [manifests.owner(mine)]  # the other is gone
    assert done(plan(facts(mine, flavors={"f": there})))[0] == ("create", "ClusterQueue", "physics")


def test_who_is_left_may_say_what_the_flavor_is() -> None:
    mine = flux_setup(flavors=[{"name": "f", "nodeLabels": {"a": "c"}}])
    there = flavor(OTHER, {"a": "b"}, mine)
    there["metadata"]["ownerReferences"] = [manifests.owner(mine)]
    change = plan(facts(mine, flavors={"f": there})).changes[0]
    assert change.patch == {
        "spec": {"nodeLabels": {"a": "c"}},
        "metadata": {"annotations": {manifests.DEFINED_BY: mine.metadata.uid}},
    }


def test_giving_up_a_shared_flavor_leaves_it_to_the_other() -> None:
    mine = flux_setup()
    there = {"f": flavor(OTHER, {"a": "b"}, mine)}
    (change,) = [each for each in plan(facts(mine, flavors=there)).changes if each.obj["metadata"]["name"] == "f"]
    assert (change.verb, change.patch) == ("patch", {"metadata": {"ownerReferences": [manifests.owner(OTHER)]}})


def test_tolerations_are_equal_whatever_is_left_out() -> None:
    mine = flux_setup(flavors=[{"name": "f", "tolerations": [{"key": "k", "operator": "Equal", "value": "v"}]}])
    there = flavor(None)
    there["spec"]["tolerations"] = [{"key": "k", "value": "v"}]
    assert "FlavorConflict" not in said(plan(facts(mine, flavors={"f": there})))


# -- priority classes


def test_a_class_of_another_value_is_refused_and_the_rest_made() -> None:
    foreign = {**manifests.priority_class(flux_setup(priorities={"high": 5}), "high")}
    foreign["metadata"] = {"name": "high"}
    found = plan(facts(flux_setup(priorities={"high": 1}), priority_classes={"high": foreign}))
    assert "is there already and is not ours, with the value 5" in said(found)["PriorityConflict"]
    assert ("create", "LocalQueue", "default") in done(found)


def test_somebody_elses_class_of_that_value_is_used() -> None:
    foreign = {"kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 1}
    found = plan(facts(flux_setup(priorities={"high": 1}), priority_classes={"high": foreign}))
    assert not any(kind == "WorkloadPriorityClass" for _, kind, _ in done(found))


# -- namespaces and queues


def test_the_older_keeps_a_namespace_whoever_comes_first_by_name() -> None:
    older = flux_setup("zzz", created="2029-01-01T00:00:00Z", namespaces=["shared"])
    found = plan(facts(flux_setup(namespaces=["shared", "own"]), others=[older]))
    assert said(found)["NamespaceClaimed"].startswith(
        "REFUSED: namespace shared belongs to FluxSetup zzz, which is older"
    )
    assert found.namespaces == ["own"]
    younger = flux_setup("aaa", created="2031-01-01T00:00:00Z", namespaces=["shared"])
    found = plan(facts(flux_setup(namespaces=["shared"]), others=[younger]))
    assert ("NamespaceClaimed" in said(found), found.namespaces) == (False, ["shared"])


def test_the_olders_queue_is_not_touched_by_the_younger() -> None:
    older = flux_setup("zzz", created="2029-01-01T00:00:00Z", namespaces=["shared"])
    theirs = {("shared", "default"): manifests.local_queue(older, "shared")}
    found = plan(facts(flux_setup(namespaces=["shared", "own"]), others=[older], local_queues=theirs))
    assert not [change for change in found.changes if change.obj["metadata"].get("namespace") == "shared"]
    assert "QueueInUse" not in said(found)


def test_of_two_of_the_same_second_the_name_decides() -> None:
    twin = flux_setup("aaa", namespaces=["shared"])
    assert "NamespaceClaimed" in said(plan(facts(flux_setup(namespaces=["shared"]), others=[twin])))
    assert "NamespaceClaimed" not in said(
        plan(facts(twin, others=[flux_setup(namespaces=["shared"])], namespaces=frozenset(["shared"])))
    )


def test_a_missing_namespace_is_named_and_the_rest_made() -> None:
    found = plan(facts(flux_setup(namespaces=["there", "later"]), namespaces=frozenset(["there"])))
    assert said(found)["NamespaceMissing"].startswith("NOT_READY: namespace later does not exist: create it")
    assert found.namespaces == ["there"]


def test_queues_of_others_are_left_alone() -> None:
    mine = after(facts())
    assert mine.cluster_queue
    theirs = {**mine.cluster_queue, "metadata": {"name": "physics"}}
    found = plan(facts(cluster_queue=theirs))
    assert said(found)["NameTaken"].startswith("REFUSED: ClusterQueue physics is there and is not ours: rename")
    assert done(found) == [("create", "ResourceFlavor", "default-flavor")]
    queue = {**mine.local_queues["physics", "default"], "metadata": {"name": "default", "namespace": "physics"}}
    found = plan(changed(Facts(**{**vars_of(mine), "local_queues": {("physics", "default"): queue}})))
    assert said(found)["NameTaken"].startswith("REFUSED: LocalQueue physics/default is there and is not ours")
    assert done(found) == []


def vars_of(found: Facts) -> dict[str, Any]:
    return {name: getattr(found, name) for name in Facts.__dataclass_fields__}


@pytest.mark.parametrize("gone", ["deleted", "of a former FluxSetup"])
def test_what_is_left_of_before_is_waited_for(gone: str) -> None:
    there = after(facts())
    assert there.cluster_queue
    meta = there.cluster_queue["metadata"]
    if gone == "deleted":
        meta["deletionTimestamp"] = NOW.isoformat()
    else:
        meta["ownerReferences"] = [{**meta["ownerReferences"][0], "uid": "before"}]
    found = plan(changed(there, quota={"cpu": 1}))
    assert said(found)["BeingDeleted"].startswith("NOT_READY: ClusterQueue physics of before is being deleted")
    assert done(found) == []


def held(found: Facts, *, admitted: int = 0, seen: bool = True) -> Facts:
    """Its LocalQueue, held, as Kueue has taken note of it or not."""
    queue = found.local_queues["physics", "default"]
    queue["metadata"] |= {"generation": 2, "annotations": {manifests.HELD: "physics"}}
    queue["spec"]["stopPolicy"] = "Hold"
    active = {"type": "Active", "status": "False", "observedGeneration": 2 if seen else 1}
    queue["status"] = {"admittedWorkloads": admitted, "conditions": [active]}
    return changed(found, namespaces=["elsewhere"])


def test_a_queue_that_is_not_wanted_is_held_first() -> None:
    there = after(facts())
    found = plan(changed(Facts(**{**vars_of(there), "waiting": {("physics", "default"): 2}}), namespaces=["elsewhere"]))
    change = next(each for each in found.changes if each.obj["metadata"].get("namespace") == "physics")
    assert change.patch == {"metadata": {"annotations": {manifests.HELD: "physics"}}, "spec": {"stopPolicy": "Hold"}}
    assert change.warns
    assert "what waits in it (2) goes on waiting" in change.note
    assert "WARNING: LocalQueue physics/default is not in spec any more, and is held" in said(found)["QueueInUse"]


@pytest.mark.parametrize(
    ("state", "goes"), [({"admitted": 1}, False), ({"seen": False}, False), ({}, True)], ids=["runs", "unseen", "empty"]
)
def test_and_deleted_when_nothing_runs_in_it(state: dict[str, Any], goes: bool) -> None:
    found = plan(held(after(facts()), **state))
    assert (("delete", "LocalQueue", "default") in done(found)) is goes
    assert ("QueueInUse" in said(found)) is not goes


def test_a_held_queue_that_is_wanted_again_is_let_go() -> None:
    there = held(after(facts()))
    change = next(each for each in plan(changed(there)).changes if each.obj["kind"] == "LocalQueue")
    assert change.patch == {"metadata": {"annotations": {manifests.HELD: None}}, "spec": {"stopPolicy": "None"}}


def test_a_queue_that_an_admin_has_stopped_stays_so() -> None:
    there = after(facts())
    there.local_queues["physics", "default"]["spec"]["stopPolicy"] = "Hold"
    assert done(plan(there)) == []


# -- status


def test_status_of_one_that_stands() -> None:
    there = using(after(facts(flux_setup(cohort="c", quota={"cpu": 4, "memory": "1Gi"}))), borrowed="2", cpu="6")
    counts = {"waiting": 1, "admitted": 0, "running": 2, "finished": 3}
    status = derive(there, plan(there), counts, {}, NOW)
    assert {key: status[key] for key in ("waiting", "running", "usage", "namespaces")} == {
        "waiting": 1,
        "running": 2,
        "usage": "cpu 6/4, memory 0/1Gi",
        "namespaces": ["physics"],
    }
    assert status["used"][0] == {
        "flavor": "default-flavor", "resource": "cpu", "quota": "4", "used": "6", "borrowed": "2"
    }  # fmt: skip
    assert [(each["type"], each["status"], each["reason"]) for each in status["conditions"]] == [
        ("Accepted", "True", "Accepted"),
        ("Ready", "True", "Ready"),
    ]
    assert status["conditions"][1]["message"] == "ClusterQueue physics, with LocalQueue default in physics"
    assert derive(there, plan(there), counts, status, NOW) == status


def test_status_without_a_queue_is_empty() -> None:
    assert (used(None), summary(None)) == ([], "")


def test_the_worst_comes_first_and_all_is_said() -> None:
    older = flux_setup("old", created="2029-01-01T00:00:00Z", namespaces=["taken"])
    there = facts(flux_setup(namespaces=["taken", "later"], quota={"cpu": 999}), others=[older], namespaces=frozenset())
    status = derive(there, plan(there), {}, {}, NOW)
    accepted, ready = status["conditions"]
    assert (accepted["status"], accepted["reason"], ready["status"], ready["reason"]) == (
        "False", "NamespaceClaimed", "False", "NamespaceClaimed",
    )  # fmt: skip
    assert "later does not exist" not in accepted["message"]
    assert all(words in ready["message"] for words in ("belongs to", "later does not exist", "of cpu is 999"))


def test_only_news_is_told() -> None:
    there = using(after(facts(flux_setup(quota={"cpu": 4, "memory": 1}))), cpu="8")
    found = plan(there)
    first = derive(there, found, {}, {}, NOW)
    assert [each.reason for each in news(found.findings, {})] == ["QuotaInUse"]
    later = plan(using(there, cpu="7"))
    assert news(later.findings, first) == [], "the same with another number"
