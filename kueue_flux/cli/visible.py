"""Text of others on a terminal: what would steer the terminal is shown in place of being obeyed."""

from __future__ import annotations

import re

# Control characters (C0, DEL, C1) but for tab and line feed; line separators; and what reverses the direction of text.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Replace control characters by what one types for them in a program, such as `\x1b` for escape."""
    return _STEERING.sub(lambda found: ascii(found[0])[1:-1], text)
