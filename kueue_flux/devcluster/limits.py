"""The kernel's inotify limit, which a machine with several nodes on it reaches.

Every kubelet, systemd and controller watches files: about 18 instances for a node and 6 for a control plane, of
128 that Linux gives root's processes together. What comes last then fails with "too many open files"
(kind.sigs.k8s.io, known issues).
"""

import os
from pathlib import Path

from kueue_flux.devcluster import paths

_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
_ENOUGH = 1024


def raise_limits() -> None:
    """Raise the limit where it is low, and remember what it was; does nothing without root."""
    if os.geteuid() != 0 or not _INSTANCES.exists():
        return
    before = int(_INSTANCES.read_text())
    if before < _ENOUGH:
        file = _file()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.write_text(str(before))
        _INSTANCES.write_text(str(_ENOUGH))


def restore_limits() -> None:
    """Set the limit back to what `raise_limits` found."""
    file = _file()
    if file.exists():
        _INSTANCES.write_text(file.read_text())
        file.unlink()


def _file() -> Path:
    return paths.state_root() / "inotify-instances"
