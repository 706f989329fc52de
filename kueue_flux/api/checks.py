"""Checks of a MiniCluster that only Python can make: they need a parser, or more than CEL's budget allows.

Each check is a small generator of problems; `validation` runs them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kueue_flux.api import broker_config, certificate, command, kueue_keys, labels, quantity
from kueue_flux.api.base import LABEL_1035
from kueue_flux.api.flux import BROKER_PORT
from kueue_flux.api.mode import Mode
from kueue_flux.api.problems import Problem, shown
from kueue_flux.api.rules import full_name

if TYPE_CHECKING:
    from kueue_flux.api.container import MiniClusterContainer
    from kueue_flux.api.minicluster import MiniCluster


Check = Callable[["MiniCluster"], Iterator[Problem]]

FULL_HOSTNAME_LIMIT = 64
"""Characters that Linux allows a host name to have; a kubelet starts no pod with a longer one."""
FLUX_CONTAINER = "flux"
"""The name of the container that runs Flux, where the user gives it none."""
TAKEN_PATHS = ("/etc/flux/config", "/etc/flux/curve", "/run/flux")
"""Where the container that runs Flux sees its files (`flux.layout`)."""
ARGUMENT_LIMIT = 32 * 4096 - 1
"""Bytes of one argument, or of one variable with its name, that Linux starts a program with (MAX_ARG_STRLEN)."""
CORES_LIMIT = 1 << 16
"""Cores of one broker: more than any machine has, and not more than Flux can list."""


def _name_is_set(mc: MiniCluster) -> Iterator[Problem]:
    if not full_name(mc):
        yield Problem("metadata.name", "is missing", "set it")


def _commands_split(mc: MiniCluster) -> Iterator[Problem]:
    path = mc.flux_container_path
    if mc.mode in (Mode.RUN, Mode.LAUNCHER):  # elsewhere it is no command, or several
        yield from _split(f"{path}.command", lambda: mc.command)
    yield from _split(f"{path}.commands.prefix", lambda: mc.prefix)
    yield from _split("spec.flux.submitCommand", lambda: mc.submit_command)


def _option_flags_are_flags(mc: MiniCluster) -> Iterator[Problem]:
    field, flags = "spec.flux.optionFlags", mc.spec.flux.option_flags
    problems = list(_split(field, lambda: mc.option_flags))
    yield from problems
    if not problems and flags.strip() and not flags.strip().startswith("-"):
        yield Problem(field, f"{shown(flags)} does not begin with a flag", "write flags such as -ompi=openmpi@5")


def _split(field: str, split: Callable[[], Iterable[str]]) -> Iterator[Problem]:
    try:
        words = split()
    except command.ShellSyntaxError as error:
        yield Problem(field, error.message, error.remedy, "UnsupportedField")
        return
    except command.CommandError as error:
        yield Problem(field, error.message, error.remedy)
        return
    longest = max((_bytes(word) for word in words), default=0)
    if longest > ARGUMENT_LIMIT:
        yield Problem(
            field,
            f"has a word of {longest} bytes, and Linux starts no program with one of more than {ARGUMENT_LIMIT}",
            "put it into a script (commands.script) or a file",
        )


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _arguments_fit(mc: MiniCluster) -> Iterator[Problem]:
    for field, text in _arguments(mc):
        if (size := _bytes(text)) > ARGUMENT_LIMIT:
            yield Problem(
                field,
                f"has {size} bytes, and Linux starts no program with an argument or variable of more than "
                f"{ARGUMENT_LIMIT}",
                "put it into a file: a ConfigMap, mounted by volumes",
            )


def _arguments(mc: MiniCluster) -> Iterator[tuple[str, str]]:
    """What becomes one argument or one variable, by field; the words of commands are others' to look at."""
    for name, value in mc.spec.flux.environment.items():
        yield f"spec.flux.environment.{name}", f"{name}={value}"
    for at, containers in _pods(mc):
        for index, container in enumerate(containers):
            path, commands = f"{at}[{index}]", container.commands
            for name, value in container.environment.items():
                yield f"{path}.environment.{name}", f"{name}={value}"
            yield f"{path}.lifeCycle.postStartExec", container.life_cycle.post_start_exec
            yield f"{path}.lifeCycle.preStopExec", container.life_cycle.pre_stop_exec
            if container is not mc.flux_container:
                main = "\n".join([commands.pre, commands.service_pre, container.command or commands.script])
                yield f"{path}.command", main
                yield f"{path}.commands.init", commands.init
                yield f"{path}.commands.post", commands.post


