"""The specification that a Job was made from, kept with the Job: what runs is that, whatever is edited later.

A MiniCluster's specification can be edited at any time, also into one that cannot be run. Its Job does not follow,
so its end, its files and the sizes of its next admission are still those of the first specification. Kueue's
annotations on the MiniCluster count as part of it. Its queue and its priority class do not: see `changes`.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from kueue_flux.api import kueue_keys, labels, record
from kueue_flux.runtime.resource import Object

MADE_FROM = "flux-framework.org/made-from"
"""The annotation on the Job: JSON `{"generation": of the MiniCluster, "spec": its specification, "annotations": of
Kueue's on the MiniCluster, where it has any}`."""

# May be changed at any time, and counts at once.
FREE = ("ttlSecondsAfterFinished", "cleanup")
# Of the labels, what the Job follows as far as Kueue lets it.
FOLLOWED = (labels.QUEUE, labels.PRIORITY_CLASS)
_LABELS = "jobLabels"

# The one secret that a specification may hold: {"flux": {"curveCert": TEXT}}. Who may read Jobs may not read Secrets.
_FLUX, _CERTIFICATE = "flux", "curveCert"


def annotation(obj: Object) -> str:
    """What to write on the Job that is made from a MiniCluster."""
    made_from = {"generation": obj["metadata"].get("generation", 0), "spec": _kept(obj["spec"])}
    annotations = _annotations(obj)
    return record.written({**made_from, "annotations": annotations} if annotations else made_from)


def specification(obj: Object, job: Object | None) -> dict[str, Any]:
    """The specification that counts for a MiniCluster: that of its Job, where there is one."""
    spec: dict[str, Any] = obj["spec"]
    made_from = _read(job)
    if made_from is None:
        return spec
    kept = {**_without_followed(made_from["spec"]), **{key: spec[key] for key in FREE if key in spec}}
    given = spec.get(_LABELS) or {}
    if followed := {key: given[key] for key in FOLLOWED if key in given}:
        kept[_LABELS] = {**kept.get(_LABELS, {}), **followed}
    return _with_certificate(kept, (spec.get(_FLUX) or {}).get(_CERTIFICATE, ""))


def metadata(obj: Object, job: Object | None) -> dict[str, Any]:
    """The metadata that counts for a MiniCluster: its own, with those of Kueue's annotations that its Job has."""
    made_from = _read(job)
    if made_from is None:
        return dict(obj["metadata"])
    return {**obj["metadata"], "annotations": made_from.get("annotations", {})}


def as_made(obj: Object, job: Object) -> Object:
    """A MiniCluster as it was when its Job was made, whatever its labels were changed into since."""
    spec = _without_followed(specification(obj, job))
    of_job = job["metadata"].get("labels", {})
    kept = {key: of_job[key] for key in labels.READ_FROM_USERS if key in of_job}
    return {"metadata": {**metadata(obj, job), "labels": kept}, "spec": spec}


def is_changed(obj: Object, job: Object) -> bool:
    """Whether the specification was edited after the Job was made from it.

    The generation alone counts a changed time to live, the specification alone new defaults of a newer CRD.
    """
    made_from = _read(job)
    if made_from is None or made_from["generation"] == obj["metadata"].get("generation", 0):
        return False
    return bool(_without_followed(made_from["spec"]) != _kept(obj["spec"]))


def changed_annotations(obj: Object, job: Object) -> list[str]:
    """Which of Kueue's annotations were edited after the Job was made; they count in no generation."""
    made_from = _read(job)
    if made_from is None:
        return []
    then, now = made_from.get("annotations", {}), _annotations(obj)
    return sorted(key for key in {*then, *now} if then.get(key) != now.get(key))


def _annotations(obj: Object) -> dict[str, str]:
    given = obj["metadata"].get("annotations") or {}
    return {key: value for key, value in given.items() if kueue_keys.is_kueues(key)}


def _without_followed(spec: Mapping[str, Any]) -> dict[str, Any]:
    left = {key: value for key, value in (spec.get(_LABELS) or {}).items() if key not in FOLLOWED}
    return {**{key: value for key, value in spec.items() if key != _LABELS}, **({_LABELS: left} if left else {})}


def _kept(spec: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in _without_followed(spec).items() if key not in FREE}
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
    is_ours = is_ours and isinstance(found.get("annotations", {}), dict)
    return found if is_ours else None
