"""Whether a request can ever fit: what a pod asks for, the most that a queue can give, and what is said of it."""

from decimal import Decimal
from typing import Any

import pytest

from kueue_flux.kueue.capacity import (
    Capacity,
    CohortView,
    Request,
    not_covered,
    pod_requests,
    read_cohort,
    read_request,
    shortfall,
    uncovered,
)
from kueue_flux.kueue.queues import ClusterQueueView, Quota, read_cluster_queue

CELL = ("default", "cpu")


def container(restart: str = "", limits: dict[str, Any] | None = None, **requests: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"resources": {"requests": requests, **({"limits": limits} if limits else {})}}
    return made | ({"restartPolicy": restart} if restart else {})


SIDECAR = "Always"


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container()]}, 0),
        ({"containers": [container(cpu="500m"), container(cpu=2)]}, "2.5"),
        # a LimitRange may have a lower default for what has no request
        ({"containers": [container(limits={"cpu": 4})]}, 0),
        ({"containers": [container(limits={"cpu": 4}, cpu=1)]}, 1),
        ({"containers": [container(cpu=2)], "initContainers": [container(cpu=1)]}, 2),
        ({"containers": [container(cpu=2)], "initContainers": [container(cpu=5), container(cpu=3)]}, 5),
        ({"containers": [container(cpu=2)], "initContainers": [container(SIDECAR, cpu=1)]}, 3),
        # an init container runs beside the sidecars that were started before it, and no others
        ({"containers": [container(cpu=2)], "initContainers": [container(SIDECAR, cpu=1), container(cpu=4)]}, 5),
        ({"containers": [container(cpu=2)], "initContainers": [container(cpu=4), container(SIDECAR, cpu=1)]}, 4),
        ({"containers": [container(cpu=2)], "overhead": {"cpu": "250m"}}, "2.25"),
        ({"containers": [container(cpu=2)], "resources": {"requests": {"cpu": 8}}}, 8),
        ({"containers": [container(cpu=2)], "resources": {"requests": {"cpu": 1, "nvidia.com/gpu": 3}}}, 1),
    ],
)
def test_what_a_pod_asks_for_is_what_kueue_counts(spec: dict[str, Any], cpu: str | int) -> None:
    found = pod_requests(spec)
    assert found.get("cpu", 0) == Decimal(cpu)
    assert "nvidia.com/gpu" not in found


def test_what_cannot_be_overcommitted_has_a_limit_that_is_its_request() -> None:
    found = pod_requests({"containers": [container(limits={"nvidia.com/gpu": 2, "hugepages-2Mi": "4Mi", "memory": 1})]})
    assert found == {"nvidia.com/gpu": Decimal(2), "hugepages-2Mi": Decimal(4 * 2**20)}


def workload(count: int = 4, *, cpu: str = "2", least: int | None = None, **status: Any) -> dict[str, Any]:
    pod_set = {"name": "main", "count": count, "template": {"spec": {"containers": [container(cpu=cpu, memory="0")]}}}
    return {"spec": {"podSets": [{**pod_set, **({"minCount": least} if least else {})}]}, "status": status}


COUNTED = [{"name": "main", "resources": {"cpu": "6", "example.com/slice": "4"}}]


@pytest.mark.parametrize(
    ("obj", "request_"),
    [
        (workload(), Request(4, 4, (("cpu", Decimal(2)),))),
        (workload(least=2), Request(4, 2, (("cpu", Decimal(2)),))),
        # what Kueue has counted goes before what the template says
        (
            workload(resourceRequests=COUNTED),
            Request(4, 4, (("cpu", Decimal("1.5")), ("example.com/slice", Decimal(1)))),
        ),
        (workload(resourceRequests=[]), Request(4, 4, (("cpu", Decimal(2)),))),
        (workload(reclaimablePods=[{"name": "main", "count": 3}]), Request(1, 1, (("cpu", Decimal(2)),))),
        (workload(reclaimablePods=[{"name": "main", "count": 4}]), None),
        (workload(cpu="many"), None),
        ({"spec": {"podSets": []}}, None),
        ({"spec": {"podSets": [{"name": "main", "count": 1}]}}, None),
        ({"spec": {"podSets": [{}, {}]}}, None),
        ({}, None),
    ],
)
def test_what_is_asked_for(obj: dict[str, Any], request_: Request | None) -> None:
    assert read_request(obj) == request_


def test_the_same_request_is_kept_once() -> None:
    assert read_request(workload()) is read_request(workload())


