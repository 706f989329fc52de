"""What all containers have in common: the one that runs Flux, sidecars and services."""

import re
from collections.abc import Mapping
from typing import Any

from kueue_flux.api.container import MiniClusterContainer
from kueue_flux.manifests.volumes import mounts


def container(user: MiniClusterContainer, name: str, values: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Build a container as its user describes it, but for what it runs.

    Args:
        user: What the user says of it.
        name: Its name.
        values: More environment variables, which win over the user's.
    """
    built: dict[str, Any] = {
        "name": name,
        "image": user.image,
        "imagePullPolicy": user.image_pull_policy or ("Always" if user.pull_always else "IfNotPresent"),
    }
    optional = {
        "env": _environment(user, values or {}),
        "volumeMounts": mounts(user),
        "ports": [{"containerPort": port} for port in user.ports],
        "workingDir": user.working_dir,
        "resources": user.resources,
        "securityContext": user.security_context,
        "lifecycle": _life_cycle(user),
    }
    return {**built, **{key: value for key, value in optional.items() if value}}


def literal(word: str) -> str:
    """Keep a kubelet from expanding `$(VAR)` in an argument (Kubernetes: Container.args)."""
    return word.replace("$", "$$")


def _environment(user: MiniClusterContainer, values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        *({"name": name, "value": literal(value)} for name, value in sorted({**user.environment, **values}.items())),
        *(
            {"name": name, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}
            for name, secret in sorted(user.secrets.items())
        ),
    ]


def _life_cycle(user: MiniClusterContainer) -> dict[str, Any]:
    texts = {"postStart": user.life_cycle.post_start_exec, "preStop": user.life_cycle.pre_stop_exec}
    return {moment: {"exec": {"command": _hook(text)}} for moment, text in texts.items() if text}


def _hook(text: str) -> list[str]:
    # A kubelet runs it in the container, as it is: a program's path needs no shell, which an image may not have.
    return [text] if re.fullmatch(r"[\w@%+=:,./-]+", text) else ["/bin/sh", "-c", text]
