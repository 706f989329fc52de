"""`kueue-flux setup`: write a FluxSetup from what the nodes have, with questions or without."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import chain, count
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from kueue_flux.cli import failures, options
from kueue_flux.cli.options import Context, Form, Kubeconfig
from kueue_flux.cli.terminal import emit, say
from kueue_flux.cli.visible import visible

if TYPE_CHECKING:
    from kueue_flux.kueue.nodes import Node

T = TypeVar("T")
Object = dict[str, Any]

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Taints of nodes that are not for jobs."""
PASSING = "node.kubernetes.io/"
"""Begins the taints that come and go with a node's health."""
KINDS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "nvidia.com/gpu.product",
    "node.kubernetes.io/instance-type",
)
"""Labels that tell kinds of nodes apart; the first by which they differ is used."""
MOST_KINDS = 16
ALL = "all"


def setup(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", parser=options.nonempty, help="Its name. Default: default.", show_default=False),
    ] = None,
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--for", metavar="NAMESPACE", parser=options.nonempty, help="Who may use the quota; can be given again."
        ),
    ] = None,
    cohort: Annotated[
        str | None,
        typer.Option(
            "--cohort", metavar="NAME", parser=options.nonempty, help="Share what is unused with this cohort."
        ),
    ] = None,
    from_nodes: Annotated[
        bool, typer.Option("--from-nodes", "--yes", "-y", help="Ask nothing: all that the nodes have, by kind.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print it, and create nothing.")] = False,
    output: Annotated[
        Form | None, typer.Option("--output", "-o", help="Print it in this form, and create nothing.")
    ] = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Write a FluxSetup: quota, flavors and queues for some namespaces, from what the nodes have.

    kueue-flux setup

    kueue-flux setup physics --for physics --for physics-dev --from-nodes --dry-run
    """
    if not from_nodes and not sys.stdin.isatty():
        ctx.fail("it asks questions, and nobody is there to answer: add --from-nodes to take what the nodes have")
    cluster = options.cluster(ctx, None, context, kubeconfig)
    form = output or (Form.YAML if dry_run else None)
    work = write(cluster, name, namespaces or [], cohort, ask=not from_nodes, form=form)
    raise typer.Exit(failures.run(work))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(setup)


async def write(
    cluster: options.Cluster,
    name: str | None,
    namespaces: Sequence[str],
    cohort: str | None,
    *,
    ask: bool,
    form: Form | None,
) -> int:
    """Make up a FluxSetup, and create it or print it.

    Args:
        cluster: Where.
        name: Its name; None asks, or takes `default`.
        namespaces: Who may use it; none asks, or takes the namespace of its name.
        cohort: Its cohort; None asks, or takes none.
        ask: Whether there is somebody to answer.
        form: How to print it; None creates it.

    Returns:
        The exit code.

    Raises:
        ClientError: The cluster cannot be asked, or refuses it.
    """
    from kueue_flux.client.setup import AsyncFluxSetups

    if name is not None:
        failures.usage(_typed_name, name)
    async with AsyncFluxSetups(kubeconfig=cluster.kubeconfig, context=cluster.context) as client:
        nodes = usable(await client.nodes())
        name = name or (_ask("Name of the FluxSetup", "default", _checked_name) if ask else "default")
        if form is None and await client.find(name) is not None:
            return _is_there(name)
        given = list(namespaces) or (_ask("Namespaces that may use it", name, _words) if ask else [])
        flavors = kinds(nodes)
        _describe(nodes, flavors)
        if ask and flavors and not _confirm(f"Make a flavor of each of these {len(flavors)} kinds of nodes?"):
            flavors = []
        spec = _spec(given if given != [name] else [], flavors)
        if ask:
            _ask_quotas(spec, flavors, nodes)
        cohort = cohort or (_ask("Cohort to share what is unused with, - for none", "-", _cohort) if ask else "")
        if cohort:
            spec["cohort"] = cohort
        obj = {"apiVersion": "flux-framework.org/v1alpha2", "kind": "FluxSetup", "metadata": {"name": name}}
        obj |= {"spec": spec} if spec else {}
        if problems := _problems(obj):
            failures.invalid(problems, f"FluxSetup {name}")
            return failures.MISUSED
        if form is not None:
            emit(obj, form)
            return 0
        if ask:
            emit(obj, Form.YAML)
            if not _confirm("Create it?"):
                return failures.FAILED
        await client.create(obj)
    print(f"FluxSetup {name} created")
    say(f"see what comes of it: kubectl describe fluxsetup {name}")
    return 0


def _is_there(name: str) -> int:
    from kueue_flux.cli.terminal import complain

    complain(
        f"FluxSetup {name} is there already",
        f"change it: kubectl edit fluxsetup {name}; or write it anew: kueue-flux setup {name} -o yaml > setup.yaml, "
        "look through it, and kubectl apply -f setup.yaml",
    )
    return failures.FAILED


def _problems(obj: Object) -> Sequence[Any]:
    from kueue_flux.api.problems import InvalidFluxSetup
    from kueue_flux.api.setup import FluxSetup

    try:
        FluxSetup.from_object(obj)
    except InvalidFluxSetup as error:
        return error.problems
    return ()


# -- what the nodes have


def usable(nodes: Iterable[Node]) -> list[Node]:
    """The nodes that are for jobs: no control plane's, none that is cordoned or not well."""
    return [
        node
        for node in nodes
        if not node.cordoned and not any(key in CONTROL_PLANE or key.startswith(PASSING) for key, _, _ in node.taints)
    ]


