"""The containers beside the one that runs Flux, in each of the MiniCluster's pods.

They are Kubernetes' own sidecars: init containers that are kept running. They start before Flux does, and a pod has
ended when the container that runs Flux has: a sidecar that would go on for ever does not keep the run from ending, and
one that fails does not fail it.
Source: https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
"""

from importlib.resources import files
from typing import Any

from kueue_flux.api.container import MiniClusterContainer
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.flux import layout
from kueue_flux.manifests.container import container, literal
from kueue_flux.manifests.view import use_view, view


def sidecars(mc: MiniCluster) -> list[dict[str, Any]]:
    """Build the sidecars, in the order in which the user names them."""
    return [_sidecar(mc, user) for user in mc.sidecars]


def _sidecar(mc: MiniCluster, user: MiniClusterContainer) -> dict[str, Any]:
    if not user.runs_text:
        return {**container(user, user.name), "restartPolicy": "Always"}
    built = container(user, user.name, _settings(mc, user))
    if not user.no_wrap_entrypoint:
        built["volumeMounts"] = [
            # To connect to a socket takes no more.
            {"name": "flux-run", "mountPath": layout.RUN_DIR, "readOnly": True},
            *view(mc).mounts,
            *built.get("volumeMounts", []),
        ]
    return {
        **built,
        "restartPolicy": "Always",
        "command": ["/bin/sh", "-c", literal(_script()), "sidecar"],
        "args": [literal(word) for word in _texts(mc, user)],
    }


def _settings(mc: MiniCluster, user: MiniClusterContainer) -> dict[str, str]:
    quiet = {layout.ENV_QUIET: "1"} if mc.spec.logging.quiet else {}
    if user.no_wrap_entrypoint:
        return quiet
    # `fluxsocket` is what the Flux Operator calls it; FLUX_URI is what makes `flux` commands find the broker.
    return {"fluxsocket": layout.LOCAL_URI, "FLUX_URI": layout.LOCAL_URI, **user.environment, **view(mc).env, **quiet}


def _texts(mc: MiniCluster, user: MiniClusterContainer) -> list[str]:
    commands = user.commands
    if user.no_wrap_entrypoint:
        return ["", "", user.command, ""]
    waits_for = "" if mc.spec.flux.no_wait_socket else layout.READY
    main = [commands.pre, commands.service_pre, user.command or commands.script]
    return [commands.init, waits_for, "\n".join(text for text in main if text), commands.post]


def _script() -> str:
    return f"use_view() {{\n{use_view()}}}\n{files('kueue_flux.manifests').joinpath('files/sidecar.sh').read_text()}"
