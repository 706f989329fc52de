"""MiniClusters and lead pods as an API server would return them, for the tests of client and command."""

from typing import Any

MINICLUSTERS = "/apis/flux-framework.org/v1alpha2/namespaces/team/miniclusters"
PODS = "/api/v1/namespaces/team/pods"

TYPES = ("Accepted", "QuotaReserved", "Admitted", "Injected", "Ready", "Finished")


def minicluster(name: str = "hello", *conditions: tuple[str, str, str, str], version: int = 1, **status: Any) -> dict:
    """Build a MiniCluster; each condition is (type, status, reason, message)."""
    return {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": "2030-01-31T12:00:00Z",
            "labels": {"kueue.x-k8s.io/queue-name": "team-a"},
        },
        "spec": {"size": 4, "tasks": 4, "containers": [{"image": "ubuntu", "command": "hostname"}]},
        "status": {
            "conditions": [
                {
                    "type": kind,
                    "status": answer,
                    "reason": reason,
                    "message": message,
                    "lastTransitionTime": "2030-01-31T12:00:05Z",
                }
                for kind, answer, reason, message in conditions
            ],
            **status,
        },
    }


ACCEPTED = ("Accepted", "True", "Accepted", "accepted")
WAITING = ("QuotaReserved", "False", "WaitingForQuota", "insufficient unused quota for cpu")
RESERVED = ("QuotaReserved", "True", "QuotaReserved", "quota reserved")
ADMITTED = ("Admitted", "True", "Admitted", "admitted")
STARTING = ("Ready", "False", "BrokersStarting", "2 of 4 brokers are up")
READY = ("Ready", "True", "BrokersUp", "4 of 4 brokers are up")
SUCCEEDED = ("Finished", "True", "Succeeded", "the command succeeded")
FAILED = ("Finished", "True", "Failed", "the command exited with code 3 (CommandFailed)")

QUEUED = (ACCEPTED, WAITING, ("Admitted", "False", "Pending", "waiting for quota"))
STARTED = (ACCEPTED, RESERVED, ADMITTED, STARTING)
RUNNING = (ACCEPTED, RESERVED, ADMITTED, READY)
ENDED = (ACCEPTED, RESERVED, ADMITTED, ("Ready", "False", "Finished", "the command has ended"))


def queued(version: int = 1, **status: Any) -> dict:
    return minicluster("hello", *QUEUED, version=version, queue="team-a", workload="job-hello", **status)


def running(version: int = 2) -> dict:
    return minicluster(
        "hello",
        *RUNNING,
        version=version,
        queue="team-a",
        admission={"id": "a", "size": 4},
        admissions=1,
        podsRunning=4,
        brokersReady=4,
    )


def succeeded(version: int = 3) -> dict:
    return minicluster("hello", *ENDED, SUCCEEDED, version=version, queue="team-a", exitCode=0, admissions=1)


def failed(version: int = 3) -> dict:
    return minicluster("hello", *ENDED, FAILED, version=version, queue="team-a", exitCode=3, admissions=1)


def lead(uid: str, state: str, version: int = 1, created: str = "2030-01-31T12:00:01Z") -> dict:
    """Build the lead's pod; state is waiting, running or terminated."""
    return {
        "metadata": {
            "name": f"hello-0-{uid}",
            "uid": uid,
            "resourceVersion": str(version),
            "creationTimestamp": created,
        },
        "spec": {"containers": [{"name": "sidecar"}, {"name": "flux"}]},
        "status": {"containerStatuses": [{"name": "flux", "state": {state: {}}, "containerID": f"containerd://{uid}"}]},
    }


def log_path(uid: str) -> str:
    return f"{PODS}/hello-0-{uid}/log"


def line(second: int, text: str, nanos: int = 0) -> str:
    return f"2030-01-31T12:00:{second:02}.{nanos:09}Z {text}\n"
