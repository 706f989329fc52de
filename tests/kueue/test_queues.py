"""What is read of ClusterQueues and LocalQueues."""

from decimal import Decimal

from kueue_flux.kueue.queues import Quota, Usage, read_cluster_queue, read_local_queue
from kueue_flux.kueue.workload import Signal

CLUSTER_QUEUE = {
    "metadata": {"name": "science"},
    "spec": {
        "cohortName": "all",
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory"],
                "flavors": [
                    {
                        "name": "spot",
                        "resources": [
                            {"name": "cpu", "nominalQuota": "4", "borrowingLimit": "500m", "lendingLimit": 1},
                            {"name": "memory", "nominalQuota": "4Gi"},
                        ],
                    },
                    {"name": "on-demand", "resources": [{"name": "cpu", "nominalQuota": 2}, {"name": "memory"}]},
                ],
            },
        ],
    },
    "status": {
        "conditions": [{"type": "Active", "status": "True", "reason": "Ready", "message": "can admit"}],
        "flavorsReservation": [{"name": "spot", "resources": [{"name": "cpu", "total": "4500m", "borrowed": "500m"}]}],
        "pendingWorkloads": 3,
        "admittedWorkloads": 2,
    },
}


def test_a_cluster_queue_is_read_whole():
    view = read_cluster_queue(CLUSTER_QUEUE)
    assert (view.name, view.cohort, view.stop_policy, view.inactive) == ("science", "all", "None", None)
    assert view.groups == ((("cpu", "memory"), ("spot", "on-demand")),)
    assert view.quotas == {
        ("spot", "cpu"): Quota(Decimal(4), Decimal("0.5"), Decimal(1)),
        ("spot", "memory"): Quota(Decimal(4 * 2**30)),
        ("on-demand", "cpu"): Quota(Decimal(2)),
        ("on-demand", "memory"): Quota(Decimal(0)),
    }
    assert view.reserved == {("spot", "cpu"): Usage(Decimal("4.5"), Decimal("0.5"))}
    assert (view.pending, view.admitted) == (3, 2)


def test_a_queue_that_kueue_has_not_looked_at_says_nothing():
    view = read_cluster_queue({"metadata": {"name": "new"}, "spec": {}})
    assert (view.cohort, view.groups, view.quotas, view.reserved, view.inactive) == ("", (), {}, {}, None)


def test_a_local_queue_is_read_whole():
    inactive = {"type": "Active", "status": "False", "reason": "ClusterQueueIsInactive", "message": "stopped"}
    view = read_local_queue(
        {
            "metadata": {"name": "q", "namespace": "team"},
            "spec": {"clusterQueue": "science", "stopPolicy": "Hold"},
            "status": {
                "conditions": [inactive],
                "flavorsReservation": [{"name": "spot", "resources": [{"name": "cpu", "total": "1"}]}],
                "pendingWorkloads": 1,
            },
        }
    )
    assert (view.namespace, view.name, view.cluster_queue, view.stop_policy) == ("team", "q", "science", "Hold")
    assert view.reserved == {("spot", "cpu"): Usage(Decimal(1))}
    assert view.inactive == Signal("ClusterQueueIsInactive", "stopped")
    assert (view.pending, view.admitted) == (1, 0)


def test_a_quota_for_no_limit_at_all_is_the_most_that_there_can_be():
    resources = [{"name": "cpu", "nominalQuota": "1e30", "borrowingLimit": "10E"}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": resources}]}]
    view = read_cluster_queue({"metadata": {"name": "all"}, "spec": {"resourceGroups": groups}})
    assert view.quotas == {("f", "cpu"): Quota(Decimal(2**63 - 1), Decimal(2**63 - 1))}
