"""docs/tested.yaml: each field of the models has tests, they exist, and they speak of the field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest
import yaml

from kueue_flux.api import docs
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.schema import structural

CHECKOUT = docs.FILE.parents[1]
TESTS = docs.tested()
ALIASES: dict[str, list[str]] = yaml.safe_load(docs.TESTED.read_text())["aliases"]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


def paths() -> set[str]:
    schema = structural(MiniCluster)["properties"]
    return {row.path for part in ("spec", "status") for row in docs.fields(schema[part], part)}


@cache
def definitions(file: str) -> dict[str, Definition]:
    """What the top level of a file names; methods as `Class::method`."""
    found: dict[str, Definition] = {}
    for node in ast.parse((CHECKOUT / file).read_text()).body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found[node.name] = node
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{inner.name}": inner for inner in node.body if isinstance(inner, FUNCTIONS)}
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            found |= dict.fromkeys(names, node)
    return found


def reached(file: str, name: str) -> Iterator[Definition]:
    """A test and what it uses of its own file: tables, fixtures and helpers."""
    seen, todo = set(), [name]
    while todo:
        name = todo.pop()
        if name in seen or name not in definitions(file):
            continue
        seen.add(name)
        yield (node := definitions(file)[name])
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name | ast.arg):
                todo.append(inner.id if isinstance(inner, ast.Name) else inner.arg)


@cache
def words(test: str) -> str:
    """What a test says, but for its comments."""
    file, _, name = test.partition("::")
    return "\n".join(ast.unparse(node) for node in reached(file, name))


def speaks_of(test: str, names: list[str]) -> bool:
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?!\w)", words(test)) for name in names)


def test_each_field_has_an_entry_and_each_entry_a_field() -> None:
    assert set(TESTS) == paths()
    assert set(ALIASES) <= paths()


@pytest.mark.parametrize("test", sorted({test for tests in TESTS.values() for test in tests}))
def test_it_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert file.startswith(("tests/", "e2e/")), "where pytest looks for tests"
    assert name.rpartition("::")[2].startswith("test_")
    assert isinstance(definitions(file).get(name), FUNCTIONS), f"{file} has no {name}"


@pytest.mark.parametrize("path", TESTS)
def test_it_speaks_of_the_field(path: str) -> None:
    names = [re.sub(r"\W", "", path.rpartition(".")[2]), *ALIASES.get(path, [])]
    assert TESTS[path], "no test"
    assert len(set(TESTS[path])) == len(TESTS[path])
    assert [test for test in TESTS[path] if not speaks_of(test, names)] == []


def test_each_alias_is_needed() -> None:
    unused = {
        f"{path}: {alias}"
        for path, aliases in ALIASES.items()
        for alias in aliases
        if not any(speaks_of(test, [alias]) for test in TESTS[path])
    }
    assert unused == set()


def test_a_field_without_tests_is_no_empty_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "tested", lambda: {**TESTS, "spec.size": []})
    with pytest.raises(LookupError, match=r"names no test of spec\.size: add one"):
        docs.text()


def test_a_test_is_shown_with_a_link_to_its_file() -> None:
    (row,) = [line for line in docs.text().splitlines() if line.startswith("| `spec.deadlineSeconds` |")]
    shown = "[manifests/test_job](../tests/manifests/test_job.py): test_deadline"
    assert shown in row.split(" | ")[-1]
    assert (docs.FILE.parent / "../tests/manifests/test_job.py").exists()
