"""Errors of the dev cluster: each says what went wrong and what to do about it."""

from collections.abc import Sequence


class DevClusterError(Exception):
    """Something the dev cluster needs is missing or did not work.

    Args:
        message: what went wrong, in words.
        remedy: what the user can do, best as a command to type; empty where nothing is known.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message}\n{remedy}" if remedy else message)
        self.message = message
        self.remedy = remedy


class CommandFailed(DevClusterError):
    """A command ended with a status other than 0.

    Args:
        argv: the command.
        status: its exit status.
        output: the end of what it printed.
    """

    def __init__(self, argv: Sequence[str], status: int, output: str) -> None:
        super().__init__(f"`{' '.join(argv)}` ended with status {status}", output.strip())
        self.argv = list(argv)
        self.status = status
        self.output = output
