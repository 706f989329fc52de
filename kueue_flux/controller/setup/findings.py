"""What there is to say of a FluxSetup: why it is refused, why it is not ready, what to be warned of."""

from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """How bad it is."""

    REFUSED = 0
    """It is not carried out as it stands: Accepted is False."""
    NOT_READY = 1
    """Something is missing: Ready is False."""
    WARNING = 2
    """All is done, and may not be what was meant: Ready stays True and says so."""


@dataclass(frozen=True)
class Finding:
    """One thing to say.

    Attributes:
        level: How bad it is.
        reason: One CamelCase word.
        message: In words, with the remedy.
    """

    level: Level
    reason: str
    message: str
