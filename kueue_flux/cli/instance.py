"""The commands that use the Flux instance of a MiniCluster: their options."""

from __future__ import annotations

from typing import Annotated

import typer

from kueue_flux.cli import failures, options
from kueue_flux.cli.arguments import CommandAfterDashes, Name, OptionalCommandAfterDashes
from kueue_flux.cli.options import Context, Form, Kubeconfig, Namespace, Timeout

Wait = Annotated[
    bool, typer.Option("--wait", "-w", help="Wait until its brokers are up.", rich_help_panel=options.WAITING)
]
Output = Annotated[Form | None, typer.Option("--output", "-o", help="Print it for programs.")]
FluxWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="COMMAND...", help="The command, after options of `flux run` if there are any.", show_default=False
    ),
]


def shell(
    ctx: typer.Context,
    name: Name,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND...", help="What to run in place of a shell.", show_default=False),
    ] = None,
    wait: Wait = False,
    timeout: Timeout = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Open a shell that is connected to a MiniCluster's Flux instance, on its lead.

    kueue-flux shell my-cluster

    kueue-flux shell my-cluster -- flux queue stop
    """
    from kueue_flux.cli import in_use

    _only_with_wait(ctx, timeout, wait)
    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    raise typer.Exit(failures.run(in_use.shell(cluster, name, command or (), wait=wait, limit=timeout)))


def run(
    ctx: typer.Context,
    name: Name,
    command: FluxWords = None,
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="Give it this command's input.")] = False,
    wait: Wait = False,
    timeout: Timeout = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Run a job in a MiniCluster that runs; exits with its exit code, and ^C cancels it.

    What follows the dashes is what one types after `flux run`.

    kueue-flux run my-cluster -- -N4 hostname
    """
    from kueue_flux.cli import in_use

    _only_with_wait(ctx, timeout, wait)
    if not command:
        ctx.fail("a command is needed: kueue-flux run NAME -- COMMAND...")
    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    raise typer.Exit(failures.run(in_use.run(cluster, name, command, stdin=stdin, wait=wait, limit=timeout)))


def submit_job(
    ctx: typer.Context,
    name: Name,
    command: FluxWords = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Submit a job to a MiniCluster that runs, and print the job's id.

    What follows the dashes is what one types after `flux submit`.

    kueue-flux submit-job my-cluster -- -N4 -t 1h simulate
    """
    from kueue_flux.cli import in_use

    if not command:
        ctx.fail("a command is needed: kueue-flux submit-job NAME -- COMMAND...")
    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    failures.run(in_use.submit_job(cluster, name, command))


def jobs(
    ctx: typer.Context,
    name: Name,
    output: Output = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List all jobs of a MiniCluster that runs, those that have ended too."""
    from kueue_flux.cli import in_use

    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    raise typer.Exit(failures.run(in_use.jobs(cluster, name, output)))


def resources(
    ctx: typer.Context,
    name: Name,
    output: Output = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show the nodes, cores and GPUs of a MiniCluster that runs, by their state."""
    from kueue_flux.cli import in_use

    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    raise typer.Exit(failures.run(in_use.resources(cluster, name, output)))


def port_forward(
    ctx: typer.Context,
    name: Name,
    local_port: Annotated[
        int,
        typer.Argument(metavar="[LOCALPORT]", min=0, max=65535, help="Port on this machine; 0 is any that is free."),
    ] = 5000,
    show_token: Annotated[
        bool, typer.Option("--show-token", help="Print the token too. Whoever has it can run commands in the pods.")
    ] = False,
    wait: Wait = False,
    timeout: Timeout = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Reach the RESTful API of a MiniCluster that runs without a command, on this machine, until ^C.

    kueue-flux port-forward my-cluster 8080
    """
    from kueue_flux.cli import in_use

    _only_with_wait(ctx, timeout, wait)
    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    work = in_use.port_forward(cluster, name, local_port, show_token=show_token, wait=wait, limit=timeout)
    failures.run(work)


def stop(
    ctx: typer.Context,
    name: Name,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until it has ended.", rich_help_panel=options.WAITING)
    ] = True,
    timeout: Timeout = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """End a MiniCluster that runs: an interactive one has then succeeded, and stays in the list with its log.

    Jobs that run are cancelled. A MiniCluster that runs a command has failed, as the command is ended (SIGTERM).
    """
    from kueue_flux.cli import in_use

    if timeout and not wait:
        ctx.fail("--timeout says how long to wait, --no-wait not to: leave one out")
    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    failures.run(in_use.stop(cluster, name, wait=wait, limit=timeout), [cluster.target(name)])


def _only_with_wait(ctx: typer.Context, timeout: float | None, wait: bool) -> None:
    if timeout and not wait:
        ctx.fail("--timeout says how long to wait: add --wait, or leave it out")


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command(cls=OptionalCommandAfterDashes)(shell)
    app.command(cls=CommandAfterDashes)(run)
    app.command("submit-job", cls=CommandAfterDashes)(submit_job)
    app.command()(jobs)
    app.command()(resources)
    app.command("port-forward")(port_forward)
    app.command()(stop)
