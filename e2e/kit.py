"""What the e2e tests work with: a kind cluster, and namespaces in which MiniClusters run real containers.

A test acts as users do, by the command `kueue-flux` and by kubectl in processes of their own, and looks at what came
of it as raw objects. What the control-plane tests have for that serves here too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kueue_flux.devcluster import deploy, engine
from kueue_flux.devcluster.images import FluxImage
from kueue_flux.devcluster.kubernetes_api import KubernetesApi, Manifest
from tests.control_plane import kit
from tests.control_plane.kit import QUEUE, QUEUE_LABEL, condition, index_of, is_true, wait_for

EXAMPLES = Path(__file__).parents[1] / "examples"
MINICLUSTER = "flux-framework.org/minicluster"
CONTROLLER = ("kueue-flux-system", "app.kubernetes.io/name=kueue-flux")
LEASE = "kueue-flux"
KUEUE_FLUX = Path(sys.executable).parent / "kueue-flux"
PLENTY = 1000  # more than any test asks for
UNTIL_TOLD = ("sh", "-c", "echo begun; until [ -e /tmp/go ]; do sleep 0.2; done; echo told")
"""A command that runs until the test says so, see `Namespace.release`."""


@dataclass(frozen=True)
class Ran:
    """A process that has ended.

    Args:
        code: its exit code.
        out: its standard output.
        err: its standard error.
    """

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of its standard output."""
        return self.out.splitlines()


