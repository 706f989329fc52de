"""The command lines of a control plane's processes: what each is told, and why.

Source: the programs' own --help; https://kubernetes.io/docs/reference/command-line-tools-reference/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kueue_flux.devcluster.processes import Command


@dataclass(frozen=True)
class Commands:
    """Builds the command lines for one cluster.

    Args:
        programs: path by name of the program.
        directory: the cluster's state folder; certificates are in `pki`, kubeconfigs in `users`.
        ports: on 127.0.0.1, by what listens there.
    """

    programs: Mapping[str, Path]
    directory: Path
    ports: Mapping[str, int]

    def etcd(self) -> Command:
        """etcd, without the disk writes that would let it survive a power cut: nothing here is to be kept."""
        client, peer = (f"http://127.0.0.1:{self.ports[name]}" for name in ("etcd", "etcd-peer"))
        return self._command(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        )

    def apiserver(self, *, audit_policy: Path | None) -> Command:
        """kube-apiserver.

        Args:
            audit_policy: what to log of the requests; None: nothing.
        """
        pki = self.directory / "pki"
        flags = [
            f"--etcd-servers=http://127.0.0.1:{self.ports['etcd']}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports['kube-apiserver']}",
            # the Service "kubernetes" cannot have an endpoint on the loopback network, and nobody uses it
            # here
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--service-account-key-file={pki / 'service-account.key'}",
            f"--service-account-signing-key-file={pki / 'service-account.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC",
            # how Kueue's visibility API knows that it is the API server who asks, and for whom
            f"--requestheader-client-ca-file={pki / 'ca.crt'}",
            "--requestheader-allowed-names=aggregator",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={pki / 'aggregator.crt'}",
            f"--proxy-client-key-file={pki / 'aggregator.key'}",
        ]
        if audit_policy:
            log = self.directory / "logs" / "audit.log"
            flags += [f"--audit-policy-file={audit_policy}", f"--audit-log-path={log}"]
        return self._command("kube-apiserver", *flags)

    def controller_manager(self, qps: int, burst: int) -> Command:
        """kube-controller-manager, each controller with its own service account, as in a cluster by kubeadm.

        Args:
            qps: requests a second it may make.
            burst: requests it may make at once.
        """
        return self._command(
            "kube-controller-manager",
            *self._controller("kube-controller-manager", qps, burst),
            f"--service-account-private-key-file={self.directory / 'pki' / 'service-account.key'}",
            f"--root-ca-file={self.directory / 'pki' / 'ca.crt'}",
            "--use-service-account-credentials",
            # it makes this folder, by default below /usr/libexec
            f"--flex-volume-plugin-dir={self.directory / 'volume-plugins'}",
        )

    def scheduler(self, qps: int, burst: int) -> Command:
        """kube-scheduler; see `controller_manager`."""
        return self._command("kube-scheduler", *self._controller("kube-scheduler", qps, burst))

    def kueue(self, configuration: Path) -> Command:
        """Kueue.

        Args:
            configuration: its configuration file.
        """
        # its visibility server keeps its certificate in `visibility` below where it runs: see how it is built
        return self._command(
            "kueue",
            f"--config={configuration}",
            f"--kubeconfig={self.user_file('kueue')}",
            "--zap-log-level=2",  # as its own manifests have it
            "--zap-stacktrace-level=panic",
        )

    def kwok(self, configuration: Path) -> Command:
        """kwok, which plays nodes and pods.

        Args:
            configuration: its configuration file, with stages.
        """
        return self._command(
            "kwok",
            f"--config={configuration}",
            f"--kubeconfig={self.user_file('kwok')}",
            f"--server-address=127.0.0.1:{self.ports['kwok']}",
            "--node-ip=127.0.0.1",
        )

    def user_file(self, user: str) -> Path:
        """The kubeconfig of one of the processes."""
        return self.directory / "users" / f"{user}.kubeconfig"

    def _controller(self, name: str, qps: int, burst: int) -> list[str]:
        config = self.user_file(name)
        return [
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports[name]}",
            "--leader-elect=false",
            f"--kube-api-qps={qps}",
            f"--kube-api-burst={burst}",
        ]

    def _command(self, name: str, *flags: str) -> Command:
        return Command.of([self.programs[name], *flags])
