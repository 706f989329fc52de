"""The specification that a Job was made from, kept with the Job: what runs is that, whatever is edited later.

A MiniCluster's specification can be edited at any time, also into one that cannot be run. Its Job does not follow,
so its end, its files and the sizes of its next admission are still those of the first specification.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from kueue_flux.api import record
from kueue_flux.runtime.resource import Object

MADE_FROM = "flux-framework.org/made-from"
"""The annotation on the Job: JSON `{"generation": of the MiniCluster, "spec": its specification}`."""

# May be changed at any time, and counts at once.
FREE = ("ttlSecondsAfterFinished", "cleanup")


# The one secret that a specification may hold: {"flux": {"curveCert": TEXT}}. Who may read Jobs may not read Secrets.
_FLUX, _CERTIFICATE = "flux", "curveCert"


def annotation(obj: Object) -> str:
    """What to write on the Job that is made from a MiniCluster."""
    return record.written({"generation": obj["metadata"].get("generation", 0), "spec": _kept(obj["spec"])})


def specification(obj: Object, job: Object | None) -> dict[str, Any]:
    """The specification that counts for a MiniCluster: that of its Job, where there is one."""
    spec: dict[str, Any] = obj["spec"]
    made_from = _read(job)
    if made_from is None:
        return spec
    kept = {**made_from["spec"], **{key: spec[key] for key in FREE if key in spec}}
    return _with_certificate(kept, (spec.get(_FLUX) or {}).get(_CERTIFICATE, ""))


def is_changed(obj: Object, job: Object) -> bool:
    """Whether the specification was edited after the Job was made from it.

    The generation alone counts a changed time to live, the specification alone new defaults of a newer CRD.
    """
    made_from = _read(job)
    if made_from is None or made_from["generation"] == obj["metadata"].get("generation", 0):
        return False
    return bool(made_from["spec"] != _kept(obj["spec"]))


def _kept(spec: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key not in FREE}
    if certificate := (kept.get(_FLUX) or {}).get(_CERTIFICATE):
        kept[_FLUX] = {**kept[_FLUX], _CERTIFICATE: _digest(certificate)}
    return kept


def _with_certificate(kept: dict[str, Any], certificate: str) -> dict[str, Any]:
    """Put the certificate back in place of its digest; one that was changed is gone, and a new one takes its place."""
    flux = kept.get(_FLUX) or {}
    if not flux.get(_CERTIFICATE):
        return kept
    without = {key: value for key, value in flux.items() if key != _CERTIFICATE}
    same = _digest(certificate) == flux[_CERTIFICATE]
    return {**kept, _FLUX: {**without, _CERTIFICATE: certificate} if same else without}


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _read(job: Object | None) -> dict[str, Any] | None:
    text = job["metadata"].get("annotations", {}).get(MADE_FROM) if job else None
    try:
        found = json.loads(text or "null")
    except ValueError:
        found = None  # somebody's edit: the MiniCluster itself is the next best
    is_ours = isinstance(found, dict) and isinstance(found.get("spec"), dict) and "generation" in found
    return found if is_ours else None
