"""The script with which each container of a MiniCluster boots its Flux broker.

It is one text for every MiniCluster: what differs between them reaches it as argv, files and environment (names
in `layout`), so that nothing a user writes ever becomes shell text.
"""

from importlib.resources import files
from typing import Final

from kueue_flux.flux import layout

WORKER_LOST: Final = 113
"""Exit code of a worker whose broker failed, so that the Job can tell it from the command's own failure."""

RESERVED: Final = frozenset({WORKER_LOST, 137, 143})
"""Exit codes that mean something else to the Job: the lead's container exits 1 for a command that ends with one."""


def start_script() -> str:
    """The text of `start.sh`, POSIX sh, the same for every MiniCluster."""
    return files(__package__).joinpath(layout.START_FILE).read_text(encoding="utf-8")
