"""The MiniClusters of a file, and the lines on which their fields stand. Pure, but for a generated name's suffix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kueue_flux.api.minicluster import API_VERSION, KIND
from kueue_flux.api.problems import Problem
from kueue_flux.cli.failures import InputError
from kueue_flux.cli.given import Given
from kueue_flux.cli.names import generated_name

if TYPE_CHECKING:
    import yaml

_TO_BEGIN = "for one to begin with: kueue-flux submit --image IMAGE --dry-run -- COMMAND..."
_HEADER = f"a MiniCluster has apiVersion: {API_VERSION} and kind: {KIND}"
# How much of a line is shown, characters.
_EXCERPT = 80
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


@dataclass(frozen=True)
class _Found:
    """An object of a file: its value, and the part of the file that it was read from."""

    value: Any
    node: yaml.Node

    @property
    def line(self) -> int:
        return int(self.node.start_mark.line) + 1


def documents(text: str, source: str) -> list[Given]:
    """Read MiniClusters from YAML or JSON: several documents, or a List.

    Args:
        text: What the file holds.
        source: Its name, for messages.

    Returns:
        The MiniClusters, not validated, each with a name.

    Raises:
        InputError: It is no YAML, it holds nothing, or something other than MiniClusters.
    """
    found = [item for document in _parsed(text, source) for item in _items(document, source)]
    if not found:
        raise InputError(f"{source} holds no MiniCluster", _TO_BEGIN)
    for item in found:
        _check_kind(item.value, f"{source}, line {item.line}," if len(found) > 1 else source, source)
    _check_names(found, source)
    return [_given(item, source, alone=len(found) == 1) for item in found]


def if_meant_as_command(source: str) -> str:
    """What to do if a file, by its name none of YAML, was meant to be run; empty for others."""
    if source == "stdin" or Path(source).suffix in (".yaml", ".yml", ".json"):
        return ""
    return f"to run a command, put it after two dashes: kueue-flux submit --image IMAGE -- {source}"


def line_of(node: yaml.Node, path: str) -> int:
    """The line on which a field stands, from 1; that of the nearest field around it where it does not stand itself.

    Args:
        node: The object.
        path: The field, as in `spec.containers[0].image`.
    """
    line = node.start_mark.line
    while path:
        steps = [step for step in _steps(node) if step[0] and re.match(rf"{re.escape(step[0])}(?![^.\[])", path)]
        if not steps:
            break
        # Keys may have dots in them. Of equal ones the last counts: those before it were merged in by `<<`.
        name, line, node = max(reversed(steps), key=lambda step: len(step[0]))
        path = path.removeprefix(name).removeprefix(".")
    return int(line) + 1


def _steps(node: Any) -> Iterator[tuple[str, int, Any]]:
    """The parts of a mapping or a list: name as in a path, line, node."""
    if node.id == "mapping":
        for key, value in node.value:
            for name in (str(key.value), repr(key.value)):
                yield name, key.start_mark.line, value
    elif node.id == "sequence":
        for index, item in enumerate(node.value):
            yield f"[{index}]", item.start_mark.line, item


def _given(found: _Found, source: str, *, alone: bool) -> Given:
    obj = _named(found.value)
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    where = source if alone else f"{source}, line {found.line}"
    return Given(obj, f"{where} (MiniCluster {name})" if name else where, partial(_explain, found.node, source))


def _explain(node: yaml.Node, source: str, problem: Problem) -> Problem:
    return replace(problem, field=f"{source}:{line_of(node, problem.field)}: {problem.field}")


def _parsed(text: str, source: str) -> Iterator[_Found]:
    """Yield the documents that hold anything."""
    import yaml

    try:
        loader = _loader()(text)
        while loader.check_node():
            node = loader.get_node()
            _check_keys(node, source)
            value = loader.construct_document(node)
            if value is not None:
                yield _Found(value, node)
    except (yaml.YAMLError, ValueError) as error:
        raise _no_yaml(error, text, source) from error


@cache
def _loader() -> Any:
    """PyYAML's safe loader, but for dates, which are text to Kubernetes."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != _TIMESTAMP]
        for first, found in base.yaml_implicit_resolvers.items()
    }
    return type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})


