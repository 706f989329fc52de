"""A specification as one text, as it is kept on the Job that is made from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kueue_flux.api.problems import Problem

MAX_BYTES = 248 * 1024
"""Of a specification as text. The annotations of an object have 256 KiB together (Kubernetes: ObjectMeta), and there
are others."""


def written(value: Mapping[str, Any]) -> str:
    """Return a part of an object as JSON, as short as it can be, the same for the same content."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem if a specification is too long to be kept.

    Args:
        spec: as it stands in the object, its fields of the right types.
    """
    size = len(written(spec).encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        yield Problem(
            "spec",
            f"has {size} bytes as JSON, and the Job that is made from it can keep {MAX_BYTES}",
            "put long texts and data into a ConfigMap or an image, and mount that in spec.containers[].volumes",
        )
