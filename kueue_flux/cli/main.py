"""The command `kueue-flux`, also as `kubectl kueue-flux`: its commands and their options.

It starts in a tenth of a second: what talks to a cluster, validates or draws is imported where it is used.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kueue_flux.cli import failures, instance, options, seeing, setup
from kueue_flux.cli.arguments import FileOrCommandAfterDashes, Name
from kueue_flux.cli.options import Cluster, Context, Form, Goal, Kubeconfig, ListForm, Namespace, Timeout
from kueue_flux.cli.terminal import as_run, complain, emit, run_as, say


class Commands(TyperGroup):
    """The commands; those of `dev` are loaded when it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Put the dev cluster's own application in the place of its entry in the help."""
        name, command, rest = super().resolve_command(ctx, args)
        if name == "dev":
            from kueue_flux.devcluster.cli import app as dev

            command = typer.main.get_group(dev)
        if command is not None:
            command.help = as_run(command.help or "")
        return name, command, rest


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run commands under Flux, the HPC resource manager, on a Kubernetes cluster whose quota Kueue hands out.",
)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import PackageNotFoundError, version

    from kueue_flux.api.minicluster import API_VERSION

    try:
        number = version("kueue-flux")
    except PackageNotFoundError:
        number = "(a checkout that is not installed)"
    print(f"kueue-flux {number}, for MiniClusters of {API_VERSION}")
    raise typer.Exit