def kinds(nodes: Sequence[Node]) -> list[Object]:
    """Flavors for kinds of nodes, as in spec.flavors; none where all nodes are of one kind."""
    for key in KINDS:
        groups: dict[str, list[Node]] = {}
        for node in nodes:
            groups.setdefault(node.labels.get(key, ""), []).append(node)
        if "" not in groups and 1 < len(groups) <= MOST_KINDS:
            return _told_apart([_flavor(key, value, found) for value, found in sorted(groups.items())])
    tainted = any(node.taints for node in nodes)
    return [_tolerant(nodes)] if tainted and all(node.taints for node in nodes) else []


def _flavor(key: str, value: str, nodes: Sequence[Node]) -> Object:
    flavor = {"name": _named(value), "nodeLabels": {key: value}}
    tolerations = _tolerations(nodes)
    return {**flavor, **({"tolerations": tolerations} if tolerations else {})}


def _told_apart(flavors: Sequence[Object]) -> list[Object]:
    """Flavors with a number after a name that an earlier one has: A_1 and a-1 are two kinds of nodes, and one name."""
    names: set[str] = set()
    for flavor in flavors:
        name = flavor["name"]
        flavor["name"] = next(each for each in chain([name], (f"{name}-{n}" for n in count(2))) if each not in names)
        names.add(flavor["name"])
    return list(flavors)


def _tolerant(nodes: Sequence[Node]) -> Object:
    return {"name": "tainted-nodes", "nodeLabels": {}, "tolerations": _tolerations(nodes)}


def _tolerations(nodes: Sequence[Node]) -> list[Object]:
    """Tolerations of the taints that these nodes have."""
    taints = sorted({taint for node in nodes for taint in node.taints})
    return [
        {"key": key, **({"value": value} if value else {"operator": "Exists"}), "effect": effect}
        for key, value, effect in taints
    ]


def _named(value: str) -> str:
    """A ResourceFlavor's name from a label's value: NVIDIA-A100 becomes nvidia-a100."""
    name = "".join(char if char.isascii() and char.isalnum() else "-" for char in value.lower())
    return name.strip("-") or "other"


def _has(flavor: Object | None, nodes: Iterable[Node]) -> Mapping[str, Decimal]:
    from kueue_flux.kueue.nodes import total

    labels = flavor.get("nodeLabels", {}) if flavor else {}
    tainted = bool(flavor and flavor.get("tolerations"))
    return total(node for node in nodes if labels.items() <= node.labels.items() and (tainted or not node.taints))


def _describe(nodes: Sequence[Node], flavors: Sequence[Object]) -> None:
    if not nodes:
        say("There is no node that takes jobs: the quota will be what nodes bring when they come")
        return
    for flavor in flavors or [{}]:
        labels = " ".join(f"{key}={value}" for key, value in flavor.get("nodeLabels", {}).items())
        which = f"nodes with {labels}" if labels else "all nodes"
        say(f"{which}: {_amounts(_has(flavor, nodes))}")


def _amounts(amounts: Mapping[str, Decimal]) -> str:
    from kueue_flux.kueue.nodes import rounded

    shown = (f"{name} {rounded(name, amount)}" for name, amount in amounts.items() if name != "ephemeral-storage")
    return ", ".join(shown) or "nothing"


def _spec(namespaces: Sequence[str], flavors: Sequence[Object]) -> Object:
    spec: Object = {"namespaces": list(namespaces)} if namespaces else {}
    return {**spec, **({"flavors": [dict(flavor) for flavor in flavors]} if flavors else {})}


# -- questions


def _ask_quotas(spec: Object, flavors: Sequence[Object], nodes: Sequence[Node]) -> None:
    for flavor in spec.get("flavors", [None]):
        quota = {}
        for resource in _has(flavor, nodes):
            if resource == "ephemeral-storage":
                continue
            of = f" of {flavor['name']}" if flavor else ""
            amount = _ask(f"Quota of {resource}{of}, {ALL} for what its nodes have", ALL, _amount)
            if amount != ALL:
                quota[resource] = amount
        if quota:
            (spec if flavor is None else flavor)["quota"] = quota


def _ask(question: str, default: str, read: Callable[[str], T]) -> T:
    """Ask until the answer can be read."""
    while True:
        answer = typer.prompt(visible(question), default=default, err=True)
        try:
            return read(str(answer).strip())
        except ValueError as error:
            say(f"  {error}")


def _confirm(question: str) -> bool:
    return typer.confirm(question, default=True, err=True)


def _checked_name(text: str) -> str:
    problems = _problems({"metadata": {"name": text}, "spec": {"namespaces": ["any"], "cohort": text}})
    if problems or not text:
        raise ValueError(f"{text!r} is no name: lower-case letters, digits, dashes and dots")
    return text


def _typed_name(text: str) -> str:
    try:
        return _checked_name(text)
    except ValueError as error:
        raise failures.InputError(f"NAME: {error}") from error


def _words(text: str) -> list[str]:
    words = text.replace(",", " ").split()
    if problems := _problems({"metadata": {"name": "any"}, "spec": {"namespaces": words}}):
        raise ValueError(problems[0].message)
    return words


def _cohort(text: str) -> str:
    return "" if text == "-" else _checked_name(text)


def _amount(text: str) -> str:
    from kueue_flux.api import quantity

    if text != ALL:
        quantity.parse(text)
    return text
