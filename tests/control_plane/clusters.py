"""The control planes that the tests run on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kueue_flux.devcluster import binaries, control_plane, paths
from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.progress import Progress
from tests.control_plane import adapter, kit

PREFIX = "test-"
NODES = 10
NODE_CPU = 16


@contextmanager
def running(kind: str = "", kueue: Mapping[str, Any] | None = None) -> Iterator[Cluster]:
    """A control plane whose pods run until a test ends them, with the adapter's CRD and RBAC but no adapter.

    Args:
        kind: tells it from the others of the run; empty for the one of most tests.
        kueue: settings of its Kueue.
    """
    progress = Progress()
    try:
        binaries.ensure(control_plane.PROGRAMS, progress)
    except DevClusterError as error:
        pytest.skip(f"the control plane's programs cannot be built here: {error}")
    _remove_abandoned(progress)
    kept = os.environ.get("KUEUE_FLUX_TEST_CLUSTER")
    name = (kept or f"{PREFIX}{os.getpid()}") + (f"-{kind}" if kind else "")
    try:
        cluster = control_plane.up(
            name, progress, nodes=NODES, node_cpu=NODE_CPU, pod_seconds=None, audit_user=adapter.USER, kueue=kueue
        )
        cluster.api.apply(kit.resource_flavor())
        adapter.install(cluster.api)
        yield cluster
    finally:
        if not kept:
            control_plane.down(name, progress)


def _remove_abandoned(progress: Progress) -> None:
    """Take down what runs that were killed have left."""
    for directory in paths.state_root().glob(f"{PREFIX}*"):
        pid = directory.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            control_plane.down(directory.name, progress)
