"""What the lead says about its end, and how to read it: an exit code alone does not tell whose failure it was.

`start.sh` writes these lines to the container's termination log, from where Kubernetes copies them into the
container's status (`state.terminated.message`):

    exit-code=127
    reason=CommandNotFound
    note=

`exit-code` is the command's own, also where the container's differs because that code has a meaning of its own in
the Job (see `script.RESERVED`). `reason` is one of `Reason`, and `note` has more words where there is more to say.
A worker that is lost, or that fails by itself, writes them too.
"""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Whose doing the end was."""

    COMMAND_SUCCEEDED = "CommandSucceeded"
    COMMAND_FAILED = "CommandFailed"
    COMMAND_NOT_FOUND = "CommandNotFound"
    COMMAND_NOT_EXECUTABLE = "CommandNotExecutable"
    COMMAND_SIGNALED = "CommandSignaled"
    """A signal ended the command; the exit code is 128 + the signal."""
    BATCH_FAILED = "BatchFailed"
    """A line of the batch failed; the exit code is that of the first one that did, and the note names them."""
    STOPPED = "Stopped"
    """Somebody ended the instance: `kueue-flux stop`, or `flux shutdown`."""
    PRE_FAILED = "PreFailed"
    """commands.init, pre, brokerPre or workerPre failed, on this pod; the note names it."""
    POST_FAILED = "PostFailed"
    """commands.post failed after a command that succeeded, and logging.strict is true."""
    JOB_REJECTED = "JobRejected"
    """`flux run` did not take the job: an option that it does not know, or more resources than there are."""
    TERMINATED = "Terminated"
    """The container was asked to stop (SIGTERM) before the command ended."""
    FLUX_NOT_FOUND = "FluxNotFound"
    """There is no `flux` in the image, nor in the view."""
    FLUX_FAILED = "FluxFailed"
    """The broker failed before the command began or apart from it."""
    WORKER_LOST = "WorkerLost"
    """A broker on which the command ran went away."""
    OUT_OF_MEMORY = "OutOfMemory"
    """The container had more memory than it may. Kubernetes says so: who is killed writes nothing."""
    KILLED = "Killed"
    """The container was killed (SIGKILL) and could write nothing."""


@dataclass(frozen=True, slots=True)
class Termination:
    """The end of a Flux instance.

    Args:
        exit_code: The command's exit code, 0-255.
        reason: Whose doing it was; None where the text names none that is known.
        note: More words; empty where there is no more to say.
    """

    exit_code: int
    reason: Reason | None
    note: str = ""


def parse_termination(text: str) -> Termination | None:
    """Read a termination log.

    Args:
        text: The termination log, `key=value` lines; unknown keys are passed over.

    Returns:
        The end that it tells of; None where it has no exit code in 0-255: start.sh did not get to write it, or
        something else wrote there.
    """
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    code = values.get("exit-code", "").strip()
    if not (code.isascii() and code.isdigit() and int(code) <= 255):
        return None
    reason = values.get("reason", "").strip()
    return Termination(int(code), Reason(reason) if reason in set(Reason) else None, values.get("note", "").strip())