@app.callback()
def top(
    ctx: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Keep the options that stand before the command."""
    ctx.obj = Cluster(namespace, context, kubeconfig)


_SHAPE = "MiniCluster"
_FLUX = "Flux"


def _described(*names: str, metavar: str, help: str, panel: str = _SHAPE, parser: Any = options.nonempty) -> Any:
    """A flag that describes a MiniCluster."""
    return typer.Option(*names, metavar=metavar, help=help, parser=parser, rich_help_panel=panel)


@app.command(cls=FileOrCommandAfterDashes)
def submit(
    ctx: typer.Context,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            parser=options.nonempty,
            help="YAML with MiniClusters; - is stdin. --image, --queue and --flux-... change what it says.",
            show_default=False,
        ),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND...", help="The command to run under Flux, after two dashes.", show_default=False
        ),
    ] = None,
    image: Annotated[
        str | None, _described("--image", "-i", metavar="IMAGE", help="Container image in which the command runs.")
    ] = None,
    queue: Annotated[
        str | None,
        _described(
            "--queue",
            "-q",
            metavar="NAME",
            help="LocalQueue to wait in. Default: one that is named default; without one it runs at once.",
        ),
    ] = None,
    size: Annotated[
        int,
        _described(
            "--size", "-N", metavar="NODES", parser=options.count, help="Nodes: one pod and one Flux broker each."
        ),
    ] = 1,
    min_size: Annotated[
        int | None,
        _described(
            "--min-size",
            metavar="NODES",
            parser=options.count,
            help="Start with fewer nodes, down to this, if the queue is short of quota.",
        ),
    ] = None,
    tasks: Annotated[
        int | None,
        _described(
            "--tasks",
            metavar="TASKS",
            parser=options.count,
            help="Copies of the command, over all nodes. Default: one on each.",
        ),
    ] = None,
    cpu: Annotated[
        str | None,
        _described("--cpu", metavar="CPUS", help="CPUs of each node, as 2 or 500m; the queue counts them."),
    ] = None,
    memory: Annotated[
        str | None,
        _described("--memory", metavar="BYTES", help="Memory of each node, as 4Gi; the queue counts it."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            "-e",
            metavar="NAME=VALUE",
            help="Environment variable (repeatable). NAME alone takes its value from here.",
            rich_help_panel=_SHAPE,
        ),
    ] = None,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive",
            help="Run no command: wait for `kueue-flux shell`, `run` and the like, until `kueue-flux stop`.",
            rich_help_panel=_SHAPE,
        ),
    ] = False,
    workdir: Annotated[
        str | None, _described("--workdir", metavar="PATH", help="Directory in which the command runs.")
    ] = None,
    name: Annotated[
        str | None,
        _described("--name", metavar="NAME", help="The MiniCluster's name. Default: the command's and a suffix."),
    ] = None,
    priority: Annotated[
        str | None,
        _described("--priority", metavar="NAME", help="WorkloadPriorityClass: its place in the queue."),
    ] = None,
    ttl: Annotated[
        float | None,
        _described(
            "--ttl",
            metavar="TIME",
            parser=options.seconds,
            help="Delete the MiniCluster and its output 90s, 10m, 1h30m or 2d after its end.",
        ),
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet/--verbose", help="Output of the command only, or Flux's messages too.", rich_help_panel=_FLUX
        ),
    ] = True,
    flux_view: Annotated[
        bool,
        typer.Option(
            "--flux-view/--no-flux-view", help="Bring Flux along, or use that of the image.", rich_help_panel=_FLUX
        ),
    ] = True,
    flux_image: Annotated[
        str | None, _described("--flux-image", metavar="IMAGE", help="Bring Flux from this image.", panel=_FLUX)
    ] = None,
    flux_volume: Annotated[
        bool, typer.Option("--flux-volume", help="Mount that image instead of copying from it.", rich_help_panel=_FLUX)
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            "-w",
            help="Wait for the end; exits with the command's exit code.",
            rich_help_panel=options.WAITING,
        ),
    ] = False,
    logs: Annotated[
        bool | None,
        typer.Option(
            "--logs/--no-logs",
            "-f",
            help="Wait, and show the output or not. --wait alone shows it.",
            rich_help_panel=options.WAITING,
            show_default=False,
        ),
    ] = None,
    timeout: Timeout = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the MiniCluster instead of submitting it.")] = False,
    output: Annotated[
        Form | None, typer.Option("--output", "-o", help="Print what was submitted, in place of its name.")
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Submit a command, or the MiniClusters of a FILE.

    kueue-flux submit -q team-a -N 4 -i ubuntu --wait -- hostname

    kueue-flux submit minicluster.yaml

    kueue-flux submit minicluster.yaml -q team-a -i image-with-flux --no-flux-view

    kueue-flux submit -q team-a -N 4 -i ubuntu --interactive --name my-cluster
    """
    from kueue_flux.cli import submit as work
    from kueue_flux.cli.flags import Flags
    from kueue_flux.cli.flags import given as by_flags
    from kueue_flux.cli.override import Override

    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    if logs is False and not wait:
        ctx.fail("--no-logs goes with --wait: add it, or leave both out")
    wait = wait or bool(logs)
    if timeout and not wait:
        ctx.fail("--timeout says how long to wait: add --wait, or leave it out")
    if output and wait:
        ctx.fail("--output prints the MiniCluster, --wait the command's output: leave one out")
    if file is not None:
        _only_with_command(ctx, file, command)
        override = Override(image, queue, _typed(ctx, "flux_view", flux_view), flux_image, flux_volume or None)
        given = failures.usage(override.apply, failures.usage(work.read_file, file))
    elif command and interactive:
        ctx.fail("--interactive runs no command: leave one of the two out, or run it later by kueue-flux run")
    elif image and (command or interactive):
        flags = Flags(
            image=image, name=name, queue=queue, priority=priority, size=size, min_size=min_size, tasks=tasks, cpu=cpu,
            memory=memory, env=env or (), workdir=workdir, quiet=quiet, flux_view=flux_view, flux_image=flux_image,
            flux_volume=flux_volume, ttl=None if ttl is None else math.ceil(ttl),
            interactive=interactive,
        )  # fmt: skip
        given = [failures.usage(by_flags, flags, command or ())]
    else:
        parts = {"image": image, "command": command or interactive}
        lacking = " and ".join(f"no {what}" for what, given_here in parts.items() if not given_here)
        ctx.fail(
            f"an image and a command are needed, or a FILE, and {lacking} was given: "
            "kueue-flux submit --image IMAGE -- COMMAND..."
        )
    given = failures.usage(work.into_namespace, given, cluster.namespace)
    if not work.valid(given):
        raise typer.Exit(failures.MISUSED)
    objects = [one.object for one in given]
    if dry_run:
        emit(work.as_one(objects), output or Form.YAML)
        return
    if logs and len(objects) > 1:
        ctx.fail("--logs shows the output of one MiniCluster, and the file holds several")
    # Stdout is for what was asked for: the name, the object, or the output of the command.
    tell = (lambda name: say(f"submitted {name}")) if wait or output else print
    created = failures.run(work.send(objects, cluster, tell))
    if output:
        emit(work.as_one(created), output)
    elif interactive and not wait:
        where = cluster.target(created[0]["metadata"]["name"])
        say(f"use it: kueue-flux shell --wait {where}")
        say(f"end it: kueue-flux stop {where}")
    if wait:
        going_on: list[str] = []
        shown = len(created) == 1 and logs is not False
        following = work.follow(created, cluster, going_on, logs=shown, limit=timeout)
        raise typer.Exit(failures.run(following, going_on))


def _only_with_command(ctx: typer.Context, file: str, command: Sequence[str] | None) -> None:
    if file != "-" and not Path(file).exists():
        return  # reading it will say so, and that a command goes after two dashes
    if command:
        ctx.fail(f"either a FILE ({file}) or a command after two dashes, not both")
    from kueue_flux.cli.override import FLAGS

    for option in ctx.command.params:
        describes = getattr(option, "rich_help_panel", None) in (_SHAPE, _FLUX) and option.name not in FLAGS
        if describes and _typed(ctx, option.name or "", True):
            flag = " / ".join([*option.opts, *option.secondary_opts])
            ctx.fail(f"{flag} describes a MiniCluster, and FILE ({file}) brings its own: set it there")


def _typed(ctx: typer.Context, name: str, value: bool) -> bool | None:
    """The value of an option that stands on the command line, None where it has its default."""
    source = ctx.get_parameter_source(name)
    return value if source is not None and source.name == "COMMANDLINE" else None


@app.command("list")
def list_(
    ctx: typer.Context,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="MiniClusters of all namespaces.")
    ] = False,
    output: Annotated[
        ListForm | None, typer.Option("--output", "-o", help="wide has more columns; json and yaml are for programs.")
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List MiniClusters and where they stand."""
    from kueue_flux.cli import commands

    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    if all_namespaces and cluster.namespace:
        ctx.fail("--all-namespaces and --namespace contradict each other: leave one out")
    failures.run(commands.list_all(cluster, all_namespaces=all_namespaces, form=output))


@app.command()
def status(
    ctx: typer.Context,
    name: Name,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow it until it has ended.")] = False,
    output: Annotated[Form | None, typer.Option("--output", "-o", help="Print it for programs.")] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show where a MiniCluster stands, and why."""
    from kueue_flux.cli import commands

    if watch and output:
        ctx.fail("--watch is for people, --output for programs: leave one out")
    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    if watch:
        failures.run(commands.watch_status(cluster, name), [cluster.target(name)])
    else:
        failures.run(commands.show_status(cluster, name, form=output))


@app.command()
def logs(
    ctx: typer.Context,
    name: Name,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the output to its end; waits for its beginning.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Print the output of a MiniCluster's command."""
    from kueue_flux.cli import commands

    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    going_on = [cluster.target(name)] if follow else []
    failures.run(commands.print_logs(cluster, name, follow=follow), going_on)


@app.command()
def wait(
    ctx: typer.Context,
    name: Name,
    goal: Annotated[
        Goal, typer.Option("--for", help="What to wait for.", rich_help_panel=options.WAITING)
    ] = Goal.FINISHED,
    timeout: Timeout = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Wait for a MiniCluster; exits with its command's exit code once that has ended."""
    from kueue_flux.cli import commands

    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    going_on = [cluster.target(name)]
    raise typer.Exit(failures.run(commands.wait_for(cluster, name, goal, timeout), going_on))


@app.command()
def delete(
    ctx: typer.Context,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME", help="Their names.", show_default=False, autocompletion=options.complete_name),
    ],
    wait: Annotated[
        bool,
        typer.Option("--wait/--no-wait", help="Wait until their pods have ended.", rich_help_panel=options.WAITING),
    ] = True,
    timeout: Timeout = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Delete MiniClusters and all that belongs to them."""
    from kueue_flux.cli import commands

    cluster = options.cluster(ctx, namespace, context, kubeconfig)
    if timeout and not wait:
        ctx.fail("--timeout says how long to wait, --no-wait not to: leave one out")
    if not all(name.strip() for name in names):
        ctx.fail("a NAME is empty")
    raise typer.Exit(failures.run(commands.delete_all(cluster, names, wait=wait, limit=timeout)))


seeing.register(app)
instance.register(app)
setup.register(app)


@app.command()
def dev() -> None:
    """Bring up and take down clusters for development."""
    raise AssertionError("Commands.resolve_command puts the dev cluster's application in this place")


@app.command()
def version() -> None:
    """Print the version."""
    _print_version(True)


def program_name(argv0: str) -> str:
    """What the user typed: `kubectl kueue-flux` where kubectl has called us as its plugin."""
    name = Path(argv0).name
    return "kubectl kueue-flux" if name.startswith("kubectl-") else "kueue-flux"


def main() -> None:
    """Run the command with the process's arguments, and exit."""
    sys.exit(run(sys.argv[1:], program_name(sys.argv[0])))


def run(args: Sequence[str], program: str = "kueue-flux") -> int:
    """Run the command.

    Args:
        args: Its arguments.
        program: Its name, for help and errors.

    Returns:
        The exit code.
    """
    with run_as(program):
        return _run(args, program)


def _run(args: Sequence[str], program: str) -> int:
    try:
        code = typer.main.get_command(app).main(list(args), prog_name=program, standalone_mode=False)
    except typer.TyperException as error:
        # Typer hands on the words of the library by which it reads values.
        error.message = as_run(error.message.removeprefix("Value error, "))
        show = getattr(error, "show", None)
        if show is not None:
            show()
        else:
            complain(str(error))
        return error.exit_code
    except typer.Abort:
        return failures.INTERRUPTED
    except BrokenPipeError:
        # As with `| head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failures.FAILED
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