def _cores_are_of_this_world(mc: MiniCluster) -> Iterator[Problem]:
    """R describes the cores of a broker, and Flux knows no more of them than a machine may have."""
    if mc.cores_per_rank <= CORES_LIMIT:
        return
    if -(-mc.spec.tasks // mc.spec.size) > CORES_LIMIT:
        field, told, remedy = "spec.tasks", "each pod would have more tasks", "lower it, or raise spec.size"
    else:
        part = "limits" if mc.flux_container.resources.get("limits", {}).get("cpu") else "requests"
        field = f"{mc.flux_container_path}.resources.{part}.cpu"
        told, remedy = "each broker would have more cores", "lower it"
    yield Problem(field, f"{told} than the {CORES_LIMIT} that are taken", remedy)


def _requests_within_limits(mc: MiniCluster) -> Iterator[Problem]:
    places = [(f"{at}[{i}]", c.resources) for at, containers in _pods(mc) for i, c in enumerate(containers)]
    places.append(("spec.flux.container", mc.spec.flux.container.resources))
    for path, resources in places:
        limits = resources.get("limits", {})
        for name, amount in resources.get("requests", {}).items():
            if name in limits and quantity.parse(amount) > quantity.parse(limits[name]):
                yield Problem(
                    f"{path}.resources.requests.{name}",
                    f"{amount} is above the limit, {limits[name]}",
                    "lower the request or raise the limit",
                )


def _container_names_differ(mc: MiniCluster) -> Iterator[Problem]:
    flux = mc.spec.flux.container
    for index, container in enumerate(mc.spec.containers):
        if container.name and container.name == flux.name and not (flux.disable or flux.image_volume):
            yield Problem(
                f"spec.containers[{index}].name",
                f"{container.name!r} is the name of the container that brings Flux",
                "rename it, or set spec.flux.container.name",
            )
        if container.name == FLUX_CONTAINER and not mc.flux_container.name and container is not mc.flux_container:
            yield Problem(
                f"spec.containers[{index}].name",
                f"{container.name!r} is the name of the container that runs Flux, which has none of its own",
                "rename it, or name that container",
            )


def _flux_variables_are_not_secrets(mc: MiniCluster) -> Iterator[Problem]:
    for name in mc.flux_container.secrets:
        if name in mc.spec.flux.environment:
            yield Problem(
                f"{mc.flux_container_path}.secrets.{name}",
                "spec.flux.environment sets the same variable",
                "remove one of the two",
            )


def _only_flux_runs_jobs(mc: MiniCluster) -> Iterator[Problem]:
    """What says how Flux runs the command means nothing in a container that does not run Flux."""
    for at, containers in _pods(mc):
        for index, container in enumerate(containers):
            if container is mc.flux_container:
                continue
            for field in _job_fields(container):
                if at == "spec.services" and field.startswith("commands."):
                    continue  # refused as a whole
                yield Problem(
                    f"{at}[{index}].{field}",
                    "it belongs to the container that runs Flux",
                    "move it there, or remove it",
                    "UnsupportedField",
                )


def _job_fields(container: MiniClusterContainer) -> Iterator[str]:
    commands = container.commands
    given = {
        "launcher": container.launcher,
        "batch": container.batch,
        "batchRaw": container.batch_raw,
        "logs": container.logs,
        "commands.prefix": commands.prefix,
        "commands.brokerPre": commands.broker_pre,
        "commands.workerPre": commands.worker_pre,
    }
    return (field for field, value in given.items() if value)


def _nothing_around_what_is_not_wrapped(mc: MiniCluster) -> Iterator[Problem]:
    for at, containers in _pods(mc):
        for index, container in enumerate(containers):
            commands = container.commands.model_dump(by_alias=True, exclude_defaults=True)
            for name in commands if container.no_wrap_entrypoint else ():
                yield Problem(
                    f"{at}[{index}].commands.{name}",
                    "noWrapEntrypoint leaves nothing around the container's command",
                    "remove one of the two",
                )


def _services_run_their_command_as_it_is(mc: MiniCluster) -> Iterator[Problem]:
    for index, service in enumerate(mc.spec.services):
        for name in service.commands.model_dump(by_alias=True, exclude_defaults=True):
            yield Problem(
                f"spec.services[{index}].commands.{name}",
                "nothing is run around a service's command",
                "write it into the command",
                "UnsupportedField",
            )


def _sidecars_ports_have_names(mc: MiniCluster) -> Iterator[Problem]:
    """A sidecar with ports is reached by a Service of its name."""
    for index, container in enumerate(mc.spec.containers):
        if container is mc.flux_container or not container.ports:
            continue
        if not re.fullmatch(LABEL_1035, container.name):
            what = "a Service of this name leads to its ports, and such a name begins with a letter"
        elif container.name == mc.headless_name:
            what = "a Service of this name leads to its ports, and it is the name of the headless Service"
        else:
            continue
        yield Problem(f"spec.containers[{index}].name", what, "rename the container")


def _brokers_have_their_port(mc: MiniCluster) -> Iterator[Problem]:
    """On the node's network the containers of a pod share its ports with the broker, as the node counts them."""
    for index, container in enumerate(mc.spec.containers):
        if mc.spec.network.host_network and BROKER_PORT in container.ports:
            yield Problem(
                f"spec.containers[{index}].ports[{container.ports.index(BROKER_PORT)}]",
                f"{BROKER_PORT} is the broker's port, and on the node's network there is one of each",
                "choose another port, or leave it out",
            )


def _volumes_agree(mc: MiniCluster) -> Iterator[Problem]:
    """The same name in two containers of a pod is the same volume."""
    for at, containers in _pods(mc):
        first: dict[str, int] = {}
        for index, container in enumerate(containers):
            for name, volume in container.volumes.items():
                earlier = first.setdefault(name, index)
                if volume.source != containers[earlier].volumes[name].source:
                    yield Problem(
                        f"{at}[{index}].volumes.{name}",
                        f"{at}[{earlier}].volumes.{name} is of the same name, and says something else of where "
                        "it comes from",
                        "rename one of them, or say the same in both",
                    )


def _mounts_differ(mc: MiniCluster) -> Iterator[Problem]:
    """Two volumes cannot be seen at one path, and some paths are where Flux is."""
    for at, containers in _pods(mc):
        for index, container in enumerate(containers):
            seen = dict.fromkeys(_taken_paths(mc) if at == "spec.containers" else (), "kueue-flux")
            for name, volume in container.volumes.items():
                path = volume.mount_path.rstrip("/")
                if path in seen:
                    yield Problem(
                        f"{at}[{index}].volumes.{name}.path",
                        f"{path} is where the container sees {seen[path]}",
                        "choose another path",
                    )
                seen.setdefault(path, f"the volume {name}")


def _taken_paths(mc: MiniCluster) -> Iterator[str]:
    yield from TAKEN_PATHS
    if not mc.spec.flux.container.disable:
        yield mc.spec.flux.container.mount_path.rstrip("/")
        if not mc.spec.flux.container.image_volume:
            yield "/opt/software"  # views made by Spack are found there


def _pods(mc: MiniCluster) -> list[tuple[str, list[MiniClusterContainer]]]:
    return [("spec.containers", mc.spec.containers), ("spec.services", mc.spec.services)]


def _labels_are_well_formed(mc: MiniCluster) -> Iterator[Problem]:
    pod = mc.spec.pod
    yield from labels.malformed("spec.jobLabels", mc.spec.job_labels)
    yield from labels.malformed("spec.pod.labels", pod.labels)
    yield from labels.malformed("spec.pod.nodeSelector", pod.node_selector)
    yield from labels.malformed_keys("spec.pod.annotations", pod.annotations)
    yield from labels.malformed_keys("spec.pod.nodeAffinity", pod.node_affinity)


def _labels_are_free(mc: MiniCluster) -> Iterator[Problem]:
    """The adapter's labels, the Job controller's and most of Kueue's must not come from a user."""
    for key in mc.spec.job_labels:
        if labels.is_kueues(key) and key not in labels.READ_FROM_USERS:
            yield Problem(
                f"spec.jobLabels.{key}",
                "would change what Kueue makes of the Job",
                f"remove it; the labels that are read are {', '.join(labels.READ_FROM_USERS)}",
                "UnsupportedField",
            )
    for key in mc.spec.pod.labels:
        if labels.is_kueues(key):
            yield Problem(
                f"spec.pod.labels.{key}",
                "would make Kueue take each pod for a workload of its own",
                "put the queue's name into metadata.labels",
                "UnsupportedField",
            )
    for field, given in (("spec.jobLabels", mc.spec.job_labels), ("spec.pod.labels", mc.spec.pod.labels)):
        for key in given:
            if labels.is_reserved(key):
                yield Problem(f"{field}.{key}", "is set by kueue-flux or the Job controller", "remove it")


def _kueue_labels_agree(mc: MiniCluster) -> Iterator[Problem]:
    for key in labels.READ_FROM_USERS:
        ours, jobs = mc.metadata.labels.get(key), mc.spec.job_labels.get(key)
        if ours and jobs and ours != jobs:
            yield Problem(
                f"spec.jobLabels.{key}", f"{jobs!r} contradicts metadata.labels, {ours!r}", "remove one of the two"
            )


def _max_exec_time_is_seconds(mc: MiniCluster) -> Iterator[Problem]:
    places: list[tuple[str, Mapping[str, str]]] = [
        ("metadata.labels", mc.metadata.labels),
        ("spec.jobLabels", mc.spec.job_labels),
    ]
    for field, given in places:
        text = given.get(labels.MAX_EXEC_TIME)
        if text is not None and not re.fullmatch(r"[1-9][0-9]{0,8}", text):
            yield Problem(
                f"{field}.{labels.MAX_EXEC_TIME}",
                f"{text!r} is not a whole number of seconds above 0",
                'write it as text, e.g. "3600"',
            )


def _full_names_fit(mc: MiniCluster) -> Iterator[Problem]:
    (last,) = mc.hosts([max(mc.spec.size, mc.spec.max_size or 0) - 1])
    if mc.spec.network.set_hostname_as_fqdn and len(last) > FULL_HOSTNAME_LIMIT:
        yield Problem(
            "spec.network.setHostnameAsFQDN",
            f"the pods' full host names, such as {last}, would be longer than {FULL_HOSTNAME_LIMIT} characters",
            "shorten the names of the MiniCluster, its namespace or spec.network.headlessName, or leave it out",
        )


def _certificate_is_one(mc: MiniCluster) -> Iterator[Problem]:
    if not (text := mc.spec.flux.curve_cert):
        return
    try:
        certificate.read(text)
    except certificate.CertificateError as error:
        yield Problem(
            "spec.flux.curveCert",
            f"is no CURVE certificate: {error}",
            "give the text that flux keygen FILE writes, or leave it out for a new one at each admission",
        )


CHECKS: dict[Check, str] = {
    _name_is_set: "metadata.name",
    _commands_split: "spec.containers",
    _option_flags_are_flags: "spec.flux.optionFlags",
    _arguments_fit: "spec.containers",
    _cores_are_of_this_world: "spec.containers",
    _requests_within_limits: "spec.containers",
    _container_names_differ: "spec.containers",
    _flux_variables_are_not_secrets: "spec.containers",
    _only_flux_runs_jobs: "spec.containers",
    _nothing_around_what_is_not_wrapped: "spec.containers",
    _services_run_their_command_as_it_is: "spec.services",
    _sidecars_ports_have_names: "spec.containers",
    _brokers_have_their_port: "spec.containers",
    _volumes_agree: "spec.containers",
    _mounts_differ: "spec.containers",
    _labels_are_well_formed: "spec.jobLabels",
    _labels_are_free: "spec.jobLabels",
    _kueue_labels_agree: "spec.jobLabels",
    kueue_keys.annotations_are_read: kueue_keys.METADATA,
    kueue_keys.labels_are_read: "metadata.labels",
    kueue_keys.topology_is_one: kueue_keys.METADATA,
    _max_exec_time_is_seconds: "metadata.labels",
    _full_names_fit: "spec.network.setHostnameAsFQDN",
    _certificate_is_one: "spec.flux.curveCert",
    broker_config.problems: broker_config.FIELD,
}
"""The checks, and for each the field to name where it cannot be made."""
