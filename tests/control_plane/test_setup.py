"""FluxSetups on real Kueue: from three lines of YAML to a run, what goes wrong, and what a change does to what runs."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.kubernetes_api import ApiError, KubernetesApi, Manifest
from tests.control_plane import kit
from tests.control_plane.kit import Namespace, condition, wait_for
from tests.control_plane.miniclusters import PATIENCE, expect, minicluster, running, stands, status, succeed

pytestmark = pytest.mark.usefixtures("adapter")

SETUP = "flux-framework.org/v1alpha2"


@dataclass
class Site:
    """What an admin does: namespaces and FluxSetups of this test alone, named after it."""

    api: KubernetesApi
    prefix: str
    namespaces: list[str] = field(default_factory=list)
    setups: list[str] = field(default_factory=list)

    def name(self, suffix: str) -> str:
        return f"{self.prefix}-{suffix}"

    def namespace(self, suffix: str) -> Namespace:
        """Make a namespace without any queue."""
        name = self.name(suffix)
        self.namespaces.append(name)
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return Namespace(name, self.api)

    def setup(self, suffix: str, **spec: Any) -> Manifest:
        """Create or change a FluxSetup."""
        name = self.name(suffix)
        self.setups.append(name)
        manifest = {"apiVersion": SETUP, "kind": "FluxSetup", "metadata": {"name": name}}
        return self.api.apply({**manifest, **({"spec": spec} if spec else {})})

    def get(self, kind: str, name: str, namespace: str | None = None) -> Manifest | None:
        version = SETUP if kind == "FluxSetup" else kit.KUEUE
        return self.api.find(version, kind, name, namespace)

    def delete(self, suffix: str) -> None:
        self.api.delete({"apiVersion": SETUP, "kind": "FluxSetup", "metadata": {"name": self.name(suffix)}})

    def expect(self, expected: str, suffix: str, *, says: str = "", **fields: Any) -> Manifest:
        """Wait until a condition of a FluxSetup stands as expected, with words and fields of its status."""
        name = self.name(suffix)

        def look() -> Manifest | None:
            found = self.get("FluxSetup", name)
            said = condition(found, expected.partition("=")[0])
            assert found is not None
            assert stands(found, expected), said
            assert says in said["message"], said
            assert {key: found["status"].get(key) for key in fields} == fields
            return found

        return wait_for(f"{expected} of FluxSetup {name} ({says})", look, timeout=PATIENCE)

    def events(self, suffix: str) -> list[str]:
        """What was told of a FluxSetup, as `Type Reason: note`."""
        return [
            f"{event['type']} {event['reason']}: {event.get('note', '')}"
            for event in self.api.list("events.k8s.io/v1", "Event", "default")
            if (event["regarding"]["kind"], event["regarding"]["name"]) == ("FluxSetup", self.name(suffix))
        ]

    def told(self, suffix: str, words: str) -> None:
        """Wait for an event, which comes after the status that says the same."""
        wait_for(f"the event {words}", lambda: any(words in line for line in self.events(suffix)), timeout=PATIENCE)

    def quota(self, suffix: str, flavor: str = "default-flavor") -> dict[str, str]:
        """What the ClusterQueue has of a flavor."""
        queue = self.get("ClusterQueue", self.name(suffix))
        assert queue is not None
        (group,) = queue["spec"]["resourceGroups"]
        (found,) = [each for each in group["flavors"] if each["name"] == flavor]
        return {each["name"]: each["nominalQuota"] for each in found["resources"]}


@pytest.fixture
def site(cluster: Cluster) -> Iterator[Site]:
    site = Site(cluster.api, f"s-{secrets.token_hex(3)}")
    yield site
    for name in dict.fromkeys(site.setups):
        site.api.delete({"apiVersion": SETUP, "kind": "FluxSetup", "metadata": {"name": name}})
    for name in site.namespaces:
        site.api.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def test_three_lines_of_yaml_to_the_first_run(site: Site):
    namespace = site.namespace("a")
    three_lines = f"""
