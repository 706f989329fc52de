"""Kubernetes quantities ("500m", "4Gi"), as exact numbers.

Needed to read the number of cores that a container asks for, and to tell a user of a bad quantity before the
API server refuses the Job made from it.
Format: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from decimal import Decimal

PATTERN = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numk]|[MGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$"
"""What a quantity looks like; negative amounts are left out, for no resource takes them."""

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
        ValueError: it is no quantity, or a negative one.
    """
    match = re.fullmatch(r"\+?([0-9.]+)(.*)", str(value))
    if not re.fullmatch(PATTERN, str(value)) or match is None:
        raise ValueError(f"{value!r} is not a quantity that is 0 or more")
    number, suffix = match.groups()
    if suffix in _SUFFIXES:
        return Decimal(number) * _SUFFIXES[suffix]
    if suffix.startswith(("e", "E")):
        return Decimal(number + suffix)
    raise ValueError(f"{value!r} is not a quantity: {suffix!r} is no known suffix")