def run(
    *words: str | Path,
    stdin: str | None = None,
    timeout: float = 120,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Ran:
    """Run a program, whatever its exit code.

    Args:
        words: its command line.
        stdin: what it reads.
        timeout: seconds.
        env: variables to add to this process's.
        cwd: where it runs.
    """
    environment = {**os.environ, **(env or {})}
    try:
        ended = subprocess.run(
            words, input=stdin, capture_output=True, text=True, timeout=timeout, env=environment, cwd=cwd
        )
    except subprocess.TimeoutExpired as slow:
        said = [(text or b"").decode(errors="replace") for text in (slow.stdout, slow.stderr)]
        raise AssertionError(f"{slow.cmd} has not ended after {timeout:g} s\n" + "\n".join(said)) from None
    return Ran(ended.returncode, ended.stdout, ended.stderr)


@dataclass(frozen=True)
class Started:
    """A process in the background.

    Args:
        process: it.
        out: the file with its standard output.
        err: the file with its standard error.
    """

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    def wait_says(self, text: str, *, timeout: float = 60) -> None:
        """Wait until it has printed this text."""

        def look() -> bool:
            said = self.err.read_text() + self.out.read_text()
            assert text in said, said
            return True

        wait_for(f"{self.process.args} to say {text!r}", look, timeout=timeout)

    def ended(self, *, timeout: float) -> Ran:
        """Wait until it has ended."""
        wait_for(f"{self.process.args} to end", lambda: self.process.poll() is not None, timeout=timeout)
        return Ran(self.process.returncode, self.out.read_text(), self.err.read_text())


@dataclass(frozen=True)
class Cluster:
    """The kind cluster that all tests share.

    Args:
        name: what it is called.
        kubeconfig: how to reach it.
        kubectl_program: kubectl.
        flux: the image with Flux in it, or the stand-in for one.
        api: the API server, asked as an admin.
    """

    name: str
    kubeconfig: Path
    kubectl_program: Path
    flux: FluxImage
    api: KubernetesApi

    def run(self, *words: str | Path, stdin: str | None = None, timeout: float = 120) -> Ran:
        """Run a program against this cluster, whatever its exit code."""
        return run(*words, stdin=stdin, timeout=timeout, env={"KUBECONFIG": str(self.kubeconfig)})

    def kueue_flux(self, *words: str, stdin: str | None = None, timeout: float = 120) -> Ran:
        """Run `kueue-flux`."""
        return self.run(KUEUE_FLUX, *words, stdin=stdin, timeout=timeout)

    def kubectl(self, *words: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Run kubectl, which must succeed, and return what it printed."""
        ended = self.run(self.kubectl_program, *words, stdin=stdin, timeout=timeout)
        assert ended.code == 0, f"kubectl {' '.join(words)} ended with {ended.code}\n{ended.out}{ended.err}"
        return ended.out

    def on_node(self, node: str, *words: str) -> str:
        """Run a program on a node, which must succeed, and return what it printed."""
        ended = self.run(engine.docker(), "exec", node, *words)
        assert ended.code == 0, f"{' '.join(words)} on {node} ended with {ended.code}\n{ended.out}{ended.err}"
        return ended.out

    @contextmanager
    def started(self, *words: str | Path) -> Iterator[Started]:
        """Run a program against this cluster beside the `with` block, and kill it where it has not ended by then."""
        env = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            with (
                out.open("w") as stdout,
                err.open("w") as stderr,
                subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=env) as process,
            ):
                try:
                    yield Started(process, out, err)
                finally:
                    process.kill()

    def container(self, pod: Manifest) -> Manifest:
        """A pod's first container as its node's containerd has it, without asking the API server.

        Args:
            pod: as it was when the container had been created.
        """
        found = json.loads(self.on_node(pod["spec"]["nodeName"], "crictl", "inspect", container_id(pod)))
        return dict(found)

    def pid(self, pod: Manifest) -> int:
        """The first process of a pod's first container, as its node counts."""
        return int(self.container(pod)["info"]["pid"])

    def kill(self, pod: Manifest) -> None:
        """SIGKILL the first process of a pod's first container, as the kernel does when memory runs out."""
        self.on_node(pod["spec"]["nodeName"], "kill", "-KILL", str(self.pid(pod)))

    @contextmanager
    def aimed_at(self, pod: Manifest) -> Iterator[Callable[[], None]]:
        """Give a function that does what `kill` does, within milliseconds; to be called in the `with` block."""
        shell = ("sh", "-c", 'echo ready; cat; kill -KILL "$1"', "sh", str(self.pid(pod)))
        words = (engine.docker(), "exec", "-i", pod["spec"]["nodeName"], *shell)
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"ready\n"
            yield process.stdin.close
        assert process.returncode == 0, f"{pod['metadata']['name']} was not killed"

    def remove(self, pod: Manifest) -> None:
        """Delete a pod without waiting for its node; whoever made it makes another."""
        self.api.request("DELETE", self.api.path_of(pod), {"gracePeriodSeconds": 0})

    def controllers(self) -> list[Manifest]:
        """The controller's pods that run."""
        pods = self.api.list("v1", "Pod", CONTROLLER[0], labels=CONTROLLER[1])
        return [p for p in pods if p["status"].get("phase") == "Running" and "deletionTimestamp" not in p["metadata"]]

    def leader(self) -> Manifest:
        """The controller's pod that works now, once there is one: its process runs and holds the Lease."""

        def look() -> Manifest:
            lease = self.api.find("coordination.k8s.io/v1", "Lease", LEASE, CONTROLLER[0])
            holder = str(lease["spec"]["holderIdentity"]) if lease else "nobody"
            pods = self.controllers()
            assert len(pods) == 1, f"{len(pods)} controllers run"
            (pod,) = pods
            assert pod["status"]["containerStatuses"][0]["state"].get("running"), "its container does not run"
            assert holder.startswith(f"{pod['metadata']['name']}_"), f"{holder} holds the Lease"
            return pod

        return wait_for("a controller at work", look, timeout=120)

    def controller_log(self, *flags: str) -> str:
        """What the controller has logged."""
        return self.kubectl("-n", CONTROLLER[0], "logs", "-l", CONTROLLER[1], *flags)

    @contextmanager
    def scaled_to_zero(self, namespace: str, deployment: str) -> Iterator[None]:
        """Have none of a Deployment's pods for as long as the `with` block lasts."""
        scale = ("-n", namespace, "scale", f"deployment/{deployment}")
        spec = self.api.get("apps/v1", "Deployment", deployment, namespace)["spec"]
        labels = ",".join(f"{key}={value}" for key, value in spec["selector"]["matchLabels"].items())
        try:
            self.kubectl(*scale, "--replicas=0")
            wait_for("its pods to end", lambda: not self.api.list("v1", "Pod", namespace, labels=labels), timeout=60)
            yield
        finally:
            self.kubectl(*scale, f"--replicas={spec['replicas']}")
            self.kubectl(
                "-n", namespace, "rollout", "status", f"deployment/{deployment}", "--timeout=120s", timeout=130
            )


@dataclass(frozen=True)
class Namespace(kit.Namespace):
    """A namespace with a LocalQueue named `queue`, in which MiniClusters run.

    Args:
        cluster: where it is.
    """

    cluster: Cluster

    def set_pods(self, pods: int, *, preemption: bool = False) -> None:
        """Give the ClusterQueue quota for so many pods, and for all that they may ask for."""
        queue = kit.cluster_queue(self.name, self.name, cpu=PLENTY, memory_gib=PLENTY, preemption=preemption)
        (group,) = queue["spec"]["resourceGroups"]
        group["coveredResources"].append("pods")
        group["flavors"][0]["resources"].append({"name": "pods", "nominalQuota": pods})
        self.api.apply(queue)

    def kueue_flux(self, command: str, *words: str, stdin: str | None = None, timeout: float = 120) -> Ran:
        """Run one of the commands of `kueue-flux` in this namespace."""
        return self.cluster.kueue_flux(command, "--namespace", self.name, *words, stdin=stdin, timeout=timeout)

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Run kubectl in this namespace."""
        return self.cluster.kubectl("--namespace", self.name, *words, stdin=stdin)

    def submit(
        self,
        *command: str,
        flags: Sequence[str] = ("--wait",),
        queue: str | None = QUEUE,
        size: int = 1,
        image: str | None = None,
        timeout: float = 120,
    ) -> Ran:
        """`kueue-flux submit` a command, with Flux in its image, and wait until it has ended.

        Args:
            command: its words.
            flags: more flags; without `--wait` it is submitted only.
            queue: the LocalQueue; None for none.
            size: how many nodes.
            image: another image than the one with Flux.
            timeout: seconds.
        """
        words = ["--size", str(size), "--image", image or self.cluster.flux.reference]
        words += ["--queue", queue] if queue else []
        words += [] if any(flag.startswith("--flux-") for flag in flags) else ["--no-flux-view"]
        return self.kueue_flux("submit", *words, *flags, "--", *command, timeout=timeout)

    def run_example(self, path: str, **options: Any) -> Ran:
        """`kueue-flux submit --wait` an example, see `example`."""
        text = as_yaml(example(path, self.cluster.flux.reference))
        return self.kueue_flux("submit", "-", "--wait", stdin=text, **options)

    def run_spec(self, name: str, spec: Manifest, container: Manifest, *, timeout: float = 180) -> Ran:
        """`kueue-flux submit --wait` a MiniCluster whose one container has Flux in its image."""
        return self.kueue_flux(
            "submit", "-", "--wait", stdin=as_yaml(self.of_spec(name, spec, container)), timeout=timeout
        )

    def of_spec(self, name: str, spec: Manifest, container: Manifest) -> Manifest:
        """The same, to be submitted."""
        image = {"image": self.cluster.flux.reference}
        quiet = {"flux": {"container": {"disable": True}}, "logging": {"quiet": True}}
        return manifest(name, {**quiet, **spec, "containers": [{**image, **container}]})

    def start(self, name: str, *command: str, flags: Sequence[str] = (), **options: Any) -> None:
        """`kueue-flux submit` a command under this name, and leave it to itself."""
        ran = self.submit(*command, flags=("--name", name, *flags), **options)
        assert (ran.code, ran.lines) == (0, [name]), ran

    def minicluster(self, name: str) -> Manifest:
        """A MiniCluster that is there."""
        found = self.get("MiniCluster", name)
        assert found is not None, f"there is no MiniCluster {name}"
        return found

    def condition(self, name: str, kind: str) -> tuple[str, str]:
        """A MiniCluster's condition: status and reason."""
        found = condition(self.get("MiniCluster", name), kind)
        return found.get("status", ""), found.get("reason", "")

    def message(self, name: str, kind: str) -> str:
        """What a MiniCluster's condition says."""
        return str(condition(self.get("MiniCluster", name), kind).get("message", ""))

    def wait_condition(self, name: str, kind: str, status: str, reason: str, *, timeout: float = 60) -> str:
        """Wait until a MiniCluster's condition is so, and return what it says."""

        def look() -> bool:
            seen = self.condition(name, kind)
            assert seen == (status, reason)
            return True

        self.wait_for(f"{kind} of {name} to be {status} with reason {reason}", look, timeout=timeout)
        return self.message(name, kind)

    def wait_running(self, name: str, *, timeout: float = 90) -> Manifest:
        """Wait until all of a MiniCluster's brokers are up, and return it."""
        self.wait_for(f"{name} to run", lambda: is_true(self.minicluster(name), "Ready"), timeout=timeout)
        return self.minicluster(name)

    def wait_finished(self, name: str, *, timeout: float = 120) -> Manifest:
        """Wait until a MiniCluster has finished, and return it."""
        self.wait_for(f"{name} to finish", lambda: is_true(self.minicluster(name), "Finished"), timeout=timeout)
        return self.minicluster(name)

    def wait_succeeded(self, name: str, *, timeout: float = 120) -> Manifest:
        """Wait until a MiniCluster has finished, which must be well, and return it."""
        found = self.wait_finished(name, timeout=timeout)
        end = condition(found, "Finished")
        assert end["reason"] == "Succeeded", f"{end}\n{self.describe()}"
        return found

    def wait_output(self, name: str, text: str, *, timeout: float = 60) -> None:
        """Wait until the command has printed this."""
        self.wait_for(f"{name} to print {text!r}", lambda: text in self.kueue_flux("logs", name).out, timeout=timeout)

    def certificate(self, name: str) -> dict[str, str]:
        """The keys of a MiniCluster's certificate, which takes an admin to see."""
        template = 'go-template={{index .data "curve.cert" | base64decode}}'
        text = self.kubectl("get", "secret", f"{name}-curve", "-o", template)
        lines = (line.strip().partition(" = ") for line in text.splitlines())
        return {key.removesuffix("-key"): value.strip('"') for key, _, value in lines if key.endswith("-key")}

    def release(self, name: str) -> None:
        """Let `UNTIL_TOLD` end, in all pods of a MiniCluster that run."""
        for pod in self.pods(name):
            if pod["status"]["phase"] == "Running":
                self.kubectl("exec", pod["metadata"]["name"], "--", "touch", "/tmp/go")

    @contextmanager
    def waiting(self, name: str) -> Iterator[Started]:
        """`kueue-flux wait` for a MiniCluster beside the `with` block."""
        with self.beside("wait", name) as started:
            yield started

    @contextmanager
    def beside(self, command: str, *words: str) -> Iterator[Started]:
        """Run one of the commands of `kueue-flux` in this namespace beside the `with` block."""
        with self.cluster.started(KUEUE_FLUX, command, "--namespace", self.name, *words) as started:
            yield started

    def lead(self, name: str) -> Manifest:
        """The pod of rank 0 that is there."""
        leads = [pod for pod in self.pods(name) if index_of(pod) == 0]
        assert leads, f"{name} has no lead"
        return leads[0]

    def events(self, name: str) -> list[tuple[str, str]]:
        """The events of a MiniCluster: reason and note."""
        found = [event for event in self.all("Event") if event.get("regarding", {}).get("name") == name]
        return [(e["reason"], e.get("note", "")) for e in found if e["regarding"]["kind"] == "MiniCluster"]

    def pods_made(self, name: str) -> list[str]:
        """What the events tell of the pods that were ever created for a MiniCluster, also of those that are gone."""
        job = {"kind": "Job", "name": name}
        events = [event for event in self.all("Event") if event["reason"] == "SuccessfulCreate"]
        return [event["note"] for event in events if event["regarding"].items() >= job.items()]

    def log(self, pod: Manifest) -> str:
        """What a pod has printed."""
        return self.api.text("GET", self.api.path_of(pod, "log"))

    def wait_event(self, name: str, reason: str, note: str) -> None:
        """Wait until an event tells this of a MiniCluster: events are written after the status.

        Args:
            name: of the MiniCluster.
            reason: of the event.
            note: words that are in what it says.
        """

        def told() -> bool:
            return any(found == reason and note in text for found, text in self.events(name))

        self.wait_for(f"the event {reason} of {name}", told)

    def of(self, name: str, kind: str) -> list[str]:
        """The names of what belongs to a MiniCluster, of one kind."""
        return [item["metadata"]["name"] for item in self.all(kind, f"{MINICLUSTER}={name}")]

    def files(self, name: str) -> list[str]:
        """The names of the Secret and the ConfigMap that an admitted MiniCluster has."""
        return self.of(name, "Secret") + self.of(name, "ConfigMap")

    def autopsy(self) -> str:
        """All that may tell why a test has failed."""
        parts = [self.describe()]
        for words in (
            ("get", "miniclusters", "-o", "yaml"),
            ("get", "pods", "-o", "wide"),
            ("get", "events", "--sort-by=.metadata.creationTimestamp"),
        ):
            parts.append(self.cluster.run(self.cluster.kubectl_program, "-n", self.name, *words).out)
        for pod in self.all("Pod")[:8]:
            name = pod["metadata"]["name"]
            ran = self.cluster.run(
                self.cluster.kubectl_program, "-n", self.name, "logs", name, "--all-containers", "--tail=25"
            )
            parts.append(f"--- log of {name}\n{ran.out}{ran.err}")
        tail = self.cluster.run(
            self.cluster.kubectl_program, "-n", CONTROLLER[0], "logs", "-l", CONTROLLER[1], "--tail=40"
        )
        parts.append(f"--- end of the controller's log\n{tail.out}{tail.err}")
        return "\n".join(parts)


def manifest(name: str, spec: Manifest, *, queue: str | None = QUEUE, labels: dict[str, str] | None = None) -> Manifest:
    """A MiniCluster as YAML would have it."""
    all_labels = {**({QUEUE_LABEL: queue} if queue else {}), **(labels or {})}
    return {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": {"name": name, "labels": all_labels},
        "spec": spec,
    }


def example(path: str, image: str) -> Manifest:
    """A MiniCluster of the examples, but for its queue and its image, which this cluster does not have.

    Args:
        path: below `examples/`.
        image: an image with Flux in it.
    """
    found: Manifest = yaml.safe_load((EXAMPLES / path).read_text())
    found["metadata"]["labels"] = {QUEUE_LABEL: QUEUE}
    found["spec"].setdefault("flux", {})["container"] = {"disable": True}
    for container in found["spec"]["containers"]:
        container["image"] = image
    return found


def as_yaml(obj: Manifest) -> str:
    """For the standard input of a command."""
    return yaml.safe_dump(obj, allow_unicode=True)


def rows(table: str) -> list[dict[str, str]]:
    """What kubectl prints as a table: for each row its values by column."""
    header, *lines = table.splitlines()
    starts = [found.start() for found in re.finditer(r"\S+", header)]
    ends = [*starts[1:], None]
    columns = [slice(*place) for place in zip(starts, ends, strict=True)]
    return [{header[c].strip(): line[c].strip() for c in columns} for line in lines]


def container_id(pod: Manifest) -> str:
    """What containerd calls a pod's first container."""
    return str(pod["status"]["containerStatuses"][0]["containerID"]).removeprefix("containerd://")


def deployed(name: str) -> FluxImage:
    """The image with Flux that `up` has loaded into a cluster."""
    flux = deploy.deployed_flux(name)
    assert flux is not None, "`up` deploys an image with Flux"
    return flux
