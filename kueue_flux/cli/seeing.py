"""The commands that show queues, and all of them at once: their options."""

from __future__ import annotations

from typing import Annotated

import typer

from kueue_flux.cli import failures, options
from kueue_flux.cli.options import Context, Form, Kubeconfig, Namespace

AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Those of all namespaces.")]


def queue(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            parser=options.nonempty,
            help="A LocalQueue: its quota, what is admitted, what waits in which order.",
            show_default=False,
        ),
    ] = None,
    all_namespaces: AllNamespaces = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on showing it, until ^C.")] = False,
    output: Annotated[Form | None, typer.Option("--output", "-o", help="Print it for programs.")] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List LocalQueues, or show one: its quota, its order, and why things wait.

    kueue-flux queue

    kueue-flux queue team-a --watch
    """
    from kueue_flux.cli import looking

    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    _one_namespace_or_all(ctx, cluster.namespace, all_namespaces)
    if name and all_namespaces:
        ctx.fail("a NAME is looked for in one namespace: leave --all-namespaces out")
    if watch and not name:
        ctx.fail("--watch shows one queue: name it, or see all of them by kueue-flux top")
    if watch and output:
        ctx.fail("--watch is for people, --output for programs: leave one out")
    if name is None:
        failures.run(looking.list_queues(cluster, all_namespaces=all_namespaces, form=output))
    elif watch:
        failures.run(looking.watch_queue(cluster, name))
    else:
        failures.run(looking.show_queue(cluster, name, form=output))


def top(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            parser=options.nonempty,
            help="A MiniCluster, for its jobs and resources (flux top).",
            show_default=False,
            autocompletion=options.complete_name,
        ),
    ] = None,
    all_namespaces: AllNamespaces = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Watch the queues, what runs and what waits; or the inside of a MiniCluster that runs.

    kueue-flux top

    kueue-flux top my-cluster
    """
    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    _one_namespace_or_all(ctx, cluster.namespace, all_namespaces)
    if name and all_namespaces:
        ctx.fail("a NAME is looked for in one namespace: leave --all-namespaces out")
    if name is None:
        from kueue_flux.cli import looking

        failures.run(looking.top(cluster, all_namespaces=all_namespaces))
        return
    from kueue_flux.cli import in_use

    raise typer.Exit(failures.run(in_use.top(cluster, name)))


def _one_namespace_or_all(ctx: typer.Context, namespace: str | None, all_namespaces: bool) -> None:
    if all_namespaces and namespace:
        ctx.fail("--all-namespaces and --namespace contradict each other: leave one out")


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command()(queue)
    app.command()(top)
