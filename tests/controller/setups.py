"""FluxSetups and nodes for the tests, as the API server would return them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kueue_flux.api.setup import FluxSetup

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)
CREATED = "2030-01-31T12:00:00Z"


def setup_object(name: str = "physics", created: str = CREATED, **spec: Any) -> dict[str, Any]:
    """A FluxSetup as an object."""
    meta = {"name": name, "uid": f"uid-{name}", "generation": 1, "creationTimestamp": created, "resourceVersion": "1"}
    return {"apiVersion": "flux-framework.org/v1alpha2", "kind": "FluxSetup", "metadata": meta, "spec": spec}


def flux_setup(name: str = "physics", created: str = CREATED, **spec: Any) -> FluxSetup:
    """A FluxSetup, parsed."""
    return FluxSetup.from_object(setup_object(name, created, **spec))


def node(name: str, *, labels: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """A node of 16 cores and 64 GiB, where nothing else is said."""
    allocatable = fields.pop("allocatable", {"cpu": "16", "memory": "64Gi", "pods": "110"})
    meta = {"name": name, "labels": labels or {}, "uid": f"uid-{name}", "resourceVersion": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": fields,
        "status": {"allocatable": allocatable},
    }
