"""A Kubernetes control plane with Kueue as plain processes: no root, no Docker, no kubelets.

What the tests and the benchmark need at scale is the real API server, the real controllers and the real
Kueue; of nodes and pods only what shows in the API, which kwok provides. Everything listens on 127.0.0.1, on
ports chosen when the cluster is made, so that any number of them can run side by side.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import re
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from kueue_flux.devcluster import binaries, kueue_server, kwok, paths, versions
from kueue_flux.devcluster.control_plane_commands import Commands
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.kubernetes_api import KubernetesApi, kubeconfig
from kueue_flux.devcluster.pki import Authority, KeyPair, private_key_pem, write_private
from kueue_flux.devcluster.processes import Processes
from kueue_flux.devcluster.progress import Progress

PORTS_FILE = "control-plane.json"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kueue", "kwok")
PORTS = (
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kueue-health",
    "kueue-metrics",
    "kueue-webhook",
    "kueue-visibility",
    "kwok",
)
# below the range that Linux hands out to outgoing connections, so that none of those can take a port of ours
_PORT_RANGE = range(20000, 32000)
_SECONDS_TO_START = 120
# a process's user (as in kubeadm's certificates) and groups; Kueue and kwok act as cluster administrators
_USERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kueue": ("kueue", ("system:masters",)),
    "kwok": ("kwok", ("system:masters",)),
}


@dataclass(frozen=True)
class Cluster:
    """A control plane that is up.

    Args:
        name: its name.
        directory: its state folder.
        ports: on 127.0.0.1, by what listens there (`PORTS`).
    """

    name: str
    directory: Path
    ports: dict[str, int]

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of its administrator."""
        return self.directory / "kubeconfig"

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://127.0.0.1:{self.ports['kube-apiserver']}"

    @property
    def audit_log(self) -> Path:
        """What was asked of the API server and by whom, where `up` was told to keep it: JSON lines of Event."""
        return self.directory / "logs" / "audit.log"

    @cached_property
    def processes(self) -> Processes:
        """Its processes, by the names in `PROGRAMS`: to stop, restart, or look at one."""
        return Processes(self.directory)

    @cached_property
    def api(self) -> KubernetesApi:
        """The API server as its administrator sees it."""
        return KubernetesApi(self.kubeconfig)

    def wait_ready(self, process: str) -> None:
        """Wait until a process answers, as far as it has a way to.

        Args:
            process: one of `PROGRAMS`.

        Raises:
            DevClusterError: it ended, or did not answer in time.
        """
        checks: dict[str, Callable[[], bool]] = {
            "kube-apiserver": lambda: self.api.answers("/readyz"),
            "kueue": lambda: kueue_server.ready(self.api, self.ports["kueue-health"]),
        }
        if process in checks:
            self.processes.wait_until(process, checks[process], timeout=_SECONDS_TO_START)

    def restart(self, process: str) -> None:
        """Start one of the processes again (see `processes` for how to stop it) and wait until it answers.

        Args:
            process: one of `PROGRAMS`.
        """
        self.processes.restart(process)
        self.wait_ready(process)

    def write_kubeconfig(self, path: Path, user: str, groups: Iterable[str] = ()) -> Path:
        """Write a kubeconfig for any user, with a certificate of its own; what it may do is up to RBAC.

        Args:
            path: where to write it.
            user: user name, for example `system:serviceaccount:NAMESPACE:NAME`.
            groups: its groups; certificates, unlike tokens, do not bring those of service accounts along.

        Returns:
            `path`.
        """
        authority = Authority(KeyPair.read(self.directory / "pki", "ca"))
        pair = authority.issue(user, organizations=groups)
        config = kubeconfig(self.server, authority.pair.certificate, user, pair)
        write_private(path, yaml.safe_dump(config).encode())
        return path


@dataclass(frozen=True)
class Status:
    """How a control plane is.

    Args:
        name: its name.
        exists: whether `up` was ever run and `down` not since.
        processes: process id by name; None for one that is not running.
        kubeconfig: its administrator's kubeconfig.
    """

    name: str
    exists: bool
    processes: dict[str, int | None]
    kubeconfig: Path

    @property
    def running(self) -> bool:
        """Whether all of its processes run."""
        return self.exists and all(self.processes.get(name) is not None for name in PROGRAMS)

    def __str__(self) -> str:
        """What `kueue-flux dev status` prints."""
        if not self.exists:
            return f"cluster  {self.name} is not up"
        states = [(name, f"pid {pid}" if pid else "not running") for name, pid in self.processes.items()]
        rows = [("cluster", f"{self.name} (profile control-plane)"), *states, ("kubeconfig", str(self.kubeconfig))]
        width = max(len(key) for key, _ in rows)
        return "\n".join(f"{key:<{width}}  {text}" for key, text in rows)


