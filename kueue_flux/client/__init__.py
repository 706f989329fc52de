"""MiniClusters for Python programs: submit, watch, wait, use their Flux instances, read the output, delete.

`MiniClusters` for ordinary programs and notebooks, `AsyncMiniClusters` for those with an event loop.
"""

from kueue_flux.client.errors import (
    AlreadyExists,
    ClientError,
    Deleted,
    Forbidden,
    JobRejected,
    NoCluster,
    NotFound,
    NotInstalled,
    NotRunning,
    NotStarted,
    Refused,
    Rejected,
    Unanswered,
    Unauthorized,
    Unavailable,
    Unreachable,
    WaitTimeout,
)
from kueue_flux.client.exec import Streams
from kueue_flux.client.instance import Completed, Job, Resources
from kueue_flux.client.miniclusters import AsyncMiniClusters
from kueue_flux.client.queues import Contents, Grant, Overview, Queue, Share, State
from kueue_flux.client.restful import Restful
from kueue_flux.client.status import Result, Stage, Status
from kueue_flux.client.sync import MiniClusters
from kueue_flux.kueue.entries import Entry, Standing

__all__ = [
    "AlreadyExists",
    "AsyncMiniClusters",
    "ClientError",
    "Completed",
    "Contents",
    "Deleted",
    "Entry",
    "Forbidden",
    "Grant",
    "Job",
    "JobRejected",
    "MiniClusters",
    "NoCluster",
    "NotFound",
    "NotInstalled",
    "NotRunning",
    "NotStarted",
    "Overview",
    "Queue",
    "Refused",
    "Rejected",
    "Resources",
    "Restful",
    "Result",
    "Share",
    "Stage",
    "Standing",
    "State",
    "Status",
    "Streams",
    "Unanswered",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "WaitTimeout",
]
