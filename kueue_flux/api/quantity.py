"""Kubernetes quantities ("500m", "4Gi"), as exact numbers.

Needed to read the number of cores that a container asks for, and to tell a user of a bad quantity before the
API server refuses the Job made from it.
Format: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from decimal import Decimal

from kueue_flux.api.problems import shown

PATTERN = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numk]|[MGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?$"
"""What a quantity looks like; negative amounts are left out, for no resource takes them."""
MAX_LENGTH = 64
"""Characters of a quantity; the largest one, to the last of its nine decimal places, has less than half of them."""
MAXIMUM = 2**63 - 1
"""The largest amount that Kubernetes counts."""

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}


def parse(value: int | str) -> Decimal:
    """Return a quantity as an exact number, in the resource's own unit (cores, bytes, pieces).

    Args:
        value: a whole number, or text such as "500m", "1.5", "4Gi", "1e3".

    Raises:
        ValueError: it is no quantity, or a negative one, or more than Kubernetes counts.
    """
    amount = value if isinstance(value, int) else _read(value)
    if amount < 0:
        raise ValueError(f"{shown(value)} is not a quantity that is 0 or more")
    if amount > MAXIMUM:
        raise ValueError(f"{shown(value)} is more than Kubernetes counts, at most 2^63 - 1")
    return Decimal(amount)


def _read(text: str) -> Decimal:
    match = re.fullmatch(r"\+?([0-9.]+)(.*)", text) if len(text) <= MAX_LENGTH else None
    if match is None or not re.fullmatch(PATTERN, text):
        raise ValueError(f"{shown(text)} is not a quantity that is 0 or more")
    number, suffix = match.groups()
    if suffix in _SUFFIXES:
        return Decimal(number) * _SUFFIXES[suffix]
    return Decimal(number + suffix)  # with an exponent
