"""An application's image without Flux: what a MiniCluster's view is for, and tried with."""

from kueue_flux.devcluster.images import debian, store
from kueue_flux.devcluster.images.archive import Image
from kueue_flux.devcluster.progress import Progress


def app_image(progress: Progress) -> str:
    """The packages that Debian calls essential, and no more: no Python, no Flux, no library that Flux needs.

    Args:
        progress: told what is done.

    Returns:
        Its reference in the engine.
    """
    labels = {"org.opencontainers.image.title": "a bare Debian"}
    return store.load("app", Image((debian.base(progress),), command=("/bin/bash",), labels=labels), progress)