def queue(
    nominal: int | str,
    *,
    name: str = "team-a",
    cohort: str = "",
    borrow: int | None = None,
    lend: int | None = None,
) -> ClusterQueueView:
    limits = {"borrowingLimit": borrow, "lendingLimit": lend}
    resource = {
        "name": "cpu",
        "nominalQuota": nominal,
        **{key: value for key, value in limits.items() if value is not None},
    }
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [resource]}]}
    return read_cluster_queue({"metadata": {"name": name}, "spec": {"cohortName": cohort, "resourceGroups": [group]}})


def cohort(name: str, parent: str = "", *quota: int | None) -> CohortView:
    """A cohort with this quota, borrowing limit and lending limit."""
    if not quota:
        return CohortView(name, parent, {})
    limits = [None if amount is None else Decimal(amount) for amount in quota[1:]]
    return CohortView(name, parent, {CELL: Quota(Decimal(quota[0] or 0), *limits)})


OTHER = queue(6, name="team-b", cohort="c")


@pytest.mark.parametrize(
    ("own", "others", "cohorts", "most"),
    [
        (queue(4), [], [], 4),
        (queue(4), [OTHER], [], 4),
        (queue(4, cohort="c"), [OTHER], [], 10),
        (queue(4, cohort="c"), [OTHER], [cohort("c")], 10),
        (queue(4, cohort="c", borrow=1), [OTHER], [], 5),
        (queue(4, cohort="c", borrow=0), [OTHER], [], 4),
        (queue(4, cohort="c", borrow=9), [OTHER], [], 10),
        (queue(4, cohort="c", lend=0), [OTHER], [], 10),
        (queue(4, cohort="c", lend=1, borrow=2), [OTHER], [], 6),
        (queue(4, cohort="c"), [queue(6, name="team-b", cohort="c", lend=2)], [], 6),
        (queue(4, cohort="c"), [queue(6, name="team-b", cohort="c", lend=0)], [], 4),
        (queue(4, cohort="c"), [OTHER], [cohort("c", "", 5)], 15),
        (queue("1500m", cohort="c"), [OTHER], [], "7.5"),
        # a tree: what the parent's other members lend comes on top
        (queue(4, cohort="c"), [OTHER, queue(8, name="z", cohort="top")], [cohort("c", "top")], 18),
        (queue(4, cohort="c"), [OTHER, queue(8, name="z", cohort="top")], [cohort("c", "top", 0, 3)], 13),
        (
            queue(4, cohort="c"),
            [OTHER, queue(8, name="z", cohort="d")],
            [cohort("c", "top"), cohort("d", "top", 0, None, 2)],
            12,
        ),
        (queue(4, cohort="c"), [OTHER], [cohort("c", "top", 1, None, 0), cohort("top", "", 7)], 18),
        # lent to nobody above, and still its own members'
        (queue(4, cohort="c", borrow=2), [OTHER], [cohort("c", "top"), cohort("top", "", 100)], 6),
    ],
)
def test_the_most_that_a_queue_can_give(
    own: ClusterQueueView, others: list[ClusterQueueView], cohorts: list[CohortView], most: int | str
) -> None:
    assert Capacity([own, *others], cohorts).most(own, CELL) == Decimal(most)


def test_of_cohorts_in_a_circle_nothing_is_said() -> None:
    own, circle = queue(4, cohort="c"), [cohort("c", "d"), cohort("d", "c")]
    assert Capacity([own], circle).most(own, CELL) is None
    assert shortfall(asks(100), own, Capacity([own], circle)) is None


def test_which_queues_depend_on_a_cohort() -> None:
    queues = [
        queue(1, name=name, cohort=of) for name, of in (("a", "c"), ("b", "d"), ("e", "top"), ("f", "x"), ("g", ""))
    ]
    capacity = Capacity(queues, [cohort("c", "top"), cohort("d", "top")])
    assert capacity.related("d") == {"a", "b", "e"}
    assert capacity.related("x") == {"f"}
    assert capacity.related("") == capacity.related("unknown") == set()


def asks(nodes: int, *, fewest: int | None = None, **per_pod: Any) -> Request:
    amounts = per_pod or {"cpu": 2}
    return Request(
        nodes, fewest or nodes, tuple((key.replace("_", "/"), Decimal(value)) for key, value in amounts.items())
    )


def said(request: Request, own: ClusterQueueView, *others: ClusterQueueView, **options: Any) -> str | None:
    found = shortfall(request, own, Capacity([own, *others], []), **options)
    assert found is None or found.reason == "ExceedsMaxQuota"
    return found.message if found else None


LESS = "ask for fewer nodes or less cpu (spec.size, spec.minSize, spec.containers[].resources), or choose another queue"


