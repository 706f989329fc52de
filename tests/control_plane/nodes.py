"""kwok's nodes, as the tests change them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kueue_flux.devcluster import kwok
from kueue_flux.devcluster.kubernetes_api import KubernetesApi


def label(api: KubernetesApi, index: int, labels: Mapping[str, str | None]) -> None:
    """Label a node; None takes a label away."""
    api.patch(api.get("v1", "Node", kwok.node_name(index)), {"metadata": {"labels": dict(labels)}})


@contextmanager
def labelled(api: KubernetesApi, labels: Mapping[int, Mapping[str, str]]) -> Iterator[None]:
    """Nodes that are labelled meanwhile.

    Args:
        api: the cluster.
        labels: of nodes, by their index.
    """
    for index, given in labels.items():
        label(api, index, given)
    yield
    for index, given in labels.items():
        label(api, index, dict.fromkeys(given))
