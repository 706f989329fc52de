"""What the fields of a MiniCluster must be to one another, said once for the API server and for Python.

Each rule has a CEL expression, which goes into the CRD, and the same as a Python function: the API server refuses
a bad MiniCluster at `kubectl apply`, and the models refuse it wherever no API server is asked (the command before
it submits, the controller if the CRD is older than it is). The tests feed every bad input to both.
CEL in CRDs: https://kubernetes.io/docs/reference/using-api/cel/
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kueue_flux.api.base import LABEL_1035, LABEL_1123
from kueue_flux.api.paths import find
from kueue_flux.api.pod import ARCHIVE_ENDING
from kueue_flux.api.problems import Problem

if TYPE_CHECKING:
    from pydantic import BaseModel

    from kueue_flux.api.container import ContainerVolume, MiniClusterContainer
    from kueue_flux.api.minicluster import MiniCluster, MiniClusterSpec
    from kueue_flux.api.pod import Toleration

HOSTNAME_LIMIT = 63  # characters, RFC 1035
HOST_NETWORK_DNS = "ClusterFirstWithHostNet"
FLAT = "kary:0"  # flux-broker-attributes(7), tbon.topo
GENERATED_SUFFIX = "xxxxx"  # what the API server appends to metadata.generateName has this length
SERVICES_SUFFIX = "-services"  # appended to the MiniCluster's name; the Flux Operator's convention
ENVIRONMENT_NAME = r"[-._a-zA-Z][-._a-zA-Z0-9]*"  # Kubernetes' rule for names that every runtime takes
_JOB_LINE = r"(^|\n)[ \t]*[^# \t\n]"  # in a batch
RESERVED_ENVIRONMENT = r"KUEUE_FLUX_.*|JOB_COMPLETION_INDEX"

RESERVED_VOLUMES = "flux-"  # begins the names of the volumes that kueue-flux adds to the pods

_ARCHIVE = rf"{ARCHIVE_ENDING}|/[^./]+/?$"  # a file, or a directory

_SOURCES = ("hostPath", "configMapName", "claimName", "secretName", "image", "emptyDir", "csiDriver")


@dataclass(frozen=True)
class Rule:
    """Something that must hold.

    Args:
        at: the part of the object that it speaks of, as a pattern for `paths.find`.
        cel: true where it holds; `self` is that part.
        broken: yields, for that part, the fields (relative to it) at which it does not hold.
        message: what is wrong then.
        remedy: what to do about it.
        field: below `at`, what the API server should name; empty for `at` itself.
    """

    at: str
    cel: str
    broken: Callable[[Any], Iterable[str]]
    message: str
    remedy: str
    field: str = ""

    def problems(self, root: BaseModel) -> Iterator[Problem]:
        """Yield a problem for each place of an object where the rule does not hold."""
        for found in find(root, self.at):
            for field in self.broken(found.value):
                path = ".".join(part for part in (found.path, field) if part).replace(".[", "[")
                yield Problem(path, self.message, self.remedy)


def _bad_name(mc: MiniCluster) -> Iterator[str]:
    if (name := full_name(mc)) and not re.fullmatch(LABEL_1035, name):
        yield "metadata.name"


def _long_name(mc: MiniCluster) -> Iterator[str]:
    last_index = max(mc.spec.size, mc.spec.max_size or 0) - 1
    if len(f"{full_name(mc)}-{last_index}") > HOSTNAME_LIMIT:
        yield "metadata.name"


def _long_services_name(mc: MiniCluster) -> Iterator[str]:
    if mc.spec.services and len(full_name(mc) + SERVICES_SUFFIX) > HOSTNAME_LIMIT:
        yield "metadata.name"


def full_name(mc: MiniCluster) -> str:
    """Return the name, or one as the API server would generate it."""
    metadata = mc.metadata
    return metadata.name or (metadata.generate_name and metadata.generate_name + GENERATED_SUFFIX)


def _flux_runners(spec: MiniClusterSpec) -> Iterator[str]:
    if len(spec.containers) > 1 and sum(container.run_flux for container in spec.containers) != 1:
        yield "containers"


def _nameless(spec: MiniClusterSpec) -> Iterator[str]:
    if len(spec.containers) > 1:
        for index, container in enumerate(spec.containers):
            if not container.run_flux and not container.name:
                yield f"containers[{index}].name"


def _nameless_services(spec: MiniClusterSpec) -> Iterator[str]:
    for index, service in enumerate(spec.services):
        if not service.name:
            yield f"services[{index}].name"


def _same_names(field: str, containers: Sequence[MiniClusterContainer]) -> Iterator[str]:
    names = [container.name for container in containers]
    for index, name in enumerate(names):
        if name and name in names[:index]:
            yield f"{field}[{index}].name"


def _bad_environment(environment: Mapping[str, object]) -> Iterator[str]:
    return (repr(name) for name in environment if not re.fullmatch(ENVIRONMENT_NAME, name))


def _reserved_environment(environment: Mapping[str, object]) -> Iterator[str]:
    return (name for name in environment if re.fullmatch(RESERVED_ENVIRONMENT, name))


def _bad_volume_names(volumes: Mapping[str, object]) -> Iterator[str]:
    return (repr(name) for name in volumes if len(name) > HOSTNAME_LIMIT or not re.fullmatch(LABEL_1123, name))


def _reserved_volume_names(volumes: Mapping[str, object]) -> Iterator[str]:
    return (name for name in volumes if name.startswith(RESERVED_VOLUMES))


def _sources(volume: ContainerVolume) -> int:
    return sum(
        bool(source)
        for source in (
            volume.host_path,
            volume.config_map_name,
            volume.claim_name,
            volume.secret_name,
            volume.image,
            volume.empty_dir,
            volume.csi_driver,
        )
    )


def _idle_settings(volume: ContainerVolume) -> Iterator[str]:
    if volume.items and not (volume.config_map_name or volume.secret_name):
        yield "items"
    if volume.empty_dir_medium and not volume.empty_dir:
        yield "emptyDirMedium"
    if volume.empty_dir_size_limit and not volume.empty_dir:
        yield "emptyDirSizeLimit"
    if volume.csi_driver_attributes and not volume.csi_driver:
        yield "csiDriverAttributes"


def _bad_toleration(toleration: Toleration) -> Iterator[str]:
    if toleration.operator == "Exists" and toleration.value:
        yield "value"
    if toleration.operator != "Exists" and not toleration.key:
        yield "key"


def _if(condition: bool, field: str = "") -> list[str]:
    return [field] if condition else []


def _set(field: str) -> str:
    """CEL: the field (text or true/false) is there and not empty or false."""
    empty = "false" if field.rsplit(".")[-1] in _FLAGS else "''"
    return f"(has({field}) && {field} != {empty})"


_FLAGS = {
    "runFlux",
    "batch",
    "batchRaw",
    "launcher",
    "disable",
    "imageVolume",
    "emptyDir",
    "pullAlways",
    "minimalService",
    "simple",
    "shareProcessNamespace",
    "hostPID",
    "hostNetwork",
    "setHostnameAsFQDN",
    "completeWorkers",
    "rejoin",
}


_ON_HOST_NETWORK = f"has(self.network) && {_set('self.network.hostNetwork')}"


def _environment_rules(at: str) -> list[Rule]:
    return [
        Rule(
            at,
            f"self.all(name, name.matches('^{ENVIRONMENT_NAME}$'))",
            _bad_environment,
            "an environment variable's name has letters, digits, '_', '-' and '.', and no digit first",
            "rename it",
        ),
        Rule(
            at,
            f"self.all(name, !name.matches('^({RESERVED_ENVIRONMENT})$'))",
            _reserved_environment,
            "KUEUE_FLUX_* and JOB_COMPLETION_INDEX are reserved: the start script reads them",
            "rename it",
        ),
    ]


def _volume_rules(at: str) -> list[Rule]:
    return [
        Rule(
            at,
            f"self.all(name, size(name) <= {HOSTNAME_LIMIT} && name.matches('^{LABEL_1123}$'))",
            _bad_volume_names,
            "a volume's name has lower-case letters, digits and dashes, at most 63",
            "rename it",
        ),
        Rule(
            at,
            f"self.all(name, !name.startsWith('{RESERVED_VOLUMES}'))",
            _reserved_volume_names,
            "names that begin with flux- are those of the volumes that kueue-flux adds",
            "rename it",
        ),
        Rule(
            f"{at}{{}}",
            f"{_set('self.path')} || {_set('self.emptyDir')}",
            lambda volume: _if(not volume.path and not volume.empty_dir, "path"),
            "a volume needs a path in the container, unless it is an emptyDir",
            "set path",
            "path",
        ),
        Rule(
            f"{at}{{}}",
            f"[{', '.join(_set(f'self.{source}') for source in _SOURCES)}].filter(set, set).size() <= 1",
            lambda volume: _if(_sources(volume) > 1),
            f"a volume has one source: {', '.join(_SOURCES)}",
            "make a volume of each",
        ),
        Rule(
            f"{at}{{}}",
            f"(!has(self.items) || size(self.items) == 0 || {_set('self.configMapName')} || {_set('self.secretName')})"
            f" && (!{_set('self.emptyDirMedium')} || {_set('self.emptyDir')})"
            f" && (!has(self.csiDriverAttributes) || size(self.csiDriverAttributes) == 0 || {_set('self.csiDriver')})",
            _idle_settings,
            "it belongs to a source that this volume does not have (items: configMapName or secretName, emptyDirMedium "
            "and emptyDirSizeLimit: emptyDir, csiDriverAttributes: csiDriver)",
            "name that source, or remove it",
        ),
    ]


def _container_rules(at: str) -> list[Rule]:
    return [
        Rule(
            at,
            f"!{_set('self.pullAlways')} || !{_set('self.imagePullPolicy')} || self.imagePullPolicy == 'Always'",
            lambda container: _if(
                container.pull_always and container.image_pull_policy not in ("", "Always"), "imagePullPolicy"
            ),
            "imagePullPolicy contradicts pullAlways",
            "remove one of the two",
            "imagePullPolicy",
        ),
        Rule(
            at,
            "!has(self.environment) || !has(self.secrets) || self.secrets.all(name, !(name in self.environment))",
            lambda container: (f"secrets.{name}" for name in container.secrets if name in container.environment),
            "environment sets the same variable",
            "remove one of the two",
            "secrets",
        ),
        *_environment_rules(f"{at}.environment"),
        *_environment_rules(f"{at}.secrets"),
        *_volume_rules(f"{at}.volumes"),
    ]


RULES: list[Rule] = [
    Rule(
        "",
        f"self.metadata.name.matches('^{LABEL_1035}$')",
        _bad_name,
        "the name becomes the host names of the pods: lower-case letters, digits and dashes, a letter first",
        "rename the MiniCluster",
    ),
    Rule(
        "",
        "size(self.metadata.name) + 1 + size(string((has(self.spec.maxSize) && self.spec.maxSize > "
        f"self.spec.size ? self.spec.maxSize : self.spec.size) - 1)) <= {HOSTNAME_LIMIT}",
        _long_name,
        f"the pods' host names, <name>-<index>, would be longer than {HOSTNAME_LIMIT} characters",
        "shorten the MiniCluster's name",
    ),
    Rule(
        "spec",
        "!has(self.minSize) || self.minSize <= self.size",
        lambda spec: _if((spec.min_size or 0) > spec.size, "minSize"),
        "minSize is above size",
        "lower spec.minSize or raise spec.size",
        "minSize",
    ),
    Rule(
        "spec",
        "!has(self.maxSize) || self.maxSize == 0 || self.maxSize >= self.size",
        lambda spec: _if(spec.max_size is not None and spec.max_size < spec.size, "maxSize"),
        "maxSize is below size",
        "raise spec.maxSize or leave it out",
        "maxSize",
    ),
    Rule(
        "spec",
        f"size(self.containers) < 2 || self.containers.exists_one(c, {_set('c.runFlux')})",
        _flux_runners,
        "exactly one of several containers must run Flux",
        "set runFlux: true on one of them, and on no other",
        "containers",
    ),
    Rule(
        "spec",
        f"size(self.containers) < 2 || self.containers.all(c, {_set('c.runFlux')} || {_set('c.name')})",
        _nameless,
        "a container that does not run Flux needs a name",
        "name it",
        "containers",
    ),
    Rule(
        "spec",
        f"self.containers.all(c, !{_set('c.name')} || self.containers.exists_one(d, has(d.name) && d.name == c.name))",
        lambda spec: _same_names("containers", spec.containers),
        "two containers have the same name",
        "rename one of them",
        "containers",
    ),
    Rule(
        "spec",
        f"!has(self.services) || self.services.all(c, {_set('c.name')})",
        _nameless_services,
        "a service container needs a name",
        "name it",
        "services",
    ),
    Rule(
        "spec",
        f"!has(self.services) || self.services.all(c, !{_set('c.name')} || "
        "self.services.exists_one(d, has(d.name) && d.name == c.name))",
        lambda spec: _same_names("services", spec.services),
        "two services have the same name",
        "rename one of them",
        "services",
    ),
    Rule(
        "spec.services[]",
        f"!{_set('self.runFlux')}",
        lambda service: _if(service.run_flux, "runFlux"),
        "a service stands beside the MiniCluster, and Flux does not run in it",
        "move the container to spec.containers, or remove runFlux",
        "runFlux",
    ),
    Rule(
        "",
        "!has(self.spec.services) || size(self.spec.services) == 0 || "
        f"size(self.metadata.name) + {len(SERVICES_SUFFIX)} <= {HOSTNAME_LIMIT}",
        _long_services_name,
        f"the host name of its services, <name>{SERVICES_SUFFIX}, would be longer than {HOSTNAME_LIMIT} characters",
        "shorten the MiniCluster's name",
    ),
    Rule(
        "spec.containers[]",
        f"!({_set('self.batch')} && {_set('self.launcher')})",
        lambda container: _if(container.batch and container.launcher, "launcher"),
        "a command is either a batch or a launcher",
        "remove batch or launcher",
        "launcher",
    ),
    Rule(
        "spec.containers[]",
        f"!{_set('self.batch')} || (has(self.command) && self.command.matches({_JOB_LINE!r}))",
        lambda container: _if(container.batch and not re.search(_JOB_LINE, container.command), "command"),
        "a batch needs at least one line that is neither empty nor a comment",
        "write a command on each line",
        "command",
    ),
    Rule(
        "spec.containers[]",
        f"!{_set('self.batchRaw')} || {_set('self.batch')}",
        lambda container: _if(container.batch_raw and not container.batch, "batchRaw"),
        "batchRaw says how a batch is submitted, and this is none",
        "set batch: true too",
        "batchRaw",
    ),
    Rule(
        "spec.containers[]",
        f"!({_set('self.command')} && has(self.commands) && {_set('self.commands.script')})",
        lambda container: _if(bool(container.command and container.commands.script), "commands.script"),
        "either a command or a script is run",
        "remove command or commands.script",
        "commands.script",
    ),
    *_container_rules("spec.containers[]"),
    *_container_rules("spec.services[]"),
    *_environment_rules("spec.flux.environment"),
    Rule(
        "spec.flux.container",
        f"!({_set('self.disable')} && {_set('self.imageVolume')})",
        lambda container: _if(container.disable and container.image_volume, "imageVolume"),
        "there is no image to mount when disable takes Flux from the application's image",
        "remove disable or imageVolume",
        "imageVolume",
    ),
    Rule(
        "spec.flux",
        f"!({_set('self.curveCert')} && {_set('self.curveCertSecret')})",
        lambda flux: _if(bool(flux.curve_cert and flux.curve_cert_secret), "curveCert"),
        "the certificate is in a Secret, and here again",
        "remove it: the Secret is the safer place",
        "curveCert",
    ),
    Rule(
        "spec.flux",
        f"!{_set('self.minimalService')} || !{_set('self.topology')} || self.topology == '{FLAT}'",
        lambda flux: _if(flux.minimal_service and flux.topology not in ("", FLAT), "topology"),
        "brokers connect to others than the lead, and minimalService gives only the lead a name",
        f"remove it or minimalService; the tree of which the lead is the only parent is {FLAT}",
        "topology",
    ),
    Rule(
        "spec.flux",
        f"!({_set('self.completeWorkers')} && {_set('self.rejoin')})",
        lambda flux: _if(flux.complete_workers and flux.rejoin, "rejoin"),
        "workers that count as completed do not come again",
        "remove rejoin or completeWorkers",
        "rejoin",
    ),
    Rule(
        "spec.flux.scheduler",
        f"!{_set('self.simple')} || !{_set('self.queuePolicy')} || self.queuePolicy == 'fcfs'",
        lambda scheduler: _if(scheduler.simple and scheduler.queue_policy not in ("", "fcfs"), "queuePolicy"),
        "sched-simple starts jobs in turn, and has no other policy than fcfs",
        "remove simple or queuePolicy",
        "queuePolicy",
    ),
    Rule(
        "spec.flux.bursting",
        f"!({_set('self.hostlist')} && has(self.clusters) && size(self.clusters) > 0)",
        lambda bursting: _if(bool(bursting.hostlist and bursting.clusters), "hostlist"),
        "a hostlist takes the place of clusters",
        "remove hostlist or clusters",
        "hostlist",
    ),
    Rule(
        "spec",
        f"!({_set('self.shareProcessNamespace')} && has(self.pod) && {_set('self.pod.hostPID')})",
        lambda spec: _if(spec.share_process_namespace and spec.pod.host_pid, "pod.hostPID"),
        "containers either share the pod's processes or see the node's",
        "remove hostPID or shareProcessNamespace",
        "pod.hostPID",
    ),
    Rule(
        "spec.network",
        f"!({_set('self.hostNetwork')} && {_set('self.setHostnameAsFQDN')})",
        lambda network: _if(network.host_network and network.set_hostname_as_fqdn, "setHostnameAsFQDN"),
        "on the node's network the host name is the node's",
        "remove hostNetwork or setHostnameAsFQDN",
        "setHostnameAsFQDN",
    ),
    Rule(
        "spec",
        f"!({_ON_HOST_NETWORK} && has(self.pod) && {_set('self.pod.dnsPolicy')}"
        f" && self.pod.dnsPolicy != '{HOST_NETWORK_DNS}')",
        lambda spec: _if(
            spec.network.host_network and spec.pod.dns_policy not in ("", HOST_NETWORK_DNS), "pod.dnsPolicy"
        ),
        f"on the node's network brokers find one another by {HOST_NETWORK_DNS}, which is the default there",
        "remove dnsPolicy or spec.network.hostNetwork",
        "pod.dnsPolicy",
    ),
    Rule(
        "spec",
        f"!({_ON_HOST_NETWORK} && has(self.services) && size(self.services) > 0)",
        lambda spec: _if(spec.network.host_network and bool(spec.services), "network.hostNetwork"),
        "a NetworkPolicy lets the MiniCluster's pods reach its services, and does not know them on the node's network",
        "remove hostNetwork or services",
        "network.hostNetwork",
    ),
    Rule(
        "spec.pod",
        f"!has(self.resources) || size(self.resources) == 0 || {_set('self.runtimeClassName')}",
        lambda pod: _if(bool(pod.resources) and not pod.runtime_class_name, "resources"),
        "only a RuntimeClass gives pods an overhead",
        "set runtimeClassName, or say what containers ask for in spec.containers[].resources",
        "resources",
    ),
    Rule(
        "spec.archive",
        f"!{_set('self.path')} || self.path.matches({_ARCHIVE!r})",
        lambda archive: _if(bool(archive.path) and not re.search(_ARCHIVE, archive.path), "path"),
        "Flux knows an archive's format by the ending of its name, and this one it does not know",
        "end it in .tar.gz, .tar, .tgz, .tar.bz2 or .tar.xz, or name a directory",
        "path",
    ),
    Rule(
        "spec.pod.tolerations[]",
        f"has(self.operator) && self.operator == 'Exists' ? !{_set('self.value')} : {_set('self.key')}",
        _bad_toleration,
        "operator Exists takes no value, any other needs a key",
        "correct the toleration",
    ),
    Rule(
        "spec.pod.nodeAffinity",
        "self.all(label, size(self[label]) > 0)",
        lambda affinity: (label for label, values in affinity.items() if not values),
        "a node must have one of no values, so none ever fits",
        "list at least one value",
    ),
]
