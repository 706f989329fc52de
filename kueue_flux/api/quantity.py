"""Kubernetes quantities ("500m", "4Gi"), as exact numbers.

Needed to read the number of cores that a container asks for, and to tell a user of a bad quantity before the
API server refuses the Job made from it (`parse`); and to read what others have written, whom there is nobody to tell
(`counted`).
Format: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from decimal import ROUND_UP, Decimal

from kueue_flux.api.problems import shown

PATTERN = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numk]|[MGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?$"
"""What a quantity looks like; negative amounts are left out, for no resource takes them."""
MAX_LENGTH = 64
"""Characters of a quantity; the largest one, to the last of its nine decimal places, has less than half of them."""
MAXIMUM = 2**63 - 1
"""The largest amount that Kubernetes counts."""

_ANY = re.compile(r"([-+]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+))([numk]|[MGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?")
_SMALLEST = Decimal("1e-9")
_FARTHEST = 99  # exponents beyond are above the maximum, or below the smallest amount, whatever the number before

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


def counted(value: int | str) -> Decimal:
    """Return a quantity that the cluster tells, as Kubernetes counts it.

    A resource type that is not built in keeps a quantity as somebody wrote it, such as 1e30 for "no limit": whoever
    reads it takes it for the most that there can be, and rounds what is too small away from 0.
    Source: Kubernetes, ``apimachinery/pkg/api/resource/quantity.go``, `ParseQuantity`.

    Args:
        value: a whole number, or text.

    Raises:
        ValueError: it is no quantity.
    """
    if isinstance(value, int):
        return Decimal(max(-MAXIMUM, min(MAXIMUM, value)))
    match = _ANY.fullmatch(value)
    if match is None:
        raise ValueError(f"{shown(value)} is not a quantity")
    number, suffix = match.groups()
    if suffix is None or suffix in _SUFFIXES:
        amount = Decimal(number) * _SUFFIXES[suffix or ""]
    else:
        amount = Decimal(number).scaleb(max(-_FARTHEST, min(_FARTHEST, int(suffix[1:]))))
    amount = max(Decimal(-MAXIMUM), min(Decimal(MAXIMUM), amount))
    return amount if amount == round(amount, 9) else amount.quantize(_SMALLEST, ROUND_UP)


def _read(text: str) -> Decimal:
    match = re.fullmatch(r"\+?([0-9.]+)(.*)", text) if len(text) <= MAX_LENGTH else None
    if match is None or not re.fullmatch(PATTERN, text):
        raise ValueError(f"{shown(text)} is not a quantity that is 0 or more")
    number, suffix = match.groups()
    if suffix in _SUFFIXES:
        return Decimal(number) * _SUFFIXES[suffix]
    return Decimal(number + suffix)  # with an exponent
