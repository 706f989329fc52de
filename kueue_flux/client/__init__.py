"""MiniClusters for Python programs: submit, watch, wait, read the output, delete.

`MiniClusters` for ordinary programs and notebooks, `AsyncMiniClusters` for those with an event loop.
"""

from kueue_flux.client.errors import (
    AlreadyExists,
    ClientError,
    Deleted,
    Forbidden,
    NoCluster,
    NotFound,
    NotInstalled,
    NotStarted,
    Refused,
    Rejected,
    Unauthorized,
    Unavailable,
    Unreachable,
    WaitTimeout,
)
from kueue_flux.client.miniclusters import AsyncMiniClusters
from kueue_flux.client.status import Result, Stage, Status
from kueue_flux.client.sync import MiniClusters

__all__ = [
    "AlreadyExists",
    "AsyncMiniClusters",
    "ClientError",
    "Deleted",
    "Forbidden",
    "MiniClusters",
    "NoCluster",
    "NotFound",
    "NotInstalled",
    "NotStarted",
    "Refused",
    "Rejected",
    "Result",
    "Stage",
    "Status",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "WaitTimeout",
]
