"""Kueue's annotations and labels on a MiniCluster: which of them are read, and which are refused.

Kueue knows Jobs and pods, not MiniClusters, so a key of its vocabulary does something only where kueue-flux hands it
on. What is not handed on is refused: whoever writes it expects something of it.
Source: Kueue 0.19, ``apis/kueue/v1beta2/topology_types.go`` and ``pkg/controller/constants``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kueue_flux.api import labels
from kueue_flux.api.problems import Problem, shown

if TYPE_CHECKING:
    from kueue_flux.api.minicluster import MiniCluster

METADATA, POD = "metadata.annotations", "spec.pod.annotations"
"""Where annotations of Kueue's may stand."""

REQUIRED = f"{labels.KUEUE_PREFIX}podset-required-topology"
PREFERRED = f"{labels.KUEUE_PREFIX}podset-preferred-topology"
UNCONSTRAINED = f"{labels.KUEUE_PREFIX}podset-unconstrained-topology"
SLICE_REQUIRED = f"{labels.KUEUE_PREFIX}podset-slice-required-topology"
SLICE_SIZE = f"{labels.KUEUE_PREFIX}podset-slice-size"
PLACEMENT = (REQUIRED, PREFERRED, UNCONSTRAINED)
TOPOLOGY = (*PLACEMENT, SLICE_REQUIRED, SLICE_SIZE)

_BOOLEANS = ("true", "false")
_PREFIXES = (labels.KUEUE_PREFIX, "provreq.kueue.x-k8s.io/")

_PARTIAL = "partial admission is asked for by a field", "set spec.minSize, and remove it"
_CLUSTERS = "running on another cluster (MultiKueue) is not supported yet", "remove it"
_SLICES = "only one size of slice is supported yet", f"set {SLICE_REQUIRED} and {SLICE_SIZE}, and remove it"
_TOO_EARLY: dict[str, tuple[str, str]] = {
    "elastic-job": (
        "growing and shrinking while it runs is not supported yet",
        "set spec.size to the most pods and spec.minSize to the fewest, and remove it",
    ),
    "prebuilt-workload-name": ("a Workload that is there before the Job is not supported", "remove it"),
    "job-min-parallelism": _PARTIAL,
    "job-completions-equal-parallelism": _PARTIAL,
    "multikueue-origin": _CLUSTERS,
    "multikueue-origin-uid": _CLUSTERS,
    "podset-slice-required-topology-constraints": _SLICES,
    "podset-group-name": ("all pods of a MiniCluster are one group already", "remove it"),
    "priority-boost": ("it stands on the Workload", "set it there"),
}
"""What to say of keys that somebody may have a reason to write, by what follows the prefix."""
_OTHER = "would change what Kueue makes of the Job"


def is_kueues(key: str) -> bool:
    """Whether an annotation or label is of Kueue's vocabulary."""
    return key.startswith(_PREFIXES)


def topology(metadata: Mapping[str, str], pod: Mapping[str, str]) -> dict[str, str]:
    """The annotations that say where the pods lie to one another, for the pod template.

    Args:
        metadata: The MiniCluster's annotations.
        pod: `spec.pod.annotations`.
    """
    both = {**pod, **metadata}
    return {key: both[key] for key in TOPOLOGY if key in both}


def annotations_are_read(mc: MiniCluster) -> Iterator[Problem]:
    """Yield a problem for each annotation of Kueue's that is not handed on."""
    for field, given in _places(mc):
        for key in given:
            if is_kueues(key) and key not in TOPOLOGY:
                yield _refused(f"{field}.{key}", key, f"the annotations that are read are {', '.join(TOPOLOGY)}")


def labels_are_read(mc: MiniCluster) -> Iterator[Problem]:
    """Yield a problem for each label of Kueue's on the MiniCluster that is not handed on."""
    for key in mc.metadata.labels:
        if is_kueues(key) and key not in labels.READ_FROM_USERS:
            yield _refused(
                f"metadata.labels.{key}", key, f"the labels that are read are {', '.join(labels.READ_FROM_USERS)}"
            )


def _refused(field: str, key: str, read: str) -> Problem:
    message, remedy = _TOO_EARLY.get(key.partition("/")[2], (_OTHER, f"remove it; {read}"))
    return Problem(field, message, remedy, "UnsupportedField")


def topology_is_one(mc: MiniCluster) -> Iterator[Problem]:
    """Yield the problems of the annotations by which Kueue places pods near one another."""
    given = topology(mc.metadata.annotations, mc.spec.pod.annotations)
    for key in given:
        ours, pods = mc.metadata.annotations.get(key), mc.spec.pod.annotations.get(key)
        if ours is not None and pods is not None and ours != pods:
            yield Problem(
                f"{POD}.{key}", f"{shown(pods)} contradicts {METADATA}, {shown(ours)}", "remove one of the two"
            )
    placements = [key for key in PLACEMENT if key in given]
    for key in placements[1:]:
        yield Problem(
            _field(mc, key), f"contradicts {placements[0]}: pods are placed in one way", "remove one of the two"
        )
    for key in (REQUIRED, PREFERRED, SLICE_REQUIRED):
        if key in given and _is_no_level(given[key]):
            yield Problem(
                _field(mc, key),
                f"{shown(given[key])} is not the node label of a topology's level",
                "name a level as the Topology does (kubectl get topologies -o yaml), e.g. kubernetes.io/hostname",
            )
    if (text := given.get(UNCONSTRAINED)) is not None and text not in _BOOLEANS:
        yield Problem(_field(mc, UNCONSTRAINED), f"{shown(text)} is neither true nor false", 'write "true"')
    yield from _slices_fit(mc, given)


def _slices_fit(mc: MiniCluster, given: Mapping[str, str]) -> Iterator[Problem]:
    size = given.get(SLICE_SIZE)
    if SLICE_REQUIRED in given and size is None:
        yield Problem(_field(mc, SLICE_REQUIRED), f"needs {SLICE_SIZE}", "say how many pods make a slice")
    if size is None:
        return
    if SLICE_REQUIRED not in given:
        yield Problem(_field(mc, SLICE_SIZE), f"needs {SLICE_REQUIRED}", "say within which level a slice has to lie")
    if not re.fullmatch(r"[1-9][0-9]{0,5}", size) or mc.spec.size % int(size):
        yield Problem(
            _field(mc, SLICE_SIZE),
            f"{shown(size)} is not a number of pods by which spec.size, {mc.spec.size}, can be divided",
            'write a divisor of spec.size as text, e.g. "2"',
        )


def _is_no_level(text: str) -> bool:
    return any(labels.malformed_keys("", [text]))


def _places(mc: MiniCluster) -> list[tuple[str, Mapping[str, str]]]:
    return [(METADATA, mc.metadata.annotations), (POD, mc.spec.pod.annotations)]


def _field(mc: MiniCluster, key: str) -> str:
    return f"{METADATA if key in mc.metadata.annotations else POD}.{key}"
