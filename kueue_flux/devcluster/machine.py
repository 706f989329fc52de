"""What a cluster changes on the machine that outlives its processes, so that `down` can undo it and prove it.

The engine adds firewall chains, a bridge, cgroup folders and sysctls, and takes none of them away when it
stops. A snapshot is taken before it starts; afterwards what was not there and is Docker's is removed.
"""

import os
import re
import shlex
import shutil
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kueue_flux.devcluster import packages, process

_CGROUPS = Path("/sys/fs/cgroup")
_SYSCTLS = ("net/ipv4/ip_forward", "fs/protected_regular", "fs/protected_fifos")
_FAMILIES = ("iptables", "ip6tables")
_CGROUP_ATTEMPTS = 15
_DOCKER_LINK = re.compile(r"docker0|br-[0-9a-f]{12}|veth[0-9a-f]{7}")
_RUNTIME_FOLDERS = ("/run/docker", "/run/containerd")
_OTHER_FOLDERS = ("/etc/docker", "/opt/containerd")
_PROGRAMS = {"dockerd", "containerd", "containerd-shim", "containerd-shim-runc-v2", "docker-proxy", "runc"}


@dataclass(frozen=True)
class Snapshot:
    """The state of the machine at one moment, as far as a cluster touches it.

    Args:
        rules: for each of iptables and ip6tables its rules, as iptables-save has them, each after its table.
        links: network interfaces.
        mounts: mount points that belong to Docker.
        cgroups: cgroup folders that belong to Docker or Kubernetes.
        sysctls: kernel settings that an engine or a node changes.
        processes: `pid program` of Docker's own processes and of those in its containers.
        folders: those of Docker's folders outside its data that exist.
    """

    rules: dict[str, list[str]]
    links: list[str]
    mounts: list[str]
    cgroups: list[str]
    sysctls: dict[str, str]
    processes: list[str]
    folders: list[str] = field(default_factory=list)

    @classmethod
    def take(cls) -> "Snapshot":
        """The machine as it is now."""
        return cls(
            rules={family: _rules(family) for family in _FAMILIES},
            links=_links(),
            mounts=_mounts(),
            cgroups=_docker_cgroups(),
            sysctls={key: Path("/proc/sys", key).read_text().strip() for key in _SYSCTLS},
            processes=_processes(),
            folders=[name for name in (*_RUNTIME_FOLDERS, *_OTHER_FOLDERS) if Path(name).exists()],
        )

    def to_json(self) -> dict[str, Any]:
        """The snapshot as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> "Snapshot":
        """The snapshot that `to_json` wrote.

        Args:
            value: what it returned.
        """
        return cls(**value)


def leftovers(before: Snapshot, after: Snapshot) -> list[str]:
    """What is on the machine now and was not before, one line each; empty where nothing is left.

    Args:
        before: taken before the cluster came up.
        after: taken after it went down.
    """
    found = []
    for family, rules in after.rules.items():
        known = set(before.rules.get(family, []))
        found += [f"{family} rule: {rule}" for rule in rules if rule not in known]
    for what in ("links", "mounts", "cgroups", "processes", "folders"):
        known = set(getattr(before, what))
        found += [f"{what}: {item}" for item in getattr(after, what) if item not in known]
    for key, value in after.sysctls.items():
        if before.sysctls.get(key) != value:
            found.append(f"sysctl {key}: {before.sysctls.get(key)} became {value}")
    return found


def restore(before: Snapshot) -> None:
    """Remove what Docker leaves behind when it stops: firewall chains, bridges, cgroups, folders, sysctls.

    Only things that were not there before and carry Docker's names are touched.

    Args:
        before: taken before the engine started.
    """
    for family in _FAMILIES:
        if packages.find(family) is None:
            continue
        for command in undo_rules(before.rules.get(family, []), _rules(family)):
            process.output([family, "-w", *command])
    for link in _links():
        if link not in before.links and _DOCKER_LINK.fullmatch(link):
            process.output(["ip", "link", "delete", link])
    for cgroup in _docker_cgroups():
        if cgroup not in before.cgroups:
            _remove_cgroup(Path(cgroup))
    for folder in (*_RUNTIME_FOLDERS, *_OTHER_FOLDERS):
        if folder not in before.folders:
            _remove_folder(Path(folder), in_use=bool(set(_processes()) - set(before.processes)))
    for key, value in before.sysctls.items():
        path = Path("/proc/sys", key)
        if path.read_text().strip() != value:
            path.write_text(value)


def release_mounts(before: Snapshot, folders: Iterable[Path]) -> None:
    """Unmount what an engine that was killed left mounted.

    Args:
        before: taken before the engine started.
        folders: where its mounts are.
    """
    for point in reversed(_mounts()):  # what is mounted below another comes after it
        if point not in before.mounts and any(Path(point).is_relative_to(folder) for folder in folders):
            process.output(["umount", point])


def undo_rules(before: Iterable[str], after: Iterable[str]) -> list[list[str]]:
    """The iptables arguments that take Docker's rules away again.

    Args:
        before: rules as `Snapshot.rules` has them, before Docker started.
        after: the same, now.

    Returns:
        For each command its arguments: rules first, then the emptied chains, then changed policies.
    """
    known = set(before)
    added = [line for line in after if line not in known]
    rules, flush, drop, policies = [], [], [], []
    for line in added:
        table, _, text = line.partition(" ")
        if text.startswith(":"):
            chain, policy = text[1:].split()
            if chain.startswith("DOCKER"):
                flush.append(["-t", table, "-F", chain])
                drop.append(["-t", table, "-X", chain])
            elif policy != "-":
                policies.append(["-t", table, "-P", chain, _policy(known, table, chain)])
        elif text.startswith("-A ") and not text.startswith("-A DOCKER") and _is_dockers(text):
            rules.append(["-t", table, "-D", *shlex.split(text)[1:]])
    return [*rules, *flush, *drop, *policies]


def _policy(known: Iterable[str], table: str, chain: str) -> str:
    prefix = f"{table} :{chain} "
    return next((line.removeprefix(prefix) for line in known if line.startswith(prefix)), "ACCEPT")


def _is_dockers(rule: str) -> bool:
    words = shlex.split(rule)
    return any(word.startswith(("DOCKER", "docker0", "br-")) for word in words) or _masquerades_docker(words)


def _masquerades_docker(words: list[str]) -> bool:
    # the hairpin rule of a published port names no interface: -s ADDRESS/32 -d ADDRESS/32 ... -j MASQUERADE
    return words[:2] == ["-A", "POSTROUTING"] and words[-1] == "MASQUERADE" and "-s" in words and "-d" in words


def _rules(family: str) -> list[str]:
    """Each chain and rule with its table before it; a built-in chain that accepts is no news."""
    save = packages.find(f"{family}-save")
    if save is None:
        return []
    lines, table = [], ""
    for line in process.output([save]).splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":"):
            chain, policy, *_ = line.split()
            if policy != "ACCEPT":
                lines.append(f"{table} {chain} {policy}")
        elif line.startswith("-"):
            lines.append(f"{table} {line}")
    return lines


def _links() -> list[str]:
    # of this network namespace; what /sys shows depends on where it was mounted
    return sorted(name for _, name in socket.if_nameindex())


def _mounts() -> list[str]:
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return sorted(point for point in points if "docker" in point or "containerd" in point)


def _docker_cgroups() -> list[str]:
    patterns = [f"{depth}{name}" for depth in ("", "*/") for name in ("docker", "kubelet*", "kubepods*")]
    return sorted(str(path) for pattern in patterns for path in _CGROUPS.glob(pattern) if path.is_dir())


def _remove_cgroup(folder: Path) -> None:
    """Remove a cgroup and those below it; one that still holds a process stays, and is a leftover."""
    folders = [Path(path) for path, _, _ in os.walk(folder, topdown=False)]
    for _ in range(_CGROUP_ATTEMPTS):
        for path in folders:
            with suppress(OSError):  # busy: the kernel is still taking its last process away; or gone already
                path.rmdir()
        if not folder.exists():
            return
        time.sleep(0.2)


def _remove_folder(folder: Path, *, in_use: bool) -> None:
    """Sockets and the like go whole, unless somebody's containerd runs; elsewhere only what holds no data."""
    if str(folder) in _RUNTIME_FOLDERS:
        if not in_use and folder.exists():
            shutil.rmtree(folder)
        return
    (folder / "key.json").unlink(missing_ok=True)  # made by dockerd, which no longer uses it
    for path in (folder / "bin", folder / "lib", folder):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _processes() -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            program = (folder / "exe").readlink().name
            in_container = "/docker" in (folder / "cgroup").read_text()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended meanwhile, is the kernel's, or belongs to somebody else
        if program in _PROGRAMS or in_container:
            found.append(f"{folder.name} {program}")
    return sorted(found)