apiVersion: flux-framework.org/v1alpha2
kind: FluxSetup
metadata: {{name: {namespace.name}}}
"""
    site.api.apply(yaml.safe_load(three_lines))
    site.setups.append(namespace.name)
    namespace.create(minicluster(queue=None))
    running(namespace)
    assert status(namespace)["queue"] == "default"
    expect(namespace, "Admitted=True/Admitted", says=f"by ClusterQueue {namespace.name}")
    site.expect("Ready=True/Ready", "a", running=1, waiting=0, namespaces=[namespace.name])
    assert site.quota("a") == {"cpu": "160", "memory": "640Gi"}
    succeed(namespace)
    site.expect("Ready=True", "a", running=0, finished=1)


MEMORY = "64Gi"


def quota(cpu: int) -> dict[str, str]:
    return {"cpu": str(cpu), "memory": MEMORY}


# -- one cohort


def test_what_is_lent_comes_back_when_its_owner_needs_it(site: Site):
    first, second = site.namespace("a"), site.namespace("b")
    for suffix in ("a", "b"):
        site.setup(suffix, cohort=site.name("cohort"), quota=quota(2))
        site.expect("Ready=True/Ready", suffix)
    first.create(minicluster("own", queue=None))
    running(first, "own")
    time.sleep(1.1)  # Kueue takes back from the latest, by whole seconds
    first.create(minicluster("borrows", queue=None))
    running(first, "borrows")
    found = site.expect("Ready=True", "a", running=2, usage="cpu 4/2, memory 0/64Gi")
    cpu = next(each for each in found["status"]["used"] if each["resource"] == "cpu")
    assert cpu == {"flavor": "default-flavor", "resource": "cpu", "quota": "2", "used": "4", "borrowed": "2"}

    second.create(minicluster(queue=None))
    running(second)
    expect(first, "Admitted=False/Preempted", "borrows")
    site.expect("Ready=True/Ready", "a", running=1, waiting=1)
    site.expect("Ready=True/Ready", "b", running=1, waiting=0)
    succeed(second)
    running(first, "borrows")


def test_a_limit_of_what_is_borrowed_and_lent_is_kueues(site: Site):
    flavor = {"name": "default-flavor", "quota": quota(2), "borrowingLimit": {"cpu": "1"}, "lendingLimit": {"cpu": 1}}
    site.setup("a", cohort=site.name("cohort"), namespaces=[site.namespace("a").name], flavors=[flavor])
    site.expect("Ready=True/Ready", "a")
    (group,) = site.get("ClusterQueue", site.name("a"))["spec"]["resourceGroups"]
    assert group["flavors"][0]["resources"][0] == {
        "name": "cpu",
        "nominalQuota": "2",
        "borrowingLimit": "1",
        "lendingLimit": "1",
    }


def test_two_share_a_flavor_and_the_last_takes_it_along(site: Site):
    site.namespace("a")
    site.namespace("b")
    name = site.name("flavor")
    flavor = {"name": name, "nodeLabels": {"type": "kwok"}, "quota": quota(2)}
    site.setup("a", flavors=[flavor])
    site.expect("Ready=True/Ready", "a")
    site.setup("b", flavors=[{"name": name, "quota": quota(2)}])
    site.expect("Ready=True/Ready", "b")
    made = site.get("ResourceFlavor", name)
    assert {owner["name"] for owner in made["metadata"]["ownerReferences"]} == {site.name("a"), site.name("b")}
    assert made["spec"] == {"nodeLabels": {"type": "kwok"}}

    site.delete("a")
    wait_for("the first owner to be gone", lambda: len(owners(site.get("ResourceFlavor", name))) == 1, timeout=PATIENCE)
    site.delete("b")
    wait_for("the flavor to be deleted", lambda: site.get("ResourceFlavor", name) is None, timeout=PATIENCE)


def owners(obj: Manifest | None) -> list[str]:
    return [owner["name"] for owner in (obj or {}).get("metadata", {}).get("ownerReferences", [])]


# -- bad input


def test_a_flavor_that_is_something_else_already_is_named(site: Site):
    site.namespace("a")
    site.namespace("b")
    name = site.name("flavor")
    site.setup("a", flavors=[{"name": name, "nodeLabels": {"type": "kwok"}, "quota": quota(2)}])
    site.expect("Ready=True/Ready", "a")
    other = {"name": name, "nodeLabels": {"type": "real"}, "quota": quota(2)}
    site.setup("b", flavors=[other])
    says = f"ResourceFlavor {name} is FluxSetup {site.name('a')}'s, with other nodeLabels: make them equal"
    site.expect("Accepted=False/FlavorConflict", "b", says=says)
    site.expect("Ready=False/FlavorConflict", "b")
    assert site.get("ClusterQueue", site.name("b")) is None
    site.setup("b", flavors=[{**other, "nodeLabels": {"type": "kwok"}}])
    site.expect("Ready=True/Ready", "b")

    site.setup("a", flavors=[{**other, "nodeLabels": {"type": "real"}}])
    site.expect("Accepted=False/FlavorConflict", "a", says=f"is used by FluxSetup {site.name('b')} too")
    assert site.get("ResourceFlavor", name)["spec"] == {"nodeLabels": {"type": "kwok"}}


def test_somebody_elses_queue_is_left_alone_and_what_names_none_waits(site: Site):
    namespace = site.namespace("a")
    theirs = kit.cluster_queue(namespace.name, "elsewhere", cpu=1, memory_gib=1, preemption=False)
    site.api.create(theirs)
    site.setup("a", quota=quota(4))
    site.expect("Accepted=False/NameTaken", "a", says=f"ClusterQueue {namespace.name} is there and is not ours: rename")
    namespace.create(minicluster(queue=None))
    expect(namespace, "QuotaReserved=False/WaitingForSetup", says=f"FluxSetup {namespace.name} claims this namespace")
    assert namespace.get("Job", "mc") is None
    assert site.quota("a") == {"cpu": "1", "memory": "1Gi"}
    site.expect("Ready=False", "a", waiting=1)

    site.api.delete(theirs)
    running(namespace)
    assert status(namespace)["queue"] == "default"
    site.expect("Ready=True/Ready", "a", waiting=0, running=1)


def test_somebody_elses_local_queue_is_left_alone(site: Site):
    namespace = site.namespace("a")
    queue = {"apiVersion": kit.KUEUE, "kind": "LocalQueue", "metadata": {"name": "default"}}
    namespace.create({**queue, "spec": {"clusterQueue": "theirs"}})
    site.setup("a", quota=quota(4))
    says = f"LocalQueue {namespace.name}/default is there and is not ours: delete it, or choose another spec.queue"
    site.expect("Accepted=False/NameTaken", "a", says=says)
    assert namespace.get("LocalQueue", "default")["spec"]["clusterQueue"] == "theirs"
    site.setup("a", queue="mine", quota=quota(4))
    site.expect("Ready=True/Ready", "a")
    namespace.create(minicluster(queue="mine"))
    running(namespace)


def test_a_namespace_is_the_older_ones_until_it_gives_it_up(site: Site):
    shared = site.namespace("shared")
    site.setup("a", namespaces=[shared.name], quota=quota(4))
    site.expect("Ready=True/Ready", "a")
    own = site.namespace("own")
    site.setup("b", namespaces=[shared.name, own.name], quota=quota(2))
    says = f"namespace {shared.name} belongs to FluxSetup {site.name('a')}, which is older"
    site.expect("Accepted=False/NamespaceClaimed", "b", says=says, namespaces=[own.name])
    own.create(minicluster(queue=None))
    running(own)
    shared.create(minicluster("first", queue=None))
    running(shared, "first")

    site.setup("a", namespaces=[site.namespace("other").name], quota=quota(4))
    says = f"LocalQueue {shared.name}/default is not in spec any more, and is held until what runs in it (1) has ended"
    site.expect("Ready=True/QueueInUse", "a", says=says)
    site.expect("Ready=False/QueueLeaving", "b", says=f"is still FluxSetup {site.name('a')}'s")
    shared.create(minicluster("second", queue=None))
    expect(shared, "QuotaReserved=False/WaitingForSetup", "second", says=f"FluxSetup {site.name('b')} claims")
    succeed(shared, "first")
    site.expect("Ready=True/Ready", "a")
    site.expect("Ready=True/Ready", "b", namespaces=[shared.name, own.name])
    succeed(own)
    running(shared, "second")


def test_a_namespace_that_is_missing_is_named_and_gets_its_queue_when_it_comes(site: Site):
    there = site.namespace("there")
    missing = site.name("later")
    site.setup("a", namespaces=[missing, there.name], quota=quota(4))
    says = f"namespace {missing} does not exist: create it, or take it out"
    site.expect("Ready=False/NamespaceMissing", "a", says=says, namespaces=[there.name])
    there.create(minicluster(queue=None))
    running(there)
    site.namespace("later")
    site.expect("Ready=True/Ready", "a", namespaces=[missing, there.name])
    site.told("a", f"Warning NamespaceMissing: {says}")


def test_a_quota_that_the_nodes_do_not_have_is_a_warning(site: Site):
    namespace = site.namespace("a")
    site.setup("a", quota={"cpu": "1k", "memory": MEMORY})
    says = "flavor default-flavor: the quota of cpu is 1000, and its nodes have 160"
    site.expect("Ready=True/QuotaExceedsNodes", "a", says=says)
    site.expect("Accepted=True", "a")
    site.told("a", f"Warning QuotaExceedsNodes: {says}")
    namespace.create(minicluster(queue=None))
    running(namespace)


def test_a_flavor_gets_what_its_nodes_have_as_they_come_and_go(site: Site):
    label = site.name("kind")
    site.namespace("a")
    site.setup("a", flavors=[{"name": site.name("flavor"), "nodeLabels": {label: "fast"}}])
    says = f"no node has the labels {label}=fast"
    site.expect("Ready=False/FlavorWithoutNodes", "a", says=says)
    assert site.quota("a", site.name("flavor")) == {"cpu": "0", "memory": "0"}
    node = site.api.get("v1", "Node", "kwok-0000")
    site.api.patch(node, {"metadata": {"labels": {label: "fast"}}})
    site.expect("Ready=True/Ready", "a", usage="cpu 0/16, memory 0/64Gi")
    site.api.patch(node, {"metadata": {"labels": {label: None}}})
    site.expect("Ready=False/FlavorWithoutNodes", "a", usage="cpu 0/0, memory 0/0")
    site.setup("a", flavors=[{"name": site.name("flavor"), "nodeLabels": {label: "fast"}, "quota": quota(4)}])
    site.expect("Ready=True/FlavorWithoutNodes", "a", says=f"{says}: what is admitted waits for one")


def test_two_that_would_both_have_all_nodes_are_told(site: Site):
    for suffix in ("a", "b"):
        site.namespace(suffix)
        site.setup(suffix)
    for suffix, other in (("a", "b"), ("b", "a")):
        says = f"this FluxSetup and {site.name(other)} both have all cpu, memory of its nodes for a quota"
        site.expect("Ready=True/NodesGivenTwice", suffix, says=says)
    site.setup("b", quota=quota(4))
    site.expect("Ready=True/Ready", "b")
    site.expect("Ready=True/Ready", "a")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"quota": {"cpu": 1}, "flavors": [{"name": "f"}]}, "move it into spec.flavors[].quota"),
        ({"flavors": [{"name": "f", "borrowingLimit": {"cpu": 1}}]}, "set spec.cohort, or remove the limit"),
        ({"flavors": [{"name": "f"}, {"name": "f"}]}, "Duplicate value"),
        ({"namespaces": ["a", "a"]}, "Duplicate value"),
        ({"namespaces": ["A"]}, "spec.namespaces[0]"),
        ({"quota": {"cpu": "-1"}}, "spec.quota.cpu"),
        ({"quota": {"a b": 1}}, "no resource's name"),
        ({"priorities": {"High_": 1}}, "name of a priority class"),
        ({"priorities": {"high": 2**31}}, "spec.priorities.high"),
        ({"preemption": {"withinClusterQueue": "Sometimes"}}, "Unsupported value"),
        (
            {"preemption": {"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}},
            "may not reclaim its own",
        ),
        ({"flavors": [{"name": "f", "tolerations": [{"operator": "Exists", "value": "x"}]}]}, "correct the toleration"),
    ],
)
def test_the_api_server_refuses(site: Site, spec: dict[str, Any], says: str):
    manifest = {"apiVersion": SETUP, "kind": "FluxSetup", "metadata": {"name": site.name("a")}, "spec": spec}
    with pytest.raises(ApiError) as refused:
        site.api.create(manifest)
    assert says in str(refused.value)


def test_a_name_that_is_no_namespaces_needs_a_list_of_them(site: Site):
    manifest = {"apiVersion": SETUP, "kind": "FluxSetup", "metadata": {"name": "a.b"}}
    with pytest.raises(ApiError, match=r"list spec\.namespaces, or rename it"):
        site.api.create(manifest)


def test_what_only_we_can_see_is_refused_in_its_status(site: Site):
    site.namespace("a")
    flavor = {"name": site.name("f"), "quota": {"cpu": 1}, "lendingLimit": {"cpu": 2}}
    site.setup("a", cohort="c", flavors=[flavor])
    says = "spec.flavors[0].lendingLimit.cpu: 2 is more than the quota, 1; lend at most the quota"
    site.expect("Accepted=False/InvalidSpec", "a", says=says)


def test_priority_classes_are_shared_and_never_changed_for_others(site: Site):
    high = site.name("high")
    for suffix in ("a", "b"):
        site.namespace(suffix)
    site.setup("a", quota=quota(2), priorities={high: 1000})
    site.expect("Ready=True/Ready", "a")
    assert site.get("WorkloadPriorityClass", high)["value"] == 1000
    site.setup("b", quota=quota(2), priorities={high: 5})
    says = f"WorkloadPriorityClass {high} is FluxSetup {site.name('a')}'s, with the value 1000"
    site.expect("Accepted=False/PriorityConflict", "b", says=says, namespaces=[site.name("b")])
    site.setup("b", quota=quota(2), priorities={high: 1000})
    site.expect("Ready=True/Ready", "b")
    assert len(owners(site.get("WorkloadPriorityClass", high))) == 2
    site.setup("a", quota=quota(2))
    wait_for("a to give it up", lambda: owners(site.get("WorkloadPriorityClass", high)) == [site.name("b")])
    site.setup("b", quota=quota(2), priorities={high: -7})
    wait_for("its new value", lambda: site.get("WorkloadPriorityClass", high)["value"] == -7, timeout=PATIENCE)
    site.setup("b", quota=quota(2))
    wait_for("it to be deleted", lambda: site.get("WorkloadPriorityClass", high) is None, timeout=PATIENCE)


# -- change and deletion, with work that runs


def test_less_quota_than_is_used_ends_nothing_and_says_so(site: Site):
    namespace = site.namespace("a")
    site.setup("a", quota=quota(4))
    namespace.create(minicluster(size=4, queue=None))
    running(namespace, size=4)
    site.setup("a", quota=quota(2))
    says = "flavor default-flavor uses 4 cpu of 2: nothing is ended, and nothing new that asks for cpu starts until 2"
    site.expect("Ready=True/QuotaInUse", "a", says=says)
    site.told("a", f"Warning QuotaInUse: {says}")
    namespace.create(minicluster("next", queue=None))
    expect(namespace, "QuotaReserved=False", "next", says="insufficient")
    expect(namespace, "Ready=True/BrokersUp")
    assert status(namespace)["admissions"] == 1
    succeed(namespace)
    running(namespace, "next")
    site.expect("Ready=True/Ready", "a")


def test_a_namespace_that_is_taken_out_keeps_what_runs(site: Site):
    stays, goes = site.namespace("stays"), site.namespace("goes")
    site.setup("a", namespaces=[stays.name, goes.name], quota=quota(2))
    goes.create(minicluster(queue=None))
    running(goes)
    goes.create(minicluster("waits", queue=None))
    expect(goes, "QuotaReserved=False", "waits", says="insufficient")
    site.setup("a", namespaces=[stays.name], quota=quota(2))
    says = f"LocalQueue {goes.name}/default is not in spec any more, and is held until what runs in it (1) has ended"
    site.expect("Ready=True/QueueInUse", "a", says=says, namespaces=[stays.name])
    site.expect(
        "Ready=True/QueueInUse", "a", says="what waits in it (1) goes on waiting until there is one of this name"
    )
    assert goes.get("LocalQueue", "default")["spec"]["stopPolicy"] == "Hold"
    expect(goes, "Ready=True/BrokersUp")
    succeed(goes)
    goes.wait_for("its queue to be deleted", lambda: goes.get("LocalQueue", "default") is None, timeout=PATIENCE)
    site.expect("Ready=True/Ready", "a")
    expect(goes, "QuotaReserved=False", "waits")
    site.setup("a", namespaces=[stays.name, goes.name], quota=quota(2))
    running(goes, "waits")


def test_a_namespace_that_comes_back_is_no_longer_held(site: Site):
    stays, goes = site.namespace("stays"), site.namespace("goes")
    site.setup("a", namespaces=[stays.name, goes.name], quota=quota(4))
    goes.create(minicluster(queue=None))
    running(goes)
    site.setup("a", namespaces=[stays.name], quota=quota(4))
    site.expect("Ready=True/QueueInUse", "a")
    site.setup("a", namespaces=[stays.name, goes.name], quota=quota(4))
    site.expect("Ready=True/Ready", "a", namespaces=[stays.name, goes.name])
    goes.create(minicluster("second", queue=None))
    running(goes, "second")


def test_a_queue_of_another_name_takes_over_and_the_old_one_ends(site: Site):
    namespace = site.namespace("a")
    site.setup("a", quota=quota(4))
    namespace.create(minicluster(queue=None))
    running(namespace)
    site.setup("a", queue="batch", quota=quota(4))
    says = f"LocalQueue {namespace.name}/default is not in spec any more"
    site.expect("Ready=True/QueueInUse", "a", says=says, running=1)
    namespace.create(minicluster("second", queue="batch"))
    running(namespace, "second")
    site.expect("Ready=True", "a", running=2)
    succeed(namespace)
    site.expect("Ready=True/Ready", "a")
    assert [each["metadata"]["name"] for each in namespace.all("LocalQueue")] == ["batch"]


def test_a_flavor_that_is_taken_out_stays_as_long_as_it_is_used(site: Site):
    namespace = site.namespace("a")
    old, new = site.name("old"), site.name("new")
    site.setup("a", flavors=[{"name": old, "nodeLabels": {"type": "kwok"}, "quota": quota(2)}])
    namespace.create(minicluster(queue=None))
    running(namespace)
    site.setup("a", flavors=[{"name": new, "quota": quota(2)}])
    says = f"flavor {old} is not in spec any more, and 2 cpu of it are in use: that goes on to its end"
    site.expect("Ready=True/FlavorInUse", "a", says=says)
    assert site.quota("a", old)["cpu"] == "0"
    namespace.create(minicluster("second", queue=None))
    running(namespace, "second")
    expect(namespace, "Ready=True/BrokersUp")
    succeed(namespace)
    site.expect("Ready=True/Ready", "a")
    wait_for("the flavor to be deleted", lambda: site.get("ResourceFlavor", old) is None, timeout=PATIENCE)


def test_deleting_it_lets_what_runs_go_on_to_its_end(site: Site):
    namespace = site.namespace("a")
    flavor = site.name("flavor")
    spec = {"flavors": [{"name": flavor, "nodeLabels": {"type": "kwok"}, "quota": quota(2)}]}
    site.setup("a", **spec)
    namespace.create(minicluster(queue=None))
    running(namespace)
    namespace.create(minicluster("waits", queue=None))
    expect(namespace, "QuotaReserved=False", "waits", says="insufficient")
    site.delete("a")
    namespace.wait_for("its queue to go", lambda: namespace.get("LocalQueue", "default") is None, timeout=PATIENCE)
    expect(namespace, "QuotaReserved=False", "waits", says="LocalQueue default")
    wait_for("the ClusterQueue to end", lambda: "deletionTimestamp" in meta(site.get("ClusterQueue", site.name("a"))))
    assert site.get("ResourceFlavor", flavor) is not None, "kept for what runs"

    site.setup("a", **spec)
    site.expect("Ready=False/BeingDeleted", "a", says="which takes until what it has admitted has ended")
    namespace.create(minicluster("new", queue=None))
    expect(namespace, "QuotaReserved=False/WaitingForSetup", "new")
    expect(namespace, "Ready=True/BrokersUp")
    assert status(namespace)["admissions"] == 1
    succeed(namespace)
    site.expect("Ready=True/Ready", "a")
    running(namespace, "waits")
    succeed(namespace, "waits")
    running(namespace, "new")


def test_when_the_older_is_deleted_the_younger_takes_its_namespace_over(site: Site):
    shared = site.namespace("shared")
    site.setup("a", namespaces=[shared.name], quota=quota(2))
    site.expect("Ready=True/Ready", "a")
    shared.create(minicluster("first", queue=None))
    running(shared, "first")
    site.setup("b", namespaces=[shared.name], quota=quota(2))
    site.expect("Accepted=False/NamespaceClaimed", "b", namespaces=[])
    site.delete("a")
    site.expect("Accepted=True/Accepted", "b")
    site.expect("Ready=True/Ready", "b", namespaces=[shared.name])
    shared.create(minicluster("second", queue=None))
    running(shared, "second")
    expect(shared, "Admitted=True", "second", says=f"by ClusterQueue {site.name('b')}")
    expect(shared, "Ready=True/BrokersUp", "first")
    assert status(shared, "first")["admissions"] == 1
    succeed(shared, "first")


def meta(obj: Manifest | None) -> Manifest:
    found: Manifest = (obj or {}).get("metadata", {})
    return found


# -- order, and what it costs


def test_who_names_its_queue_may_come_before_it(site: Site):
    namespace = site.namespace("a")
    namespace.create(minicluster(queue="default"))
    expect(namespace, "QuotaReserved=False", says="LocalQueue default doesn't exist")
    site.setup("a", quota=quota(4))
    running(namespace)


def test_queues_made_by_hand_stand_beside_it(site: Site, namespace: Namespace):
    site.namespace("a")
    site.setup("a", quota=quota(4))
    site.expect("Ready=True/Ready", "a")
    namespace.create(minicluster())
    running(namespace)
    assert namespace.get("LocalQueue", kit.QUEUE)["metadata"].get("ownerReferences") is None


def test_what_an_admin_sets_beside_it_stays(site: Site):
    site.namespace("a")
    site.setup("a", quota=quota(4))
    site.expect("Ready=True/Ready", "a")
    queue = site.get("ClusterQueue", site.name("a"))
    site.api.patch(queue, {"spec": {"stopPolicy": "Hold"}})
    site.expect("Ready=False/ClusterQueueInactive", "a", says="stopped")
    site.setup("a", quota=quota(2))
    wait_for("the quota", lambda: site.quota("a")["cpu"] == "2", timeout=PATIENCE)
    assert site.get("ClusterQueue", site.name("a"))["spec"]["stopPolicy"] == "Hold"


def test_what_is_changed_by_hand_is_made_right(site: Site):
    namespace = site.namespace("a")
    site.setup("a", quota=quota(4))
    site.expect("Ready=True/Ready", "a")
    queue = site.get("ClusterQueue", site.name("a"))
    site.api.patch(queue, {"spec": {"queueingStrategy": "StrictFIFO"}})
    namespace.delete("LocalQueue", "default")
    wait_for(
        "the strategy",
        lambda: site.get("ClusterQueue", site.name("a"))["spec"]["queueingStrategy"] == "BestEffortFIFO",
        timeout=PATIENCE,
    )
    namespace.wait_for("the queue", lambda: namespace.get("LocalQueue", "default"), timeout=PATIENCE)


def test_once_it_stands_it_asks_for_nothing(site: Site, cluster: Cluster):
    site.namespace("a")
    site.setup("a")
    site.expect("Ready=True/Ready", "a")
    with kit.recorded_requests(cluster) as requests:
        node = site.api.get("v1", "Node", "kwok-0001")
        conditions = [{**each, "lastHeartbeatTime": "2030-01-31T12:00:00Z"} for each in node["status"]["conditions"]]
        site.api.patch(node, {"status": {"conditions": conditions}}, subresource="status")
        site.setup("a", priorities={site.name("after"): 1})  # what comes of this was decided after the heartbeat
        wait_for("the class", lambda: site.get("WorkloadPriorityClass", site.name("after")), timeout=PATIENCE)
        site.expect("Ready=True/Ready", "a", observedGeneration=2)
    kinds = ("fluxsetups", "nodes", "namespaces", "clusterqueues", "localqueues", "resourceflavors")
    about = [each for each in requests if each.resource.partition("/")[0] in (*kinds, "workloadpriorityclasses")]
    assert not [each for each in about if each.verb == "list"]
    mine = [each for each in about if each.name.startswith(site.prefix)]  # others are of former tests, on their way out
    assert [(each.verb, each.resource, each.name) for each in mine] == [
        ("create", "workloadpriorityclasses", site.name("after")),
        ("patch", "fluxsetups/status", site.name("a")),
    ]


def test_less_quota_of_its_own_in_a_cohort_is_told(site: Site):
    namespace = site.namespace("a")
    site.namespace("b")
    for suffix in ("a", "b"):
        site.setup(suffix, cohort=site.name("cohort"), quota=quota(4))
        site.expect("Ready=True/Ready", suffix)
    namespace.create(minicluster(size=4, queue=None))
    running(namespace, size=4)
    site.expect("Ready=True/Ready", "a", usage="cpu 4/4, memory 0/64Gi")
    site.setup("a", cohort=site.name("cohort"), quota=quota(2))
    says = f"4 cpu of 2 (default-flavor): what is above it is borrowed from cohort {site.name('cohort')}"
    site.told("a", says)
    expect(namespace, "Ready=True/BrokersUp")