@pytest.mark.parametrize(
    ("request_", "own", "others", "message"),
    [
        (asks(2), queue(4), [], None),
        (asks(4), queue(4, cohort="c", borrow=4), [OTHER], None),
        (
            asks(4),
            queue(4, cohort="c", borrow=2),
            [OTHER],
            "asks for 4 nodes x 2 cpu = 8 cpu; ClusterQueue team-a can give at most 6 (4 of its own and 2 that may be "
            f"borrowed in cohort c): {LESS}",
        ),
        (
            asks(4, fewest=3),
            queue(4),
            [],
            "asks for at least 3 nodes x 2 cpu = 6 cpu; ClusterQueue team-a can give at most 4 (4 of its own): " + LESS,
        ),
        (asks(4, fewest=2), queue(4), [], None),
        (
            asks(1, cpu="1.5"),
            queue(1),
            [],
            "asks for 1 node x 1.5 cpu; ClusterQueue team-a can give at most 1 (1 of its own): " + LESS,
        ),
        (
            asks(1),
            queue(0),
            [],
            "asks for 1 node x 2 cpu; ClusterQueue team-a can give at most 0 (0 of its own): " + LESS,
        ),
        (asks(4, example_gpu=8), queue(1), [], None),  # what no group covers is not for this to judge
    ],
)
def test_what_never_fits_is_said_in_numbers(
    request_: Request, own: ClusterQueueView, others: list[ClusterQueueView], message: str | None
) -> None:
    assert said(request_, own, *others) == message


def test_services_are_told_where_theirs_stands() -> None:
    message = said(asks(1, cpu=8), queue(4), of_services=True)
    assert message is not None
    assert message.endswith(": ask for less cpu (spec.services[].resources), or choose another queue")


def flavored(*groups: dict[str, dict[str, Any]]) -> ClusterQueueView:
    """A queue with groups of resources, each as flavor -> resource -> quota."""
    spec = [
        {
            "coveredResources": list(next(iter(group.values()))),
            "flavors": [
                {"name": name, "resources": [{"name": key, "nominalQuota": value} for key, value in quota.items()]}
                for name, quota in group.items()
            ],
        }
        for group in groups
    ]
    return read_cluster_queue({"metadata": {"name": "team-a"}, "spec": {"resourceGroups": spec}})


def test_one_flavor_that_fits_is_enough() -> None:
    assert said(asks(4), flavored({"small": {"cpu": 2}, "large": {"cpu": 8}})) is None
    never = said(asks(4), flavored({"small": {"cpu": 2}, "large": {"cpu": 6}}))
    assert never is not None
    assert "can give at most 6 in one flavor (large) (6 of its own)" in never


def test_all_resources_of_a_group_come_from_one_flavor() -> None:
    own = flavored({"fast": {"cpu": 8, "memory": "1Gi"}, "big": {"cpu": 2, "memory": "64Gi"}})
    assert said(asks(2, cpu=4, memory=2**29), own) is None
    never = said(asks(2, cpu=4, memory=2**33), own)
    assert never is not None
    assert "asks for 2 nodes x 4 cpu = 8 cpu" in never, "that of the flavor that comes nearest"
    assert "can give at most 2 in one flavor (big)" in never


def test_each_group_must_fit_and_bytes_are_shown_as_people_write_them() -> None:
    own = flavored({"default": {"cpu": 100}}, {"other": {"memory": "8Gi"}})
    never = said(asks(3, cpu=1, memory=3 * 2**30), own)
    assert never is not None
    assert (
        "asks for 3 nodes x 3Gi memory = 9Gi memory; ClusterQueue team-a can give at most 8Gi (8Gi of its own)" in never
    )


def test_pods_count_where_the_queue_counts_them() -> None:
    never = said(asks(4), flavored({"default": {"cpu": 100, "pods": 3}}))
    assert never is not None
    assert never.startswith(
        "asks for 4 nodes; ClusterQueue team-a can give at most 3 (3 of its own): ask for fewer nodes ("
    )


def test_what_no_group_covers_is_named() -> None:
    assert uncovered(asks(1, cpu=1, example_gpu=2), queue(4)) == ["example/gpu"]
    assert uncovered(asks(1), queue(4)) == []
    assert not_covered("example/gpu", queue(4)).message.startswith(
        "asks for example/gpu; ClusterQueue team-a can give at most 0, for it has no quota for example/gpu: "
    )


def test_a_cohort_is_read_whole() -> None:
    resource = {"name": "cpu", "nominalQuota": 3, "borrowingLimit": 1, "lendingLimit": 2}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [resource]}]}]
    found = read_cohort({"metadata": {"name": "c"}, "spec": {"parentName": "top", "resourceGroups": groups}})
    assert found == cohort("c", "top", 3, 1, 2)
    assert read_cohort({"metadata": {"name": "c"}}) == cohort("c")
