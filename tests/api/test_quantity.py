"""Kubernetes quantities as numbers."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kueue_flux.api.quantity import MAXIMUM, counted, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (2, "2"),
        ("0", "0"),
        ("+3", "3"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("500m", "0.5"),
        ("100u", "0.0001"),
        ("1n", "0.000000001"),
        ("2k", "2000"),
        ("1M", "1000000"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("1E", "1000000000000000000"),
        ("1e3", "1000"),
        ("12E2", "1200"),
        ("1e-3", "0.001"),
    ],
)
def test_quantities(text: int | str, value: str) -> None:
    assert parse(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "-1", -1, "1 Gi", "1GB", "1K", "1ki", "x", "1e", "1.2.3", "."])
def test_what_is_none(text: int | str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (2, "2"),
        ("1.5", "1.5"),
        ("5.", "5"),
        ("+500m", "0.5"),
        ("1.5Gi", "1610612736"),
        ("1e3", "1000"),
        ("1E", "1e18"),
        ("-2", "-2"),
        (-2, "-2"),
        ("10E", str(MAXIMUM)),
        ("1e30", str(MAXIMUM)),
        ("1e123456", str(MAXIMUM)),
        ("-1e30", str(-MAXIMUM)),
        (2**64, str(MAXIMUM)),
        ("9" * 100, str(MAXIMUM)),
        ("1e-30", "1e-9"),
        ("1e-123456", "1e-9"),
        ("0.0000000011", "2e-9"),
        ("0", "0"),
        ("0e9", "0"),
    ],
)
def test_what_others_wrote_is_what_kubernetes_makes_of_it(text: int | str, value: str) -> None:
    assert counted(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "1 Gi", "x", "1e", "1e0.5", "1.2.3", ".", "--1"])
def test_what_nobody_counts(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        counted(text)
