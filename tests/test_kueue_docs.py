"""docs/kueue.md: each behaviour names a test, the test exists, and it is of the kind that the table says."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/kueue.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in TEXT.partition("## Kueue's behaviours")[2].splitlines()
    if line.startswith("| ") and "::" in line
]
ON = {"control plane": "tests/control_plane/", "real pods": "e2e/"}


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_table_is_read() -> None:
    assert len(ROWS) == TEXT.count("::test_") > 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[-2])
def test_the_named_test_exists_and_runs_where_the_table_says(row: list[str]) -> None:
    found = re.fullmatch(r"`([\w/.]+)::(test_\w+)`", row[-2])
    assert found, row
    file, name = found.groups()
    assert name in functions(file), f"{file} has no {name}"
    assert file.startswith(ON[row[-1]])


def test_every_control_plane_test_of_admission_is_in_the_table() -> None:
    named = {row[-2].strip("`") for row in ROWS}
    files = [f"tests/control_plane/{path.name}" for path in (ROOT / "tests/control_plane").glob("test_admission_*.py")]
    assert files
    tests = {f"{file}::{name}" for file in files for name in functions(file) if name.startswith("test_")}
    assert tests - named == set()
