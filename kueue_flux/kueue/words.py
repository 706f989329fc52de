"""Kueue's messages in fewer words, for those who read them in a table or a line.

Source: Kueue 0.19, ``pkg/scheduler/flavorassigner``, ``pkg/scheduler/scheduler.go``, ``pkg/scheduler/preemption``.
What is not known here stays as it is.
"""

import re

from kueue_flux.kueue.workload import Signal

_POD_SET = re.compile(r"(?:couldn't|failed to) assign flavors to pod set [^:\s]+: ")
_MISSING = re.compile(r"insufficient unused quota for (\S+) in flavor ([^,\s]+), ([^\s.,]+(?:\.\d+)?\w*) more needed")
_NEVER = re.compile(
    r"insufficient quota for (\S+) in flavor ([^,\s]+), previously considered podsets requests \(\S+\) \+ current "
    r"podset request \((\S+)\) > maximum capacity \((\S+)\)"
)
_WAITS_FOR_PREEMPTED = re.compile(r"Pending the preemption of (\d+) workload\(s\)")
_PREEMPTED = re.compile(
    r"Preempted to accommodate a workload \(UID: [^)]*\) due to ([^;]+); preemptor path: (\S*); preemptee path: (\S*)"
)
_WHY_PREEMPTED = {
    "prioritization in the ClusterQueue": "preempted by priority in ClusterQueue {}",
    "reclamation within the cohort": "ClusterQueue {} took back the quota that it had lent",
    "Fair Sharing within the cohort": "preempted by fair sharing with ClusterQueue {}",
    "reclamation within the cohort while borrowing": "preempted by ClusterQueue {}, which borrows",
}


def brief(why: Signal, *, partial: bool = False) -> str:
    """Say why a Workload is not admitted, in a few words.

    Args:
        why: Kueue's reason and message.
        partial: Whether it would start with fewer pods: Kueue's numbers are those of its full size.
    """
    message = " ".join(why.message.split())
    if found := _PREEMPTED.search(message):
        path = found[2].rstrip("/").rpartition("/")[2]
        return _WHY_PREEMPTED.get(found[1], f"preempted by ClusterQueue {{}}: {found[1]}").format(path)
    if found := _WAITS_FOR_PREEMPTED.search(message):
        return f"waits for {found[1]} that {'is' if found[1] == '1' else 'are'} preempted to stop"
    size = " for its full size" if partial else ""
    message = _POD_SET.sub("", message)
    message = _MISSING.sub(rf"\3 more \1 of \2 needed{size}", message)
    return _NEVER.sub(rf"asks for \3 \1{size}, and \2 has \4 at most", message) or why.reason


def is_preemption(message: str) -> bool:
    """Whether a message tells of the preemption of the Workload itself, as it stays until Kueue looks at it again."""
    return _PREEMPTED.search(" ".join(message.split())) is not None
