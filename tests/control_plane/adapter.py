"""The adapter under test, as the process that it is in a cluster, with the same permissions."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import yaml

from kueue_flux.devcluster.control_plane import Cluster
from kueue_flux.devcluster.kubernetes_api import KubernetesApi, Manifest
from tests.control_plane.kit import wait_for

ROOT = Path(__file__).parents[2]
NAMESPACE = "kueue-flux-system"
USER = f"system:serviceaccount:{NAMESPACE}:kueue-flux-controller"
GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated")


def install(api: KubernetesApi) -> None:
    """Put into the cluster what `kubectl apply -k config/default` would, but for the Deployment."""
    files = [*sorted((ROOT / "crds").glob("flux-framework.org_*.yaml")), *sorted((ROOT / "config/rbac").glob("*.yaml"))]
    documents = [document for file in files for document in yaml.safe_load_all(file.read_text())]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for manifest in [namespace, *documents]:
        if "kind" in manifest:  # else a kustomization
            api.apply(_placed(manifest))
    wait_for("the MiniCluster API", lambda: api.answers("/apis/flux-framework.org/v1alpha2/miniclusters"))


class Adapter:
    """One adapter process. Restarting it keeps its port and appends to its log.

    Args:
        cluster: what it works on.
        directory: where its kubeconfig and log go.
        flags: more flags for it; without any it runs alone, without a Lease.
    """

    def __init__(self, cluster: Cluster, directory: Path, *flags: str) -> None:
        directory.mkdir(exist_ok=True)
        self.kubeconfig = cluster.write_kubeconfig(directory / "adapter.kubeconfig", USER, GROUPS)
        self.log = directory / "adapter.log"
        self.port = _free_port()
        self.flags = flags
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def command(self) -> list[str]:
        """Its command line."""
        return [
            sys.executable,
            "-m",
            "kueue_flux.controller.main",
            f"--kubeconfig={self.kubeconfig}",
            f"--metrics-address=127.0.0.1:{self.port}",
            *(self.flags or ("--no-leader-election",)),
        ]

    @property
    def pid(self) -> int:
        """Its process id.

        Raises:
            AssertionError: it does not run.
        """
        assert self._process is not None, "the adapter does not run"
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it was started, and has not ended since."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait: bool = True) -> None:
        """Start it.

        Args:
            wait: until it says that it is ready.
        """
        assert self._process is None, "the adapter runs already"
        with self.log.open("ab") as log:
            environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
            self._process = subprocess.Popen(self.command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        if wait:
            wait_for("the adapter to be ready", self._ready, context=self.log.read_text)

    def stop(self, *, timeout: float = 15) -> int:
        """Ask it to end, and wait until it has.

        Returns:
            Its exit code.

        Raises:
            subprocess.TimeoutExpired: it did not end in time; it is killed then.
        """
        return self._end(signal.SIGTERM, timeout)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL, 15)

    def restart(self, *, wait: bool = True) -> None:
        """kill -9, and start it again; see `start`."""
        self.kill()
        self.start(wait=wait)

    def metrics(self) -> str:
        """Its /metrics."""
        return self._get("/metrics")

    def metric(self, start: str) -> float:
        """The sum of its metrics whose line begins like this, such as `rest_client_requests_total{`."""
        lines = [line for line in self.metrics().splitlines() if line.startswith(start)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def not_ready(self) -> str:
        """What keeps it from being ready, in /readyz's words where it answers; "" when it is ready."""
        try:
            self._get("/readyz")
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError as error:
            return f"it does not answer: {error}"
        return ""

    def resident_mib(self) -> float:
        """Its resident memory, in MiB (VmRSS in proc(5))."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))

    def close(self) -> None:
        """End it where it runs still."""
        if self._process is not None:
            self.kill()

    def _end(self, number: signal.Signals, timeout: float) -> int:
        assert self._process is not None, "the adapter does not run"
        self._process.send_signal(number)
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._process = None

    def _ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the adapter ended with {self._process.returncode}:\n{self.log.read_text()}")
        try:
            return bool(self._get("/readyz"))
        except urllib.error.URLError:
            return False

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            text: str = answer.read().decode()
            return text


def _placed(manifest: Manifest) -> Manifest:
    """As kustomize's `namespace:` does for the kinds in config/rbac."""
    if manifest["kind"] in ("ServiceAccount", "Role", "RoleBinding"):
        return {**manifest, "metadata": {**manifest["metadata"], "namespace": NAMESPACE}}
    return manifest


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
