"""Names for MiniClusters that were given none."""

from __future__ import annotations

import re
import secrets

# As Kubernetes' own generated names: no vowels, so no words; nothing that looks like something else.
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_HOSTNAME_LENGTH = 63
# Long enough to know it again, short enough for a table.
_STEM_LENGTH = 40


def generated_name(stem: str, size: int) -> str:
    """Make a name from what is like it and a suffix, short enough for host names `<name>-<index>`.

    Args:
        stem: A command's first word, of which the last part of its path counts, or `metadata.generateName`.
        size: Nodes asked for.
    """
    index = len(str(max(size - 1, 0)))
    room = _HOSTNAME_LENGTH - 1 - index - 1 - _SUFFIX_LENGTH
    stem = re.sub(r"[^a-z0-9]+", "-", stem.rsplit("/", 1)[-1].lower()).lstrip("-0123456789")
    stem = stem[: min(room, _STEM_LENGTH)].rstrip("-") or "minicluster"
    suffix = "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))
    return f"{stem}-{suffix}"