def up(
    name: str,
    progress: Progress,
    *,
    nodes: int = 10,
    node_cpu: int = 16,
    node_memory_gib: int = 64,
    pod_seconds: float | None = 10,
    client_qps: int = 200,
    client_burst: int = 400,
    audit_user: str | None = None,
    kueue: Mapping[str, Any] | None = None,
) -> Cluster:
    """Make sure that a control plane runs; one that runs already is brought to these settings.

    Args:
        name: its name, which is also that of its folder.
        progress: told what is done and how far.
        nodes: how many nodes kwok plays.
        node_cpu: cores of each.
        node_memory_gib: GiB of memory of each.
        pod_seconds: how long a Job's pod runs before it succeeds, unless annotated with `kwok.COMPLETE_AFTER`;
            None: until something else ends it.
        client_qps: requests a second that kube-controller-manager and kube-scheduler may make. Their own
            defaults (20 and 50) would be all that a benchmark measures.
        client_burst: requests they may make at once.
        audit_user: log every request of this user (see `Cluster.audit_log`); no audit where None.
        kueue: settings of Kueue's that are to be otherwise than it ships them.

    Raises:
        DevClusterError: a program cannot be built, or does not start.
    """
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name):
        raise DevClusterError(f"{name!r} is no name for a cluster", "use lower-case letters, digits and dashes")
    if (paths.state_root() / name / "cluster.json").exists():
        raise DevClusterError(f"{name} is a cluster of the profile kind", "give this one another --name")
    programs = binaries.ensure(PROGRAMS, progress)
    with _locked(name) as directory:
        cluster = _prepare(name, directory)
        commands = Commands(programs, directory, cluster.ports)
        processes = cluster.processes
        with progress.stage("start the Kubernetes API server"):
            processes.start("etcd", commands.etcd())
            policy = _audit_policy(directory, audit_user)
            processes.start("kube-apiserver", commands.apiserver(audit_policy=policy))
            cluster.wait_ready("kube-apiserver")
        with progress.stage(f"start the controllers, Kueue {versions.KUEUE} and {nodes} nodes"):
            processes.start("kube-controller-manager", commands.controller_manager(client_qps, client_burst))
            processes.start("kube-scheduler", commands.scheduler(client_qps, client_burst))
            processes.start("kueue", commands.kueue(_install_kueue(cluster, kueue)))
            _start_kwok(cluster, commands, pod_seconds)
            kwok.set_nodes(cluster.api, nodes, cpu=node_cpu, memory_gib=node_memory_gib)
            _wait(cluster, "kwok", lambda: kwok.ready_nodes(cluster.api) == nodes)
            cluster.wait_ready("kueue")
    return cluster


def down(name: str, progress: Progress, *, keep_logs: bool = False) -> None:
    """End a control plane and remove all it kept. One that does not exist is no error.

    Args:
        name: its name.
        progress: told what is done.
        keep_logs: leave the folder `logs`.
    """
    if not (paths.state_root() / name / PORTS_FILE).exists():
        return
    with _locked(name) as directory, progress.stage(f"stop the control plane {name}"):
        Processes(directory).stop_all(grace=0)  # nothing of theirs is kept, so there is nothing to write out
        for path in directory.iterdir():
            if path.name == "logs" and keep_logs:
                continue
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if not keep_logs:
        directory.rmdir()


def status(name: str) -> Status:
    """How a control plane is.

    Args:
        name: its name.
    """
    directory = paths.state_root() / name
    exists = (directory / PORTS_FILE).exists()
    processes = Processes(directory)
    pids = {program: processes.pid(program) for program in PROGRAMS} if exists else {}
    return Status(name, exists, pids, directory / "kubeconfig")


