"""Nothing of a node leaves the machine: what a cluster's bridge would forward elsewhere is rejected.

A node has reasons to send packets out that nobody wants: until kube-proxy has its rules a Service address goes to
the default gateway, and a node asks the world's DNS for names of its own. Docker asks the chain DOCKER-USER before
its own rules (docs.docker.com, packet filtering and firewalls); the rule there names this cluster's bridge alone.
"""

import os

from kueue_flux.devcluster import packages, process

_CHAIN = "DOCKER-USER"


def possible() -> bool:
    """Whether rules can be set here: as root, with an engine on this machine that uses iptables."""
    return os.geteuid() == 0 and packages.find("iptables") is not None and process.works(_command("-L"))


def block(bridge: str) -> None:
    """Reject what a bridge forwards to any other interface.

    Args:
        bridge: the interface of the cluster's network.

    Raises:
        CommandFailed: iptables refuses.
    """
    if not active(bridge):
        process.output([*_command("-I"), *_rule(bridge)])


def unblock(bridge: str) -> None:
    """Take the rule away.

    Args:
        bridge: the interface of the cluster's network.
    """
    while active(bridge):
        process.output([*_command("-D"), *_rule(bridge)])


def active(bridge: str) -> bool:
    """Whether the rule is there.

    Args:
        bridge: the interface of the cluster's network.
    """
    return process.works([*_command("-C"), *_rule(bridge)])


def _command(what: str) -> list[str]:
    return [str(packages.find("iptables")), "-w", what, _CHAIN]


def _rule(bridge: str) -> list[str]:
    return ["-i", bridge, "!", "-o", bridge, "-j", "REJECT"]
