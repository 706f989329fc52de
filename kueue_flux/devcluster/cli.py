"""`kueue-flux dev`: clusters for the demo, the tests and the benchmarks."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from kueue_flux.devcluster import cluster as kind_cluster
from kueue_flux.devcluster import control_plane, deploy
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.progress import Progress

app = typer.Typer(no_args_is_help=True, help="Clusters for the demo, the tests and the benchmarks.")


class Profile(StrEnum):
    """What a dev cluster consists of."""

    KIND = "kind"
    CONTROL_PLANE = "control-plane"


NameOption = Annotated[str, typer.Option("--name", help="The cluster's name.")]
ProfileOption = Annotated[
    Profile,
    typer.Option(
        "--profile",
        help="kind: real nodes and containers. control-plane: processes, with kwok's nodes and pods.",
    ),
]


@app.command()
def up(
    profile: ProfileOption = Profile.KIND,
    name: NameOption = "dev",
    workers: Annotated[int, typer.Option(min=1, help="Worker nodes of a kind cluster.")] = 1,
) -> None:
    """Bring a cluster up, or complete one that is there."""
    with _reported() as progress:
        if profile is Profile.KIND:
            kubeconfig = kind_cluster.up(name, progress, workers=workers, deploy=deploy.deploy).kubeconfig
        else:
            kubeconfig = control_plane.up(name, progress).kubeconfig
    if progress.taken:
        progress.note(progress.summary())
    typer.echo(f"export KUBECONFIG={kubeconfig}")


@app.command()
def down(profile: ProfileOption = Profile.KIND, name: NameOption = "dev") -> None:
    """Take a cluster down; the cache stays, and makes the next `up` fast."""
    left: list[str] = []
    with _reported() as progress:
        if profile is Profile.KIND:
            if control_plane.status(name).exists:
                raise DevClusterError(f"{name} has the profile control-plane", "say --profile control-plane")
            there = kind_cluster.exists(name)
            left = kind_cluster.down(name, progress)
        else:
            there = control_plane.status(name).exists
            control_plane.down(name, progress)
        if not there:
            progress.note(f"there was no cluster {name}")
    if left:
        typer.echo("still on the machine:\n" + "\n".join(left), err=True)
        raise typer.Exit(1)


@app.command()
def status(profile: ProfileOption = Profile.KIND, name: NameOption = "dev") -> None:
    """Say what is up, and which of its parts are stand-ins."""
    with _reported() as progress:
        if profile is Profile.KIND:
            described = kind_cluster.status(name, progress)
            if flux := deploy.deployed_flux(name):
                described |= {"image with Flux": flux.reference, "Flux": flux.origin}
            typer.echo(_aligned(described))
        else:
            typer.echo(str(control_plane.status(name)))


@app.command("load-image")
def load_image(
    reference: Annotated[str, typer.Argument(help="An image that the Docker engine has.")],
    name: NameOption = "dev",
) -> None:
    """Copy an image from the Docker engine to the nodes of a kind cluster."""
    with _reported() as progress:
        kind_cluster.load_image(name, reference, progress)


@contextmanager
def _reported() -> Iterator[Progress]:
    """A progress to report to; an error is printed with its remedy, without a traceback."""
    try:
        yield Progress()
    except DevClusterError as error:
        typer.echo(f"error: {error.message}", err=True)
        if error.remedy:
            typer.echo(error.remedy, err=True)
        sys.exit(1)


def _aligned(items: Mapping[str, str]) -> str:
    width = max(len(key) for key in items)
    return "\n".join(f"{key:<{width}}  {text}" for key, text in items.items())