def _prepare(name: str, directory: Path) -> Cluster:
    """Ports, certificates and kubeconfigs: made once, used again by every later `up`."""
    ports_file = directory / PORTS_FILE
    if not ports_file.exists():
        ports_file.write_text(json.dumps(dict(zip(PORTS, _free_ports(len(PORTS)), strict=True)), indent=1))
    cluster = Cluster(name, directory, json.loads(ports_file.read_text()))
    pki = directory / "pki"
    if not cluster.kubeconfig.exists():
        authority = Authority.create("kueue-flux-dev")
        hosts = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        authority.pair.write(pki, "ca")
        authority.issue("kube-apiserver", hosts=[*hosts, "10.96.0.1"]).write(pki, "apiserver")
        authority.issue("aggregator").write(pki, "aggregator")
        write_private(pki / "service-account.key", private_key_pem())
        kueue_authority = kueue_server.create_authority()
        kueue_authority.pair.write(pki, "kueue-ca")
        kueue_server.issue_certificate(kueue_authority).write(pki / "kueue", "tls")
        for process, (user, groups) in _USERS.items():
            cluster.write_kubeconfig(directory / "users" / f"{process}.kubeconfig", user, groups)
        # last: where it exists, all the others do
        cluster.write_kubeconfig(cluster.kubeconfig, "kubernetes-admin", ["system:masters"])
    return cluster


def _install_kueue(cluster: Cluster, settings: Mapping[str, Any] | None) -> Path:
    module = binaries.module_dir("sigs.k8s.io/kueue", versions.KUEUE)
    pki = cluster.directory / "pki"
    webhook, visibility = cluster.ports["kueue-webhook"], cluster.ports["kueue-visibility"]
    kueue_server.install(
        cluster.api,
        module,
        webhook=webhook,
        visibility=visibility,
        authority=Authority(KeyPair.read(pki, "kueue-ca")),
        pair=KeyPair.read(pki / "kueue", "tls"),
    )
    _wait(cluster, "kube-apiserver", lambda: kueue_server.established(cluster.api))
    configuration = kueue_server.configuration(
        module,
        health=cluster.ports["kueue-health"],
        metrics=cluster.ports["kueue-metrics"],
        webhook=webhook,
        visibility=visibility,
        certificates=pki / "kueue",
        settings=settings,
    )
    return _configuration_file(cluster.directory, "kueue", configuration)


def _start_kwok(cluster: Cluster, commands: Commands, pod_seconds: float | None) -> None:
    module = binaries.module_dir("sigs.k8s.io/kwok", versions.KWOK)
    configuration = kwok.configuration(module, pod_seconds=pod_seconds)
    command = commands.kwok(_configuration_file(cluster.directory, "kwok", configuration))
    if cluster.processes.runs("kwok", command):
        return
    cluster.processes.stop("kwok")
    # else the next one would wait until those of the one before it have expired
    cluster.api.request("DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")
    cluster.processes.start("kwok", command)


def _configuration_file(directory: Path, name: str, content: str) -> Path:
    """A file whose name changes with its content, so that the process that reads it is restarted when it must."""
    path = directory / "config" / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    return path


def _audit_policy(directory: Path, user: str | None) -> Path | None:
    if user is None:
        return None
    rules = [{"level": "Metadata", "users": [user], "omitStages": ["RequestReceived"]}, {"level": "None"}]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    return _configuration_file(directory, "audit-policy", yaml.safe_dump(policy))


def _wait(cluster: Cluster, process: str, ready: Callable[[], bool]) -> None:
    cluster.processes.wait_until(process, ready, timeout=_SECONDS_TO_START)


def _free_ports(count: int) -> list[int]:
    taken = {
        port for file in paths.state_root().glob(f"*/{PORTS_FILE}") for port in json.loads(file.read_text()).values()
    }
    ports: list[int] = []
    for port in random.sample(_PORT_RANGE, len(_PORT_RANGE)):
        if len(ports) == count:
            return ports
        if port not in taken and _is_free(port):
            ports.append(port)
    raise DevClusterError(f"no {count} free ports from {_PORT_RANGE.start} to {_PORT_RANGE.stop}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # TIME_WAIT is no obstacle to a server
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def _locked(name: str) -> Iterator[Path]:
    """One `up` or `down` of a cluster at a time."""
    directory = paths.state_dir(name)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield directory
    finally:
        os.close(descriptor)
