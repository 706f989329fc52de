"""Every way in which a MiniCluster can be wrong, one case each, for the models and for a real API server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kueue_flux.api.minicluster import API_VERSION, KIND
from tests.api import certificates

Object = dict[str, Any]


def minicluster(spec: Object | None = None, *, name: str = "flux-sample", metadata: Object | None = None) -> Object:
    """A MiniCluster that is fine, with parts of its spec replaced."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": "default", **(metadata or {})},
        "spec": {"size": 4, "containers": [{"image": "ubuntu:noble", "command": "hostname"}], **(spec or {})},
    }


def with_container(**fields: Any) -> Object:
    """A MiniCluster whose one container has these fields besides an image and a command."""
    return minicluster({"containers": [{"image": "ubuntu:noble", "command": "hostname", **fields}]})


def with_containers(*containers: Object) -> Object:
    return minicluster({"containers": [{"image": "ubuntu:noble", "command": "hostname", **c} for c in containers]})


def with_service(**fields: Any) -> Object:
    """A MiniCluster whose one service has these fields besides an image and a name."""
    return minicluster({"services": [{"image": "nginx", "name": "web", **fields}]})


@dataclass(frozen=True)
class BadInput:
    """A MiniCluster that is wrong.

    Args:
        id: names the case.
        object: the MiniCluster.
        path: the field that the problem must name.
        words: what the problem must say.
        at_apply: the API server refuses it too; otherwise only the Accepted condition tells.
    """

    id: str
    object: Object = field(repr=False)
    path: str
    words: str
    at_apply: bool = True


QUEUE = "kueue.x-k8s.io/queue-name"
REQUIRED, PREFERRED, UNCONSTRAINED = (
    f"kueue.x-k8s.io/podset-{way}-topology" for way in ("required", "preferred", "unconstrained")
)
SLICE_REQUIRED = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
RACK = "cloud.example.com/rack"
MAX_EXEC = "kueue.x-k8s.io/max-exec-time-seconds"
ARCHIVE = "spec.archive.path"
V, C = "volumes", "containers"


def annotated(**annotations: str) -> Object:
    """A MiniCluster of four pods with these annotations."""
    return minicluster(metadata={"annotations": annotations})


ENVIRONMENT = "an environment variable's name has"

