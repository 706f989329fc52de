from datetime import UTC, datetime

from kueue_flux.kueue.visibility import Pending, pending
from kueue_flux.kueue.workload import Owner

SUMMARY = {
    "items": [
        {
            "metadata": {
                "name": "job-first",
                "namespace": "team",
                "creationTimestamp": "2030-01-31T12:00:00Z",
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "first", "uid": "u"}],
            },
            "priority": 100,
            "localQueueName": "team-a",
            "positionInClusterQueue": 2,
            "positionInLocalQueue": 1,
        },
        {"metadata": {"name": "bare"}},
    ]
}


def test_what_waits_is_read_whole():
    first, bare = pending(SUMMARY)
    assert first == Pending(
        "job-first", "team", "team-a", 100, 2, 1, Owner("Job", "first"), datetime(2030, 1, 31, 12, tzinfo=UTC)
    )
    assert bare == Pending("bare", "", "", 0, 0, 0, Owner("", ""), None)
