"""Labels and annotations that users write: their form, and which of them are not theirs to set.

Form: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from kueue_flux.api.base import SUBDOMAIN
from kueue_flux.api.problems import Problem

# The part of Kueue's vocabulary that users write; kueue_flux.kueue has the rest.
KUEUE_PREFIX = "kueue.x-k8s.io/"
QUEUE = f"{KUEUE_PREFIX}queue-name"
PRIORITY_CLASS = f"{KUEUE_PREFIX}priority-class"
MAX_EXEC_TIME = f"{KUEUE_PREFIX}max-exec-time-seconds"
READ_FROM_USERS = (QUEUE, PRIORITY_CLASS, MAX_EXEC_TIME)

_RESERVED = {
    "app.kubernetes.io/managed-by",
    "controller-uid",
    "job-name",
    "kubernetes.io/job-name",
}
_RESERVED_PREFIXES = ("batch.kubernetes.io/", "flux-framework.org/")
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LIMIT = 63  # characters of a label's value, and of a key after the slash


def is_kueues(key: str) -> bool:
    """Whether a label belongs to Kueue."""
    return key.startswith(KUEUE_PREFIX)


def is_reserved(key: str) -> bool:
    """Whether a label is set by kueue-flux or by Kubernetes' Job controller."""
    return key in _RESERVED or key.startswith(_RESERVED_PREFIXES)


def malformed(field: str, labels: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each label whose key or value Kubernetes would refuse.

    Args:
        field: where the labels stand, e.g. `spec.pod.labels`.
        labels: values by key.
    """
    yield from malformed_keys(field, labels)
    for key, value in labels.items():
        if value and (len(value) > _LIMIT or not re.fullmatch(_WORD, value)):
            yield Problem(
                f"{field}.{key}",
                f"{value!r} is not a label's value: at most {_LIMIT} letters, digits, '-', '_' and '.'",
                "change it",
            )


def malformed_keys(field: str, keys: Iterable[str]) -> Iterator[Problem]:
    """Yield a problem for each key of a label or annotation that Kubernetes would refuse."""
    for key in keys:
        prefix, slash, name = key.rpartition("/")
        named = len(name) <= _LIMIT and re.fullmatch(_WORD, name)
        prefixed = not slash or (len(prefix) <= 253 and re.fullmatch(SUBDOMAIN, prefix))
        if not (named and prefixed):
            yield Problem(
                f"{field}.{key}",
                "is not a key: letters, digits, '-', '_' and '.', with or without a DNS name and '/' before",
                "rename it",
            )
