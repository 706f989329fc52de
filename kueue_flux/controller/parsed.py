"""The MiniClusters that are being worked on, parsed and checked: a run takes some thirty turns of the control loop,
and to check the same specification in each of them would take half of the controller's time.
"""

from collections import OrderedDict
from typing import Any

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.controller import accepted
from kueue_flux.runtime.resource import Object

KEPT = 256
"""How many are kept: those on which something happens, at 12 KB each, not all that there are."""


class Parsed:
    """Parses MiniClusters, and remembers those parsed last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Any, MiniCluster]] = OrderedDict()

    def get(self, obj: Object, job: Object | None = None) -> MiniCluster:
        """The MiniCluster that an object describes, with the specification that its Job was made from.

        Only its name, uid, generation, labels, Kueue's annotations and spec are sure to be up to date.

        Args:
            obj: The MiniCluster.
            job: Its Job; None where there is none yet.

        Raises:
            InvalidMiniCluster: It cannot be run.
        """
        meta = accepted.metadata(obj, job)
        job_uid = job["metadata"]["uid"] if job else None
        made_of = (meta.get("generation"), meta.get("labels"), meta.get("annotations"), job_uid)
        kept = self._kept.get(meta["uid"])
        if kept is not None and kept[0] == made_of:
            self._kept.move_to_end(meta["uid"])
            return kept[1]
        mc = MiniCluster.from_object({"metadata": meta, "spec": accepted.specification(obj, job)})
        self._kept[meta["uid"]] = (made_of, mc)
        self._kept.move_to_end(meta["uid"])
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return mc
