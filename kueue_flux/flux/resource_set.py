"""The resource set R (RFC 20) that tells Flux what it may use, so that no pod has to discover it.

The adapter knows the hosts, and the cores and GPUs that were admitted. Written once, R saves running `flux R encode`
in each pod, and keeps Flux to the quota rather than to the node's whole hardware.
"""

from collections.abc import Sequence
from typing import Any

from kueue_flux.api import hostlist


def resource_set(hosts: Sequence[str], cores: int, gpus: int = 0) -> dict[str, Any]:
    """Describe equal hosts as a resource set, one broker rank each.

    Args:
        hosts: Host names in rank order, at least one, all different.
        cores: Cores of each host, at least 1.
        gpus: GPUs of each host.

    Returns:
        R version 1 as a JSON-ready dict, valid without limit in time.

    Raises:
        ValueError: No hosts, a host named twice, fewer than one core, or fewer GPUs than none.

    Source: RFC 20, "Resource Set Specification Version 1"; the idsets are RFC 22.
    """
    if not hosts:
        raise ValueError("a resource set needs at least one host")
    if len(set(hosts)) != len(hosts):
        raise ValueError("a resource set names each host once")
    if cores < 1:
        raise ValueError(f"a host needs at least one core, not {cores}")
    if gpus < 0:
        raise ValueError(f"a host cannot have {gpus} GPUs")
    children = {"core": _idset(cores), **({"gpu": _idset(gpus)} if gpus else {})}
    return {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": _idset(len(hosts)), "children": children}],
            "starttime": 0,
            "expiration": 0,
            "nodelist": [hostlist.encode(hosts)],
        },
    }


def _idset(count: int) -> str:
    """The ids 0 .. count - 1 as an RFC 22 idset."""
    return "0" if count == 1 else f"0-{count - 1}"