INVALID = [
    BadInput("no spec", {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "a"}}, "spec", "is missing"),
    BadInput("other kind", {**minicluster(), "kind": "MiniClustr"}, "kind", "must be one of 'MiniCluster'"),
    BadInput("other version", {**minicluster(), "apiVersion": "flux-framework.org/v1"}, "apiVersion", "must be one of"),
    BadInput("no containers", minicluster({C: []}), "spec.containers", "at least 1"),
    BadInput("size 0", minicluster({"size": 0}), "spec.size", "must be at least 1 (it is 0)"),
    BadInput("size negative", minicluster({"size": -2}), "spec.size", "must be at least 1 (it is -2)"),
    BadInput("size too large", minicluster({"size": 100_001}), "spec.size", "must be at most 100000"),
    BadInput("size is text", minicluster({"size": "4"}), "spec.size", "must be a whole number (it is '4')"),
    BadInput("size is a fraction", minicluster({"size": 1.5}), "spec.size", "must be a whole number (it is 1.5)"),
    BadInput("minSize above size", minicluster({"minSize": 5}), "spec.minSize", "minSize is above size"),
    BadInput("minSize negative", minicluster({"minSize": -1}), "spec.minSize", "must be at least 0"),
    BadInput("maxSize below size", minicluster({"maxSize": 3}), "spec.maxSize", "maxSize is below size"),
    BadInput("tasks negative", minicluster({"tasks": -1}), "spec.tasks", "must be at least 0"),
    BadInput("deadline 0", minicluster({"deadlineSeconds": 0}), "spec.deadlineSeconds", "must be at least 1"),
    BadInput(
        "deadline that Kubernetes cannot count",
        minicluster({"deadlineSeconds": 2**31}),
        "spec.deadlineSeconds",
        "must be at most 2147483647",
    ),
    BadInput(
        "ttl that Kubernetes cannot count",
        minicluster({"ttlSecondsAfterFinished": 2**31}),
        "spec.ttlSecondsAfterFinished",
        "must be at most 2147483647",
    ),
    BadInput(
        "user that Linux does not have",
        minicluster({"pod": {"securityContext": {"runAsUser": 2**31}}}),
        "spec.pod.securityContext.runAsUser",
        "must be at most 2147483647",
    ),
    BadInput(
        "more tasks than a pod can have cores",
        minicluster({"tasks": 2**31 - 1}),
        "spec.tasks",
        "each pod would have more tasks than the 65536 that are taken",
        at_apply=False,
    ),
    *(
        BadInput(
            f"{part} of more cores than there are",
            with_container(resources={part: {"cpu": "1e6"}}),
            f"spec.containers[0].resources.{part}.cpu",
            "each broker would have more cores than the 65536 that are taken",
            at_apply=False,
        )
        for part in ("limits", "requests")
    ),
    *(
        BadInput(
            f"quantity that nobody can count: {amount[:24]}",
            with_container(resources={"limits": {"cpu": amount}}),
            "spec.containers[0].resources.limits.cpu",
            "is not a quantity that is 0 or more; write it as 2, 500m or 4Gi",
        )
        for amount in ("1e3000000", "1e9999999999999999999", "1e5000", "9" * 5000, "1." + "0" * 5000)
    ),
    *(
        BadInput(
            f"quantity above Kubernetes' largest: {amount}",
            with_container(resources={"limits": {"memory": amount}}),
            "spec.containers[0].resources.limits.memory",
            "is more than Kubernetes counts, at most 2^63 - 1",
            at_apply=False,
        )
        for amount in ("1e99", "9223372036854775808", "9.3E", "8Ei")
    ),
    BadInput("backoff negative", minicluster({"backoffLimit": -1}), "spec.backoffLimit", "must be at least 0"),
    BadInput(
        "ttl negative",
        minicluster({"ttlSecondsAfterFinished": -1}),
        "spec.ttlSecondsAfterFinished",
        "must be at least 0",
    ),
    BadInput("two run Flux", with_containers({"runFlux": True}, {"runFlux": True}), "spec.containers", "exactly one"),
    BadInput("none runs Flux", with_containers({"name": "a"}, {"name": "b"}), "spec.containers", "exactly one"),
    BadInput("nameless sidecar", with_containers({"runFlux": True}, {}), "spec.containers[1].name", "needs a name"),
    BadInput(
        "same names",
        with_containers({"runFlux": True, "name": "a"}, {"name": "a"}),
        "spec.containers[1].name",
        "two containers have the same name",
    ),
    BadInput("container name", with_container(name="My_App"), "spec.containers[0].name", "is not a DNS label"),
    BadInput(
        "sidecar with the name of the container that runs Flux",
        with_containers({"runFlux": True}, {"name": "flux"}),
        "spec.containers[1].name",
        "is the name of the container that runs Flux",
        at_apply=False,
    ),
    BadInput(
        "sidecar with ports and a name that a Service cannot have",
        with_containers({"runFlux": True}, {"name": "3d", "ports": [80]}),
        "spec.containers[1].name",
        "a Service of this name leads to its ports, and such a name begins with a letter",
        at_apply=False,
    ),
    BadInput(
        "sidecar with ports and the name of the headless Service",
        minicluster(
            {
                "network": {"headlessName": "net"},
                "containers": [
                    {"image": "ubuntu:noble", "command": "hostname", "runFlux": True},
                    {"image": "nginx", "name": "net", "ports": [80]},
                ],
            }
        ),
        "spec.containers[1].name",
        "it is the name of the headless Service",
        at_apply=False,
    ),
    BadInput("port", with_container(ports=[0]), "spec.containers[0].ports[0]", "must be at least 1"),
    BadInput(
        "something around what is not wrapped",
        with_containers({"runFlux": True}, {"name": "a", "noWrapEntrypoint": True, "commands": {"post": "b"}}),
        "spec.containers[1].commands.post",
        "noWrapEntrypoint leaves nothing around",
        at_apply=False,
    ),
    BadInput(
        "name of the view",
        with_container(name="flux-view"),
        "spec.containers[0].name",
        "is the name of the container that brings Flux",
        at_apply=False,
    ),
    BadInput("nameless service", minicluster({"services": [{"image": "a"}]}), "spec.services[0].name", "needs a name"),
    BadInput(
        "services with the same name",
        minicluster({"services": [{"name": "a"}, {"name": "a"}]}),
        "spec.services[1].name",
        "two services have the same name",
    ),
    BadInput(
        "service that runs Flux", with_service(runFlux=True), "spec.services[0].runFlux", "Flux does not run in it"
    ),
    BadInput(
        "name too long with services",
        {**with_service(), "metadata": {"name": "f" * 55, "namespace": "default"}},
        "metadata.name",
        "the host name of its services, <name>-services, would be longer than 63",
    ),
    BadInput(
        "pull policies of a service disagree",
        with_service(pullAlways=True, imagePullPolicy="Never"),
        "spec.services[0].imagePullPolicy",
        "contradicts pullAlways",
    ),
    BadInput(
        "variable of a service reserved",
        with_service(environment={"KUEUE_FLUX_SIZE": "1"}),
        "spec.services[0].environment.KUEUE_FLUX_SIZE",
        "are reserved",
    ),
    BadInput(
        "request of a service above its limit",
        with_service(resources={"requests": {"cpu": 2}, "limits": {"cpu": 1}}),
        "spec.services[0].resources.requests.cpu",
        "2 is above the limit, 1",
        at_apply=False,
    ),
    BadInput("no name", minicluster(name=""), "metadata.name", "is missing"),
    BadInput("name upper case", minicluster(name="Flux"), "metadata.name", "lower-case"),
    BadInput("name begins with a digit", minicluster(name="4flux"), "metadata.name", "a letter first"),
    BadInput("name with a dot", minicluster(name="flux.sample"), "metadata.name", "lower-case"),
    BadInput("name too long", minicluster({"size": 4}, name="f" * 62), "metadata.name", "longer than 63"),
    BadInput("name too long at that size", minicluster({"size": 11}, name="f" * 61), "metadata.name", "longer than 63"),
    BadInput(
        "generated name too long",
        minicluster(name="", metadata={"generateName": "f" * 57}),
        "metadata.name",
        "longer than 63",
        at_apply=True,
    ),
    BadInput("image empty", with_container(image=""), "spec.containers[0].image", "is not an image reference"),
    BadInput("image with blanks", with_container(image="a b"), "spec.containers[0].image", "is not an image"),
    *(
        BadInput(
            f"control characters: {path}",
            obj,
            f"spec.{path}",
            words,
        )
        for path, obj, words in (
            ("containers[0].image", with_container(image="a\x1b[31m"), "is not an image reference of printable ASCII"),
            ("containers[0].image", with_container(image="a\u009b31m"), "is not an image reference of printable ASCII"),
            ("containers[0].workingDir", with_container(workingDir="/a\x1bc"), "'/a\\x1bc' is not an absolute path"),
            (
                "containers[0].volumes.data.path",
                with_container(volumes={"data": {"path": "/a\x07"}}),
                "is not an absolute path",
            ),
            (
                "containers[0].secrets.A.key",
                with_container(secrets={"A": {"name": "a", "key": "b\x1b"}}),
                "is not a key",
            ),
            ("pod.schedulerName", minicluster({"pod": {"schedulerName": "a\x1b"}}), "is not the name of an object"),
            ("flux.wrap", minicluster({"flux": {"wrap": "a\x1b"}}), "is not one line without control characters"),
        )
    ),
    *(
        BadInput(f"words without end: {path}", obj, f"spec.{path}", "must have at most 65536 characters")
        for path, obj in (
            ("flux.optionFlags", minicluster({"flux": {"optionFlags": "-" + "a" * 65536}})),
            ("flux.submitCommand", minicluster({"flux": {"submitCommand": "a" * 65537}})),
            ("containers[0].commands.prefix", with_container(commands={"prefix": "a" * 65537})),
        )
    ),
    BadInput(
        "argument that Linux does not take",
        with_container(command="echo " + "a" * 131072),
        "spec.containers[0].command",
        "has a word of 131072 bytes, and Linux starts no program with one of more than 131071",
        at_apply=False,
    ),
    BadInput(
        "shell text that Linux does not take",
        with_container(command="echo $HOME " + "é" * 65536),
        "spec.containers[0].command",
        "has a word of 131083 bytes",
        at_apply=False,
    ),
    BadInput(
        "variable that Linux does not take",
        with_container(environment={"A": "a" * 131070}),
        "spec.containers[0].environment.A",
        "has 131072 bytes, and Linux starts no program",
        at_apply=False,
    ),
    BadInput(
        "service's command that Linux does not take",
        with_service(command="a" * 131072),
        "spec.services[0].command",
        "bytes, and Linux starts no program",
        at_apply=False,
    ),
    BadInput(
        "a specification that no Job can keep",
        with_container(command="", commands={"script": "a" * 254_000}),
        "spec",
        "bytes as JSON, and the Job that is made from it can keep 253952",
        at_apply=False,
    ),
    BadInput(
        "single quote open",
        with_container(command="echo 'hello world"),
        "spec.containers[0].command",
        "the single quote before 'hello world' (character 6) is never closed",
        at_apply=False,
    ),
    BadInput(
        "double quote open",
        with_container(command='echo "hello'),
        "spec.containers[0].command",
        "the double quote before 'hello' (character 6) is never closed",
        at_apply=False,
    ),
    BadInput(
        "backslash at the end",
        with_container(command="echo \\"),
        "spec.containers[0].command",
        "ends with a backslash",
        at_apply=False,
    ),
    BadInput(
        "batch and launcher",
        with_container(batch=True, launcher=True),
        "spec.containers[0].launcher",
        "either a batch or a launcher",
    ),
    BadInput("batch of nothing", with_container(batch=True, command=""), "spec.containers[0].command", "at least one"),
    BadInput(
        "batch of blank lines and comments",
        with_container(batch=True, command="\n  \n\t# date\n#date\n"),
        "spec.containers[0].command",
        "at least one line that is neither empty nor a comment",
    ),
    BadInput(
        "batch of a script",
        with_container(batch=True, command="", commands={"script": "date"}),
        "spec.containers[0].command",
        "at least one line",
    ),
    BadInput("raw batch that is none", with_container(batchRaw=True), "spec.containers[0].batchRaw", "this is none"),
    BadInput(
        "prefix with an open quote",
        with_container(commands={"prefix": "time 'a"}),
        "spec.containers[0].commands.prefix",
        "the single quote before 'a' (character 6) is never closed",
        at_apply=False,
    ),
    BadInput(
        "submit command with an open quote",
        minicluster({"flux": {"submitCommand": '"flux'}}),
        "spec.flux.submitCommand",
        "the double quote before 'flux' (character 1) is never closed",
        at_apply=False,
    ),
    BadInput("strict is text", minicluster({"logging": {"strict": "no"}}), "spec.logging.strict", "be true or false"),
    BadInput(
        "command and script",
        with_container(commands={"script": "date"}),
        "spec.containers[0].commands.script",
        "either a command or a script",
    ),
    BadInput(
        "pull policies disagree",
        with_container(pullAlways=True, imagePullPolicy="Never"),
        "spec.containers[0].imagePullPolicy",
        "contradicts pullAlways",
    ),
    BadInput(
        "no such pull policy",
        with_container(imagePullPolicy="Sometimes"),
        "spec.containers[0].imagePullPolicy",
        "must be one of '', 'Always', 'IfNotPresent' or 'Never'",
    ),
    BadInput(
        "directory and a line feed", with_container(workingDir="/a\n"), "spec.containers[0].workingDir", r"'/a\n'"
    ),
    BadInput("relative directory", with_container(workingDir="a"), "spec.containers[0].workingDir", "an absolute path"),
    BadInput("empty variable", with_container(environment={"": "a"}), "spec.containers[0].environment.''", ENVIRONMENT),
    BadInput(
        "variable with =", with_container(environment={"A=B": "a"}), "spec.containers[0].environment.'A=B'", ENVIRONMENT
    ),
    BadInput(
        "variable with a blank",
        with_container(environment={"A B": "a"}),
        "spec.containers[0].environment.'A B'",
        ENVIRONMENT,
    ),
    BadInput("variable no text", with_container(environment={"A": 1}), "spec.containers[0].environment.A", "be text"),
    BadInput(
        "variable reserved",
        with_container(environment={"KUEUE_FLUX_SIZE": "1"}),
        "spec.containers[0].environment.KUEUE_FLUX_SIZE",
        "are reserved",
    ),
    BadInput(
        "secret reserved",
        with_container(secrets={"JOB_COMPLETION_INDEX": {"name": "a", "key": "b"}}),
        "spec.containers[0].secrets.JOB_COMPLETION_INDEX",
        "are reserved",
    ),
    BadInput(
        "Flux variable reserved",
        minicluster({"flux": {"environment": {"KUEUE_FLUX_X": "1"}}}),
        "spec.flux.environment.KUEUE_FLUX_X",
        "are reserved",
    ),
    BadInput(
        "variable twice",
        with_container(environment={"A": "a"}, secrets={"A": {"name": "a", "key": "b"}}),
        "spec.containers[0].secrets.A",
        "environment sets the same variable",
    ),
    BadInput(
        "variable for Flux twice",
        minicluster(
            {
                "containers": [{"command": "a", "secrets": {"A": {"name": "a", "key": "b"}}}],
                "flux": {"environment": {"A": "b"}},
            }
        ),
        "spec.containers[0].secrets.A",
        "spec.flux.environment sets the same variable",
        at_apply=False,
    ),
    BadInput(
        "secret without key",
        with_container(secrets={"A": {"name": "a"}}),
        "spec.containers[0].secrets.A.key",
        "missing",
    ),
    BadInput(
        "no quantity",
        with_container(resources={"limits": {"memory": "4 GB"}}),
        "spec.containers[0].resources.limits.memory",
        "'4 GB' is not a quantity",
    ),
    BadInput(
        "negative quantity",
        with_container(resources={"limits": {"cpu": -1}}),
        "spec.containers[0].resources.limits.cpu",
        "0 or more",
        at_apply=False,  # a pattern says nothing of whole numbers; the Job made from it would be refused
    ),
    BadInput(
        "quantity as a fraction",
        with_container(resources={"limits": {"cpu": 0.5}}),
        "spec.containers[0].resources.limits.cpu",
        "0.5 is not a quantity",
    ),
    BadInput(
        "request above limit",
        with_container(resources={"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}),
        "spec.containers[0].resources.requests.cpu",
        "2 is above the limit, 1500m",
        at_apply=False,
    ),
    BadInput(
        "security context",
        with_container(securityContext={"runAsUser": "root"}),
        "spec.containers[0].securityContext.runAsUser",
        "must be a whole number",
    ),
    *(
        BadInput(
            f"volume without path: {source or 'nothing said'}",
            with_container(volumes={"data": {source: "data"} if source else {}}),
            "spec.containers[0].volumes.data.path",
            "needs a path",
        )
        for source in ("claimName", "configMapName", "secretName", "image", "csiDriver", "")
    ),
    BadInput(
        "volume with two sources",
        with_container(volumes={"data": {"emptyDir": True, "secretName": "a"}}),
        "spec.containers[0].volumes.data",
        "one source",
    ),
    BadInput(
        "volume of a service with two sources",
        with_service(volumes={"data": {"path": "/a", "image": "b", "hostPath": "/c"}}),
        "spec.services[0].volumes.data",
        "one source",
    ),
    BadInput(
        "volume with a bad name",
        with_container(volumes={"My_Data": {"path": "/a"}}),
        "spec.containers[0].volumes.'My_Data'",
        "a volume's name has lower-case letters",
    ),
    BadInput(
        "volume with a long name",
        with_container(volumes={"v" * 64: {"path": "/a"}}),
        f"spec.containers[0].volumes.'{'v' * 64}'",
        "at most 63",
    ),
    BadInput(
        "volume with a name of ours",
        with_container(volumes={"flux-curve": {"path": "/a"}}),
        "spec.containers[0].volumes.flux-curve",
        "those of the volumes that kueue-flux adds",
    ),
    *(
        BadInput(
            f"{setting} without its source",
            with_container(volumes={"data": {"path": "/a", "hostPath": "/b", setting: value}}),
            f"spec.containers[0].volumes.data.{setting}",
            "belongs to a source that this volume does not have",
            at_apply=setting != "emptyDirSizeLimit",  # a quantity costs CEL more than its budget
        )
        for setting, value in (
            ("items", {"a": "b"}),
            ("emptyDirMedium", "memory"),
            ("emptyDirSizeLimit", "1Gi"),
            ("csiDriverAttributes", {"a": "b"}),
        )
    ),
    BadInput(
        "medium",
        with_container(volumes={"data": {"emptyDir": True, "emptyDirMedium": "disk"}}),
        "spec.containers[0].volumes.data.emptyDirMedium",
        "must be one of '', 'memory' or 'Memory'",
    ),
    *(
        BadInput(
            f"file of a ConfigMap: {file or 'no name'}",
            with_container(volumes={"data": {"path": "/a", "configMapName": "b", "items": {"key": file}}}),
            "spec.containers[0].volumes.data.items.key",
            "is not a relative path without . and ..",
        )
        for file in ("/etc/passwd", "../a", "a/../b", "a/..", "")
    ),
    BadInput(
        "volume said twice, differently",
        with_containers(
            {"runFlux": True, "volumes": {"data": {"path": "/a", "claimName": "one"}}},
            {"name": "b", "volumes": {"data": {"path": "/a", "claimName": "two"}}},
        ),
        "spec.containers[1].volumes.data",
        "spec.containers[0].volumes.data is of the same name, and says something else",
        at_apply=False,
    ),
    BadInput(
        "volume of services said twice, differently",
        minicluster(
            {
                "services": [
                    {"name": "a", "volumes": {"data": {"path": "/a", "hostPath": "/b"}}},
                    {"name": "b", "volumes": {"data": {"path": "/a"}}},
                ]
            }
        ),
        "spec.services[1].volumes.data",
        "spec.services[0].volumes.data is of the same name",
        at_apply=False,
    ),
    BadInput(
        "two volumes at one path",
        with_container(volumes={"a": {"path": "/data"}, "b": {"path": "/data/", "claimName": "c"}}),
        "spec.containers[0].volumes.b.path",
        "/data is where the container sees the volume a",
        at_apply=False,
    ),
    BadInput(
        "two volumes of shared memory",
        with_container(volumes={"a": {"emptyDir": True}, "b": {"emptyDir": True}}),
        "spec.containers[0].volumes.b.path",
        "/dev/shm is where the container sees the volume a",
        at_apply=False,
    ),
    *(
        BadInput(
            f"volume at {path}",
            with_container(volumes={"a": {"path": path}}),
            "spec.containers[0].volumes.a.path",
            f"{path} is where the container sees kueue-flux",
            at_apply=False,
        )
        for path in ("/etc/flux/config", "/etc/flux/curve", "/run/flux", "/mnt/flux", "/opt/software")
    ),
    BadInput(
        "headless name",
        minicluster({"network": {"headlessName": "My.Service"}}),
        "spec.network.headlessName",
        "'My.Service' is not a DNS label",
    ),
    BadInput(
        "headless name too long",
        minicluster({"network": {"headlessName": "s" * 64}}),
        "spec.network.headlessName",
        "at most 63 characters",
    ),
    BadInput(
        "duration",
        minicluster({"flux": {"connectTimeout": "5 sec"}}),
        "spec.flux.connectTimeout",
        "'5 sec' is not a Flux Standard Duration (RFC 23) such as 5s",
    ),
    BadInput(
        "duration without an end",
        minicluster({"flux": {"connectTimeout": "infinity"}}),
        "spec.flux.connectTimeout",
        "'infinity' is not a Flux Standard Duration",
    ),
    BadInput("topology", minicluster({"flux": {"topology": "kary"}}), "spec.flux.topology", "kary:K (kary:0 is flat)"),
    BadInput("log level", minicluster({"flux": {"logLevel": 8}}), "spec.flux.logLevel", "must be at most 7"),
    BadInput(
        "option flags without a flag",
        minicluster({"flux": {"optionFlags": "mpi=openmpi"}}),
        "spec.flux.optionFlags",
        "does not begin with a flag",
        at_apply=False,
    ),
    BadInput(
        "option flags with an open quote",
        minicluster({"flux": {"optionFlags": "-o 'a"}}),
        "spec.flux.optionFlags",
        "the single quote before 'a' (character 4) is never closed",
        at_apply=False,
    ),
    BadInput(
        "mount path",
        minicluster({"flux": {"container": {"mountPath": "/"}}}),
        "spec.flux.container.mountPath",
        "'/' is not an absolute path without a colon, and not the root",
    ),
    BadInput(
        "no image to mount",
        minicluster({"flux": {"container": {"disable": True, "imageVolume": True}}}),
        "spec.flux.container.imageVolume",
        "no image to mount",
    ),
    BadInput(
        "hostlist and clusters",
        minicluster({"flux": {"bursting": {"hostlist": "a[0-3]", "clusters": [{"name": "b"}]}}}),
        "spec.flux.bursting.hostlist",
        "takes the place of clusters",
    ),
    BadInput(
        "toleration with a useless value",
        minicluster({"pod": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}}),
        "spec.pod.tolerations[0].value",
        "takes no value",
    ),
    BadInput(
        "toleration without key",
        minicluster({"pod": {"tolerations": [{"operator": "Equal", "value": "b"}]}}),
        "spec.pod.tolerations[0].key",
        "needs a key",
    ),
    BadInput(
        "affinity to nothing", minicluster({"pod": {"nodeAffinity": {"a": []}}}), "spec.pod.nodeAffinity.a", "no values"
    ),
    BadInput(
        "the node's network and full host names",
        minicluster({"network": {"hostNetwork": True, "setHostnameAsFQDN": True}}),
        "spec.network.setHostnameAsFQDN",
        "the host name is the node's",
    ),
    BadInput(
        "the node's network and the node's DNS",
        minicluster({"network": {"hostNetwork": True}, "pod": {"dnsPolicy": "Default"}}),
        "spec.pod.dnsPolicy",
        "brokers find one another by ClusterFirstWithHostNet",
    ),
    BadInput(
        "the node's network and services",
        minicluster({"network": {"hostNetwork": True}, "services": [{"name": "a", "image": "b"}]}),
        "spec.network.hostNetwork",
        "a NetworkPolicy lets the MiniCluster's pods reach its services",
    ),
    BadInput(
        "the broker's port on the node's network",
        minicluster(
            {"network": {"hostNetwork": True}, "containers": [{"image": "a", "command": "b", "ports": [8050]}]}
        ),
        "spec.containers[0].ports[0]",
        "8050 is the broker's port",
        at_apply=False,
    ),
    BadInput(
        "processes of the pod and of the node",
        minicluster({"shareProcessNamespace": True, "pod": {"hostPID": True}}),
        "spec.pod.hostPID",
        "containers either share the pod's processes or see the node's",
    ),
    BadInput(
        "overhead without a RuntimeClass",
        minicluster({"pod": {"resources": {"cpu": 1}}}),
        "spec.pod.resources",
        "only a RuntimeClass gives pods an overhead",
    ),
    BadInput(
        "restart policy",
        minicluster({"pod": {"restartPolicy": "Always"}}),
        "spec.pod.restartPolicy",
        "must be one of '', 'Never' or 'OnFailure'",
    ),
    BadInput(
        "label key", minicluster({"jobLabels": {"a b": "c"}}), "spec.jobLabels.a b", "is not a key", at_apply=False
    ),
    BadInput(
        "label value",
        minicluster({"pod": {"labels": {"a": "x" * 64}}}),
        "spec.pod.labels.a",
        "is not a label's value",
        at_apply=False,
    ),
    BadInput(
        "annotation key",
        minicluster({"pod": {"annotations": {"a/b/c": ""}}}),
        "spec.pod.annotations.a/b/c",
        "is not a key",
        at_apply=False,
    ),
    BadInput(
        "our own label",
        minicluster({"pod": {"labels": {"flux-framework.org/minicluster": "other"}}}),
        "spec.pod.labels.flux-framework.org/minicluster",
        "is set by kueue-flux",
        at_apply=False,
    ),
    BadInput(
        "the Job controller's label",
        minicluster({"jobLabels": {"batch.kubernetes.io/job-name": "other"}}),
        "spec.jobLabels.batch.kubernetes.io/job-name",
        "or the Job controller",
        at_apply=False,
    ),
    BadInput(
        "two queues",
        minicluster({"jobLabels": {QUEUE: "b"}}, metadata={"labels": {QUEUE: "a"}}),
        f"spec.jobLabels.{QUEUE}",
        "'b' contradicts metadata.labels, 'a'",
        at_apply=False,
    ),
    BadInput(
        "execution time",
        minicluster(metadata={"labels": {MAX_EXEC: "1h"}}),
        f"metadata.labels.{MAX_EXEC}",
        "'1h' is not a whole number of seconds",
        at_apply=False,
    ),
    BadInput(
        "two topologies",
        annotated(**{REQUIRED: RACK, PREFERRED: RACK}),
        f"metadata.annotations.{PREFERRED}",
        f"contradicts {REQUIRED}",
        at_apply=False,
    ),
    BadInput(
        "two topologies in two places",
        minicluster({"pod": {"annotations": {UNCONSTRAINED: "true"}}}, metadata={"annotations": {REQUIRED: RACK}}),
        f"spec.pod.annotations.{UNCONSTRAINED}",
        f"contradicts {REQUIRED}",
        at_apply=False,
    ),
    BadInput(
        "another topology of the pods",
        minicluster({"pod": {"annotations": {REQUIRED: "other"}}}, metadata={"annotations": {REQUIRED: RACK}}),
        f"spec.pod.annotations.{REQUIRED}",
        f"'other' contradicts metadata.annotations, '{RACK}'",
        at_apply=False,
    ),
    BadInput(
        "topology that is no label",
        annotated(**{PREFERRED: "my rack"}),
        f"metadata.annotations.{PREFERRED}",
        "'my rack' is not the node label of a topology's level",
        at_apply=False,
    ),
    BadInput(
        "topology of the pods that is no label",
        minicluster({"pod": {"annotations": {REQUIRED: ""}}}),
        f"spec.pod.annotations.{REQUIRED}",
        "'' is not the node label of a topology's level",
        at_apply=False,
    ),
    BadInput(
        "unconstrained by what",
        annotated(**{UNCONSTRAINED: RACK}),
        f"metadata.annotations.{UNCONSTRAINED}",
        "is neither true nor false",
        at_apply=False,
    ),
    BadInput(
        "slices of no size",
        annotated(**{SLICE_REQUIRED: RACK}),
        f"metadata.annotations.{SLICE_REQUIRED}",
        f"needs {SLICE_SIZE}",
        at_apply=False,
    ),
    BadInput(
        "slices within nothing",
        annotated(**{SLICE_SIZE: "2"}),
        f"metadata.annotations.{SLICE_SIZE}",
        f"needs {SLICE_REQUIRED}",
        at_apply=False,
    ),
    *(
        BadInput(
            f"slices of {size!r} of four pods",
            annotated(**{SLICE_REQUIRED: RACK, SLICE_SIZE: size}),
            f"metadata.annotations.{SLICE_SIZE}",
            "is not a number of pods by which spec.size, 4, can be divided",
            at_apply=False,
        )
        for size in ("3", "8", "0", "two", "-2", "")
    ),
    BadInput(
        "certificate that is none",
        minicluster({"flux": {"curveCert": "no certificate\n"}}),
        "spec.flux.curveCert",
        "is no CURVE certificate: line 1",
        at_apply=False,
    ),
    BadInput(
        "certificate too long",
        minicluster({"flux": {"curveCert": "#" * 5000}}),
        "spec.flux.curveCert",
        "must have at most 4096 characters",
    ),
    BadInput(
        "certificate twice",
        minicluster({"flux": {"curveCert": certificates.TEXT, "curveCertSecret": "a"}}),
        "spec.flux.curveCert",
        "is in a Secret, and here again",
    ),
    BadInput(
        "certificate's Secret",
        minicluster({"flux": {"curveCertSecret": "My_Secret"}}),
        "spec.flux.curveCertSecret",
        "is not the name of an object",
    ),
    BadInput(
        "broker configuration that is no TOML",
        minicluster({"flux": {"brokerConfig": "[bootstrap"}}),
        "spec.flux.brokerConfig",
        "is not TOML: Expected ']'",
        at_apply=False,
    ),
    BadInput(
        "broker configuration with other hosts",
        minicluster({"flux": {"brokerConfig": '[bootstrap]\nhosts = [{host = "a[0-3]"}]'}}),
        "spec.flux.brokerConfig",
        "hosts are 'a[0-3]', and the pods' names, by rank, '",
        at_apply=False,
    ),
    BadInput(
        "broker configuration with another certificate",
        minicluster({"flux": {"brokerConfig": '[bootstrap]\ncurve_cert = "/my.cert"'}}),
        "spec.flux.brokerConfig",
        "name a Secret with your certificate in spec.flux.curveCertSecret",
        at_apply=False,
    ),
    BadInput(
        "broker configuration too long",
        minicluster({"flux": {"brokerConfig": "#" * 70000}}),
        "spec.flux.brokerConfig",
        "must have at most 65536 characters",
    ),
    BadInput(
        "no name for whom brokers connect to",
        minicluster({"flux": {"minimalService": True, "topology": "kary:2"}}),
        "spec.flux.topology",
        "minimalService gives only the lead a name",
    ),
    BadInput(
        "no name for whom brokers of one's own tree connect to",
        minicluster({"flux": {"minimalService": True, "brokerConfig": "[tbon]\ntopo = 'binomial'"}}),
        "spec.flux.minimalService",
        "connect to others than the lead",
        at_apply=False,
    ),
    BadInput(
        "completed workers that come again",
        minicluster({"flux": {"completeWorkers": True, "rejoin": True}}),
        "spec.flux.rejoin",
        "do not come again",
    ),
    BadInput(
        "unknown queue policy",
        minicluster({"flux": {"scheduler": {"queuePolicy": "random"}}}),
        "spec.flux.scheduler.queuePolicy",
        "must be one of '', 'fcfs', 'easy', 'hybrid' or 'conservative' (it is 'random')",
    ),
    BadInput(
        "queue policy that sched-simple does not know",
        minicluster({"flux": {"scheduler": {"queuePolicy": "easy", "simple": True}}}),
        "spec.flux.scheduler.queuePolicy",
        "sched-simple starts jobs in turn",
    ),
    BadInput("archive by a relative path", minicluster({"archive": {"path": "a.tar"}}), ARCHIVE, "an absolute path"),
    BadInput(
        "archive of a format that Flux does not know",
        minicluster({"archive": {"path": "/data/state.sqlite"}}),
        ARCHIVE,
        "this one it does not know",
    ),
    BadInput(
        "munge key's Secret",
        minicluster({"flux": {"mungeSecret": "/etc/munge/munge.key"}}),
        "spec.flux.mungeSecret",
        "is not the name of an object",
    ),
    BadInput(
        "full host names too long",
        minicluster({"network": {"setHostnameAsFQDN": True, "headlessName": "f" * 40}}),
        "spec.network.setHostnameAsFQDN",
        "longer than 64 characters",
        at_apply=False,
    ),
    BadInput(
        "misspelt field", minicluster({"sise": 4}), "spec.sise", "is not a field; did you mean size?", at_apply=False
    ),
    BadInput(
        "misspelt in a container",
        with_container(runflux=True),
        "spec.containers[0].runflux",
        "did you mean runFlux?",
        at_apply=False,
    ),
    BadInput(
        "misspelt in Kubernetes' own type",
        with_container(resources={"limit": {}}),
        "spec.containers[0].resources.limit",
        "did you mean limits?",
        at_apply=False,
    ),
    BadInput("snake case", minicluster({"min_size": 2}), "spec.min_size", "is not a field", at_apply=False),
    BadInput("not a mapping", minicluster({"flux": "yes"}), "spec.flux", "must be a mapping (it is 'yes')"),
]
