"""MiniClusters on the subjects of the Flux Operator's examples, and what is refused of each."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata:
  name: flux-sample
spec:
"""


@dataclass(frozen=True)
class Example:
    """A MiniCluster's spec (YAML), the command's words, and the fields that this version refuses."""

    spec: str
    command: tuple[str, ...]
    refused: tuple[str, ...] = ()

    @property
    def yaml(self) -> str:
        return HEAD + self.spec


EXAMPLES = {
    "hello-world": Example(
        """
  size: 4
  logging: {quiet: true}
  containers:
    - {image: "ubuntu:noble", command: echo hello there}
""",
        ("echo", "hello", "there"),
    ),
    "debug": Example(
        """
  size: 2
  logging: {quiet: true, debug: true}
  containers:
    - {image: "ubuntu:noble", command: hostname}
""",
        ("hostname",),
    ),
    "flux-resource-list": Example(
        """
  size: 4
  tasks: 4
  containers:
    - {image: "ubuntu:noble", command: flux resource list}
""",
        ("flux", "resource", "list"),
    ),
    "disable-view": Example(
        """
  size: 4
  tasks: 2
  flux:
    container: {image: "ubuntu:focal", disable: true}
  containers:
    - image: example.com/simulation:1
      workingDir: /opt/inputs/melt
      command: lmp -v x 2 -in in.melt -nocite
""",
        ("lmp", "-v", "x", "2", "-in", "in.melt", "-nocite"),
    ),
    "labelled pods": Example(
        """
  size: 4
  tasks: 2
  pod:
    labels: {selector: simulation}
  containers:
    - {image: "example.com/simulation:1", command: lmp -in in.melt}
""",
        ("lmp", "-in", "in.melt"),
    ),
    "option flags and another view": Example(
        """
  size: 2
  tasks: 2
  flux:
    optionFlags: "-ompi=openmpi@5"
    container: {image: "example.com/flux-view:focal"}
  containers:
    - image: example.com/benchmarks:1
      workingDir: /opt/benchmarks/one-sided
      command: ./latency
""",
        ("./latency",),
    ),
    "long options": Example(
        """
  size: 4
  containers:
    - {image: "example.com/creatures:1", command: draw --avatar somebody}
""",
        ("draw", "--avatar", "somebody"),
    ),
    "shared memory as it is": Example(
        """
  size: 2
  containers:
    - {image: "ubuntu:noble", command: df -h /dev/shm}
""",
        ("df", "-h", "/dev/shm"),
    ),
    "batch": Example(
        """
  size: 2
  containers:
    - image: ubuntu:noble
      batch: true
      logs: /tmp/out
      commands:
        post: |
          cat /tmp/out/job-0.out
      volumes:
        data: {path: /tmp/out}
      command: |
        echo one
        echo two > /tmp/two
""",
        (),
        (),
    ),
    "own configuration": Example(
        """
  size: 4
  flux:
    curveCert: |
      curve
          public-key = "}D{Y3<amLLl*TIt>@b*umPD-nBr#I}[PnV!lZBkW"
          secret-key = "5khD%TixeW<j<6ssPNG>s<nY1E}5)fyk@TI)g8Xu"
    brokerConfig: |
      [bootstrap]
      default_port = 8050
  containers:
    - {image: "ubuntu:noble", command: hostname}
""",
        ("hostname",),
    ),
    "empty directory": Example(
        """
  size: 2
  containers:
    - image: ubuntu:noble
      command: df -h /dev/shm
      volumes:
        scratch: {emptyDir: true, emptyDirMedium: memory}
""",
        ("df", "-h", "/dev/shm"),
    ),
    "claim": Example(
        """
  size: 2
  containers:
    - image: ubuntu:noble
      command: ls /data
      volumes:
        data: {path: /data, claimName: data}
""",
        ("ls", "/data"),
    ),
    "directory of the node": Example(
        """
  size: 2
  containers:
    - image: ubuntu:noble
      command: ls /data
      volumes:
        data: {path: /data, hostPath: /data}
""",
        ("ls", "/data"),
    ),
    "sidecar": Example(
        """
  size: 2
  containers:
    - {image: "ubuntu:noble", runFlux: true, command: sleep 200}
    - {image: "ubuntu:noble", name: watcher, command: "sleep 10 && flux jobs -a", ports: [80], noWrapEntrypoint: true}
""",
        ("sleep", "200"),
    ),
    "service": Example(
        """
  size: 2
  services:
    - {image: nginx, name: nginx, ports: [80]}
  containers:
    - {image: "ubuntu:noble", command: curl -s flux-sample-services}
""",
        ("curl", "-s", "flux-sample-services"),
    ),
    "minimal service": Example(
        """
  size: 4
  tasks: 4
  flux: {minimalService: true}
  containers:
    - {image: "ubuntu:noble", command: hostname}
""",
        ("hostname",),
    ),
    "post": Example(
        """
  size: 4
  containers:
    - {image: "ubuntu:noble", command: hostname, commands: {post: echo done}}
""",
        ("hostname",),
    ),
    "singularity": Example(
        """
  size: 2
  containers:
    - image: example.com/singularity:1
      command: singularity exec ubuntu.sif hostname
      commands: {pre: "singularity pull docker://ubuntu > /dev/null"}
      securityContext: {privileged: true}
""",
        ("singularity", "exec", "ubuntu.sif", "hostname"),
    ),
    "workflow launcher": Example(
        """
  size: 2
  cleanup: true
  containers:
    - image: example.com/workflow:1
      workingDir: /workflow
      launcher: true
      command: snakemake --cores 1 --flux --jobs 1
      volumes:
        data: {path: /workflow, hostPath: /data}
""",
        ("snakemake", "--cores", "1", "--flux", "--jobs", "1"),
    ),
    "timed": Example(
        """
  size: 4
  logging: {quiet: true, timed: true}
  containers:
    - {image: "ubuntu:noble", command: hostname}
""",
        ("hostname",),
    ),
}