def _no_yaml(error: Exception, text: str, source: str) -> InputError:
    """What is wrong, and the line that is."""
    mark = getattr(error, "problem_mark", None)
    line = mark.line if mark is not None else None
    if hasattr(error, "character"):  # of a character that YAML does not allow the loader tells no line
        line = text.partition(chr(error.character))[0].count("\n")
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if context := getattr(error, "context", None):
        what += f", {context}"
        if (began := getattr(error, "context_mark", None)) and began.line != line:
            what += f" that begins in line {began.line + 1}"
    if line is None:
        return InputError(f"{source} is no YAML: {what}", if_meant_as_command(source))
    lines = text.rstrip().split("\n")
    line = min(line, len(lines) - 1)  # what is missing at the end is missed after it
    remedy = if_meant_as_command(source) or _excerpt(lines[line])
    return InputError(f"{source}, line {line + 1}: no YAML: {what}", remedy)


def _excerpt(line: str) -> str:
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "indent it with spaces: YAML takes no tabs there"
    line = line.strip()
    shown = line if len(line) <= _EXCERPT else f"{line[:_EXCERPT]}..."
    return "".join(char if char.isprintable() else "?" for char in shown)


def _check_keys(root: yaml.Node, source: str) -> None:
    """Refuse a key that stands twice in one mapping: YAML would take the last, and forget the others."""
    seen: set[int] = set()
    todo: list[Any] = [root]
    while todo:
        node = todo.pop()
        if id(node) in seen:  # an alias of what is elsewhere
            continue
        seen.add(id(node))
        if node.id == "mapping":
            lines: dict[str, int] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if key.id == "scalar" and (first := lines.get(key.value)):
                    between = "put a line --- between two MiniClusters, or " if node is root else ""
                    raise InputError(
                        f"{source}, line {line}: {key.value} is here for the second time, after line {first}",
                        f"{between}remove one of the two",
                    )
                lines[str(key.value)] = line
                todo.append(value)
        elif node.id == "sequence":
            todo.extend(node.value)


def _items(document: _Found, source: str) -> list[_Found]:
    """The objects of a document: itself, or those of a List."""
    if not isinstance(document.value, dict) or document.value.get("kind") != "List":
        return [document]
    values = document.value.get("items") or []
    nodes: Any = next((value for key, value in document.node.value if key.value == "items"), None)
    if not isinstance(values, list):
        raise InputError(f"{source}, line {nodes.start_mark.line + 1}: the items of a List must be a list", _TO_BEGIN)
    return [_Found(value, node) for value, node in zip(values, nodes.value if values else [], strict=True)]


def _check_kind(value: Any, where: str, source: str) -> None:
    if not isinstance(value, dict):
        what = "text" if isinstance(value, str) else "a list" if isinstance(value, list) else "a value"
        raise InputError(f"{where} is {what}, no MiniCluster", if_meant_as_command(source) or _TO_BEGIN)
    kind, version = value.get("kind"), value.get("apiVersion")
    if kind == KIND and version == API_VERSION:
        return
    what = f"a {kind}" if kind else "an object without a kind"
    is_a = f"{where} is {what} ({version or 'without an apiVersion'})"
    if not kind or str(kind).lower() == KIND.lower():
        raise InputError(f"{is_a}; nothing was submitted", _HEADER)
    raise InputError(
        f"{is_a}; submit takes {KIND} ({API_VERSION}) only",
        f"nothing was submitted; for other kinds: kubectl apply -f {'-' if source == 'stdin' else source}",
    )


def _check_names(found: Sequence[_Found], source: str) -> None:
    lines: dict[tuple[str, str], int] = {}
    for item in found:
        metadata = item.value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not name:
            continue
        key = (str(name), str(metadata.get("namespace", "")))
        if key in lines:
            raise InputError(
                f"{source}, line {item.line}: {name} is also the name of the MiniCluster of line {lines[key]}",
                "rename one of the two",
            )
        lines[key] = item.line


def _named(item: dict[str, Any]) -> dict[str, Any]:
    """Give a name to an object that leaves it to `generateName`, as the API server would."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") or not metadata.get("generateName"):
        return item
    spec = item.get("spec")
    size = spec.get("size") if isinstance(spec, dict) else None
    name = generated_name(str(metadata["generateName"]), size if isinstance(size, int) else 1)
    rest = {key: value for key, value in metadata.items() if key != "generateName"}
    return {**item, "metadata": {"name": name, **rest}}
