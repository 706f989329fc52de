"""Where Flux comes from when the application's image has none: a view image, copied or mounted.

Three ways, by `spec.flux.container`: `disable: true` (Flux is in the application's image), the default
(an init container copies the view, as the Flux Operator does), and `imageVolume: true` (the view image
is mounted read-only as an `image` volume, with nothing to copy; Kubernetes 1.35 or later).
"""

from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.flux import layout
from kueue_flux.manifests.container import literal

VOLUME = "flux-view"
# Spack's views refer to packages by this path, so it must exist in the application's container too.
SPACK_SOFTWARE = "/opt/software"


@dataclass(frozen=True)
class View:
    """What the pod needs for the view; all empty when Flux is in the application's image."""

    volumes: list[dict[str, Any]] = field(default_factory=list)
    mounts: list[dict[str, Any]] = field(default_factory=list)
    init_containers: list[dict[str, Any]] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)


def view(mc: MiniCluster) -> View:
    """The volumes, mounts, init container and environment that bring Flux into the container that runs it."""
    source = mc.spec.flux.container
    if source.disable:
        return View()
    pull = "Always" if source.pull_always else "IfNotPresent"
    if source.image_volume:
        return View(
            volumes=[{"name": VOLUME, "image": {"reference": source.image, "pullPolicy": pull}}],
            mounts=[{"name": VOLUME, "mountPath": source.mount_path, "readOnly": True}],
            env={layout.ENV_VIEW: f"{source.mount_path}/opt/view"},
        )
    copy: dict[str, Any] = {
        "name": source.name,
        "image": source.image,
        "imagePullPolicy": pull,
        "command": ["/bin/sh", "-c", _file("copy-view.sh"), "copy-view", source.mount_path],
        "args": [literal(f"{use_view()}export fluxsocket={layout.LOCAL_URI}\n")],
        "volumeMounts": [{"name": VOLUME, "mountPath": source.mount_path}],
    }
    optional = {
        "workingDir": source.working_dir,
        "resources": source.resources,
        "securityContext": source.security_context,
    }
    copy.update({key: value for key, value in optional.items() if value})
    return View(
        volumes=[{"name": VOLUME, "emptyDir": {}}],
        mounts=[
            {"name": VOLUME, "mountPath": source.mount_path},
            {"name": VOLUME, "mountPath": SPACK_SOFTWARE, "subPath": "software"},
        ],
        init_containers=[copy],
        env={layout.ENV_VIEW: f"{source.mount_path}/view"},
    )


def use_view() -> str:
    """Shell text that lets the `flux` of the view at $view be found."""
    return _file("flux-view.sh")


def _file(name: str) -> str:
    return files("kueue_flux.manifests").joinpath(f"files/{name}").read_text(encoding="utf-8")
