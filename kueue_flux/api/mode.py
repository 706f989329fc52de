"""The ways in which a Flux instance is used, each with a life of its own."""

from enum import StrEnum


class Mode(StrEnum):
    """What the lead does once all brokers are up; start.sh is told by this name."""

    RUN = "run"
    """One command as one job; its end is the MiniCluster's."""
    LAUNCHER = "launcher"
    """One command that starts its jobs itself; its end is the MiniCluster's."""
    BATCH = "batch"
    """Several commands, or a script, as one batch job; its end is the MiniCluster's."""
    INTERACTIVE = "interactive"
    """Nothing by itself: people and programs use the instance until it is stopped."""
    RESTFUL = "restful"
    """A server through which people and programs use the instance until it is stopped."""

    @property
    def is_persistent(self) -> bool:
        """Whether the instance stays until somebody stops it."""
        return self in (Mode.INTERACTIVE, Mode.RESTFUL)
