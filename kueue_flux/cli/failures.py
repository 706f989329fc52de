"""How the command ends when something goes wrong: what it prints, and with which exit code."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer

from kueue_flux.cli.terminal import complain, say

if TYPE_CHECKING:
    from kueue_flux.api.problems import Problem
    from kueue_flux.client.errors import ClientError, Rejected
    from kueue_flux.client.status import Result

P = ParamSpec("P")
T = TypeVar("T")

FAILED = 1
MISUSED = 2
TIMED_OUT = 124  # as timeout(1)
INTERRUPTED = 130  # 128 + SIGINT


class InputError(Exception):
    """What the user typed cannot be used.

    Attributes:
        remedy: What to do about it, or an empty string.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def exit_code(result: Result) -> int:
    """The command's exit code as ours; 1 where it failed without one, 0 where only a condition was waited for."""
    if result.exit_code is not None:
        return result.exit_code
    return FAILED if result.succeeded is False else 0


def run(coroutine: Coroutine[Any, Any, T], going_on: Sequence[str] = ()) -> T:
    """Run a command's work; its errors become messages and exit codes.

    Args:
        coroutine: The work.
        going_on: Targets of MiniClusters that go on when the waiting ends early; may change while the work runs.

    Raises:
        typer.Exit: Something went wrong, and was reported.
    """
    # kr8s, which raises them, is loaded by the work itself.
    from kueue_flux.client.errors import ClientError, Unanswered, WaitTimeout

    try:
        return asyncio.run(coroutine)
    except KeyboardInterrupt:
        say("")
        _still_there(going_on)
        raise typer.Exit(INTERRUPTED) from None
    except Unanswered as error:
        report(error)
        raise typer.Exit(TIMED_OUT) from error
    except WaitTimeout as error:
        complain(error.message, error.remedy)
        _still_there(going_on)
        raise typer.Exit(TIMED_OUT) from error
    except InputError as error:
        complain(error.message, error.remedy)
        raise typer.Exit(MISUSED) from error
    except ClientError as error:
        report(error)
        raise typer.Exit(FAILED) from error


def usage(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Read what the user typed; where it cannot be used, say so.

    Raises:
        typer.Exit: It cannot be used, and that was reported.
    """
    try:
        return read(*args, **kwargs)
    except InputError as error:
        complain(error.message, error.remedy)
        raise typer.Exit(MISUSED) from error


def report(error: ClientError) -> None:
    """Print an error of the client, with all that is known to help."""
    from kueue_flux.client import errors

    complain(error.message, error.remedy)
    if isinstance(error, errors.Rejected):
        _causes(error)
    if isinstance(error, errors.NoCluster | errors.Unreachable | errors.Unanswered):
        _dev_clusters()


def invalid(problems: Sequence[Problem], what: str) -> None:
    """Print all that is wrong with a MiniCluster, one after the other."""
    complain(f"{what} cannot be run: {len(problems)} problem{'s' if len(problems) > 1 else ''}")
    for problem in problems:
        say(f"  {problem.field}: {problem.message}")
        say(f"    {problem.remedy}")


def _causes(error: Rejected) -> None:
    for field, message in error.problems:
        say(f"  {field}: {message}")


def _dev_clusters() -> None:
    from kueue_flux.devcluster.paths import state_root

    for kubeconfig in sorted(state_root().glob("*/kubeconfig")):
        say(f"  dev cluster {kubeconfig.parent.name}: export KUBECONFIG={shlex.quote(str(kubeconfig))}")


def _still_there(targets: Sequence[str]) -> None:
    for words in targets:
        say(f"MiniCluster {words.split()[0]} goes on")
        say(f"  watch it: kueue-flux wait {words}")
        say(f"  end it: kueue-flux delete {words}")
