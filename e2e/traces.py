"""What a cluster of the profile kind, or the machine's engine, has on the machine: to be compared before and after."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterable
from pathlib import Path

from kueue_flux.devcluster import engine, kind, packages, paths, process

Found = dict[str, list[str]]
"""What was found, one line each, by kind of thing."""


def names_of(name: str) -> list[str]:
    """What the things of a cluster are called that nothing else on this machine is: ids, interfaces, ports.

    Args:
        name: the cluster's name; its nodes must run.
    """
    docker, network = engine.docker(), kind.network(name)
    bridge = kind.bridge(name)
    names = [bridge, json.loads(process.output([docker, "network", "inspect", network]))[0]["Id"]]
    names += re.findall(r"veth\w+", "\n".join(_printed("ip", "-o", "link", "show", "master", bridge)))
    for node in json.loads(process.output([docker, "inspect", *kind.nodes(name)])):
        names += [node["Id"], Path(node["NetworkSettings"]["SandboxKey"]).name]
        layers = (node.get("GraphDriver") or {}).get("Data") or {}
        names += [Path(layers["MergedDir"]).parent.name] if "MergedDir" in layers else []
        names += [mount["Name"] for mount in node["Mounts"] if mount["Type"] == "volume"]
        for port in (p for ports in node["NetworkSettings"]["Ports"].values() for p in ports or ()):
            names += [f"-host-port {port['HostPort']}", f"--dport {port['HostPort']}"]
    return names


def of_cluster(name: str, names: Iterable[str]) -> Found:
    """What is on the machine of one cluster, whatever others there are.

    Args:
        name: the cluster's name.
        names: what `names_of` returned while it was up.
    """
    pattern = re.compile("|".join(rf"(?<![\w.]){re.escape(each)}(?!\w)" for each in names))
    lines = {
        "containers": _listed("ps", "--all", "--no-trunc"),
        "networks": _listed("network", "ls", "--no-trunc"),
        "volumes": _listed("volume", "ls"),
        "processes": _processes(),
        "mounts": _mounts(),
        "links": _printed("ip", "-o", "link"),
        "rules": _rules(),
        "cgroups": [folder for folder, _, _ in os.walk("/sys/fs/cgroup")],
    }
    state = paths.state_root() / name
    return {what: [line for line in all_ if pattern.search(line)] for what, all_ in lines.items()} | {
        "state": [str(path) for path in (state, *state.glob("*")) if path.exists()]
    }


def of_machine() -> Found:
    """All that an engine or a cluster could have added to a machine that has nothing else to do."""
    return {
        "processes": [line for line in _processes() if line.split()[0] not in ("1", str(os.getpid()))],
        "mounts": _mounts(),
        "links": sorted(name for _, name in socket.if_nameindex()),
        "rules": _rules(),
        "forwarding": [Path("/proc/sys/net/ipv4/ip_forward").read_text()],
        "run": sorted(map(str, Path("/run").rglob("*"))),
        "state": sorted(map(str, paths.state_root().rglob("*"))),
    }


def _listed(*words: str) -> list[str]:
    """What the engine lists; nothing where none answers any more."""
    return process.output([engine.docker(), *words]).splitlines() if engine.answers() else []


def _printed(program: str, *words: str) -> list[str]:
    path = packages.find(program)
    return process.output([path, *words]).splitlines() if path else []


def _rules() -> list[str]:
    """Firewall rules, and chains that are not built in; to be seen by root alone."""
    if os.geteuid() != 0:
        return []
    lines = [line for family in ("iptables", "ip6tables") for line in _printed(f"{family}-save")]
    return [line for line in lines if line.startswith("-A") or re.match(r":\S+ (?!ACCEPT)", line)]


def _mounts() -> list[str]:
    # without the ids, which change
    return [line.split(maxsplit=3)[3] for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def _processes() -> list[str]:
    """Each process with its command line and its cgroups, which name the container that it is in."""
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
            cgroups = {line.split(":", 2)[2] for line in (folder / "cgroup").read_text().splitlines()}
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        if command:  # else it is the kernel's, or has ended and its parent has not looked yet
            lines.append(" ".join([folder.name, command, *sorted(cgroups)]))
    return lines
