"""The scripts with which each container of a MiniCluster boots its Flux broker and runs what it is for.

They are the same text for every MiniCluster: what differs between them reaches them as arguments, files and
environment (names in `layout`), so that nothing a user writes ever becomes shell text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from kueue_flux.flux import layout

WORKER_LOST: Final = 113
"""Exit code of a worker whose broker failed, so that the Job can tell it from the command's own failure."""

NEVER_STARTED: Final = (2, 128)
"""Exit codes of a container that never came to run its command: runc's init got a SIGTERM, as Go programs end then; or
the container could not be started (Kubernetes: StartError)."""

KILLED: Final = (*NEVER_STARTED, 137, 143)
"""Exit codes of a container that was ended from outside: those, and SIGKILL and SIGTERM."""

RESERVED: Final = (WORKER_LOST, *KILLED)
"""Exit codes that mean something else to the Job: the lead's container exits 1 for a command that ends with one."""

# The interpreter that commands.script gets, and then the script: bash, which users of the Flux Operator had, or sh.
_INTERPRETED: Final = ("/bin/sh", "-c", 'exec "$(command -v bash || echo /bin/sh)" "$0"')


def scripts() -> dict[str, str]:
    """The scripts by file name, POSIX sh, the same for every MiniCluster."""
    folder = files(__package__) / "scripts"
    return {name: (folder / name).read_text(encoding="utf-8") for name in layout.SCRIPT_FILES}


@dataclass(frozen=True)
class Arguments:
    """What start.sh is called with.

    Args:
        words: Its arguments.
        counts_at: After how many of them the options for nodes and tasks come, which an admission decides; None for
            nowhere.
    """

    words: tuple[str, ...] = ()
    counts_at: int | None = None


def run_arguments(
    command: Sequence[str],
    *,
    prefix: Sequence[str] = (),
    submit: Sequence[str] = (),
    options: Sequence[str] = (),
    quiet: bool = False,
    debug: bool = False,
) -> Arguments:
    """Arguments for a command that is run as one job.

    Args:
        command: Its words.
        prefix: Words before those that submit.
        submit: Words that submit and wait; empty for `flux run`.
        options: Options of these.
        quiet: Leave before the job's end is commented on.
        debug: Be verbose.
    """
    before = (*prefix, *(submit or ("flux", "run")))
    flags = [*(["-vvv"] if debug else [])]
    if submit:
        flags += ["--quiet", "--watch"] if submit[-1] == "submit" else []
    elif quiet:
        flags += ["--wait-event=start"]
    return Arguments((*before, *flags, *options, "--", *command), len(before))


def batch_arguments(*, prefix: Sequence[str] = (), options: Sequence[str] = ()) -> Arguments:
    """Arguments for a batch, whose lines stand in a file.

    Args:
        prefix: Words before those that submit.
        options: Options of `flux batch`.
    """
    before = (*prefix, "/bin/sh", f"{layout.CONFIG_DIR}/batch.sh", "submit")
    return Arguments((*before, *options), len(before))


def restful_arguments(options: Sequence[str] = ()) -> Arguments:
    """Arguments for the RESTful API server.

    Args:
        options: Job shell options of every job, `-o NAME=VALUE`.
    """
    return Arguments(("flux", "python", f"{layout.CONFIG_DIR}/{layout.RESTFUL_DIRECTORY}", *options))


def script_command() -> tuple[str, ...]:
    """The words of a command that runs commands.script."""
    return (*_INTERPRETED, f"{layout.CONFIG_DIR}/{layout.COMMAND_SCRIPT_FILE}")
