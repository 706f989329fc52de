"""Where the dev cluster keeps things: what can be made again in the cache, what `down` needs in the state."""

import os
from pathlib import Path


def _base(variable: str, default: str) -> Path:
    value = os.environ.get(variable, "")
    # the XDG base directory specification: a relative path is to be ignored
    return Path(value) if value.startswith("/") else Path.home() / default


def cache_dir() -> Path:
    """The folder of all that can be rebuilt: `$XDG_CACHE_HOME/kueue-flux` (XDG base directory spec)."""
    path = _base("XDG_CACHE_HOME", ".cache") / "kueue-flux"
    path.mkdir(parents=True, exist_ok=True)
    return path


def state_root() -> Path:
    """The folder that holds one state folder for each cluster: `$XDG_STATE_HOME/kueue-flux`."""
    return _base("XDG_STATE_HOME", ".local/state") / "kueue-flux"


def state_dir(name: str) -> Path:
    """The state folder of one cluster, made where it is missing, readable by its owner alone (it holds keys).

    Args:
        name: the cluster's name.
    """
    path = state_root() / name
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def kubeconfig(name: str) -> Path:
    """Where the kubeconfig of a cluster is written.

    Args:
        name: the cluster's name.
    """
    return state_root() / name / "kubeconfig"


def packaged(name: str) -> Path:
    """A file that ships with the package.

    Args:
        name: its path under `kueue_flux/devcluster/files/`.
    """
    return Path(__file__).parent / "files" / name
