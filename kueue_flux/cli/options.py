"""Options that several commands share, and what they are read into."""

from __future__ import annotations

import asyncio
import re
import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kueue_flux.client.miniclusters import AsyncMiniClusters

# Panels of the help.
_CLUSTER = "Cluster"
WAITING = "Waiting"

# As long as one waits for a shell.
COMPLETION_SECONDS = 2.0

_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9}(?:\.\d+)?)s?)?", re.ASCII)
_COUNT = re.compile(r"0*[1-9]\d{0,8}", re.ASCII)


def seconds(text: str) -> float:
    """Read a length of time: 90, 90s, 10m, 1h30m, 2d.

    Raises:
        typer.BadParameter: It is none.
    """
    match = _DURATION.fullmatch(text.strip())
    if not text.strip() or match is None:
        raise typer.BadParameter(f"{text!r} is no length of time: write 90s, 10m, 1h30m or 2d")
    days, hours, minutes, rest = (float(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + rest


def limit(text: str) -> float:
    """Read a length of time in which something can happen.

    Raises:
        typer.BadParameter: It is none.
    """
    if not (found := seconds(text)):
        raise typer.BadParameter("no time at all: write 90s, 10m, 1h30m or 2d")
    return found


def count(text: str | int) -> int:
    """Read how many of something; a default is a number already.

    Raises:
        typer.BadParameter: It is no number, or none of them.
    """
    if not _COUNT.fullmatch(str(text)):
        raise typer.BadParameter(f"{text!r} does not say how many: write a whole number, 1 or more")
    return int(text)


def nonempty(text: str) -> str:
    """Read a name or the like, which an unset variable of a shell would leave empty.

    Raises:
        typer.BadParameter: It is empty.
    """
    if not text.strip():
        raise typer.BadParameter("it is empty: write something, or leave it out")
    return text


Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        parser=nonempty,
        help="Namespace. Default: the context's.",
        rich_help_panel=_CLUSTER,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context", metavar="NAME", parser=nonempty, help="A context of the kubeconfig.", rich_help_panel=_CLUSTER
    ),
]
Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        metavar="PATH",
        parser=nonempty,
        help="Kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the pod's service account.",
        rich_help_panel=_CLUSTER,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="TIME",
        parser=limit,
        help="Give up waiting after 90s, 10m or 1h30m; exits with 124.",
        rich_help_panel=WAITING,
    ),
]


class Form(StrEnum):
    """Forms of output for programs."""

    JSON = "json"
    YAML = "yaml"


class ListForm(StrEnum):
    """Forms of output of a list."""

    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class Goal(StrEnum):
    """What can be waited for."""

    ADMITTED = "admitted"
    READY = "ready"
    FINISHED = "finished"

    @property
    def condition(self) -> str:
        """The condition type."""
        return self.value.capitalize()


@dataclass(frozen=True)
class Cluster:
    """Where to go: as given before the command's name, and again after it."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    def target(self, name: str, namespace: str | None = None) -> str:
        """A MiniCluster as one types it after a command's name: its name, and where it is.

        Args:
            name: Its name.
            namespace: In place of this cluster's own.
        """
        where = {
            "-n": namespace or self.namespace,
            "--context": self.context,
            "--kubeconfig": self.kubeconfig,
        }
        return shlex.join([name, *(word for flag, value in where.items() if value for word in (flag, value))])

    def client(self, namespace: str | None = None) -> AsyncMiniClusters:
        """Open a client.

        Args:
            namespace: In place of this cluster's own.
        """
        # Here, because half of the command's start-up time would go into it.
        from kueue_flux.client.miniclusters import AsyncMiniClusters

        return AsyncMiniClusters(namespace or self.namespace, kubeconfig=self.kubeconfig, context=self.context)


def cluster(ctx: typer.Context, namespace: str | None, context: str | None, kubeconfig: str | None) -> Cluster:
    """What the options say, those after the command's name first."""
    given = ctx.find_object(Cluster) or Cluster()
    return Cluster(
        namespace or given.namespace,
        context or given.context,
        kubeconfig or given.kubeconfig,
    )


def complete_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of MiniClusters, for the shell to complete; none where the cluster does not answer at once."""
    from kueue_flux.client.errors import ClientError

    where = cluster(ctx, *(ctx.params.get(option) for option in ("namespace", "context", "kubeconfig")))

    async def names() -> list[str]:
        async with asyncio.timeout(COMPLETION_SECONDS), where.client() as client:
            return [obj["metadata"]["name"] for obj in await client.list()]

    try:
        return [name for name in asyncio.run(names()) if name.startswith(incomplete)]
    except (ClientError, TimeoutError):
        return []  # an error has no place in the middle of a command line
