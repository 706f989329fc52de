"""Checks of a MiniCluster that only Python can make: they need a parser, or more than CEL's budget allows.

Each check is a small generator of problems; `validation` runs them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from kueue_flux.api import broker_config, certificate, command, labels, quantity
from kueue_flux.api.mode import Mode
from kueue_flux.api.problems import Problem
from kueue_flux.api.rules import full_name

if TYPE_CHECKING:
    from kueue_flux.api.minicluster import MiniCluster


FULL_HOSTNAME_LIMIT = 64
"""Characters that Linux allows a host name to have; a kubelet starts no pod with a longer one."""


def _name_is_set(mc: MiniCluster) -> Iterator[Problem]:
    if not full_name(mc):
        yield Problem("metadata.name", "is missing", "set it")


def _commands_split(mc: MiniCluster) -> Iterator[Problem]:
    flux = mc.flux_container
    path = f"spec.containers[{mc.spec.containers.index(flux)}]"
    if mc.mode in (Mode.RUN, Mode.LAUNCHER):  # elsewhere it is no command, or several
        yield from _split(f"{path}.command", flux.command, command.argv)
    yield from _split(f"{path}.commands.prefix", flux.commands.prefix)
    yield from _split("spec.flux.submitCommand", mc.spec.flux.submit_command)


def _option_flags_are_flags(mc: MiniCluster) -> Iterator[Problem]:
    field, flags = "spec.flux.optionFlags", mc.spec.flux.option_flags
    problems = list(_split(field, flags))
    yield from problems
    if not problems and flags.strip() and not flags.strip().startswith("-"):
        yield Problem(field, f"{flags!r} does not begin with a flag", "write flags such as -ompi=openmpi@5")


def _split(field: str, text: str, split: Callable[[str], object] = command.split) -> Iterator[Problem]:
    try:
        split(text)
    except command.ShellSyntaxError as error:
        yield Problem(field, error.message, error.remedy, "UnsupportedField")
    except command.CommandError as error:
        yield Problem(field, error.message, error.remedy)


def _requests_within_limits(mc: MiniCluster) -> Iterator[Problem]:
    places = [(f"spec.containers[{i}]", container.resources) for i, container in enumerate(mc.spec.containers)]
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


def _flux_variables_are_not_secrets(mc: MiniCluster) -> Iterator[Problem]:
    for index, container in enumerate(mc.spec.containers):
        for name in container.secrets:
            if name in mc.spec.flux.environment:
                yield Problem(
                    f"spec.containers[{index}].secrets.{name}",
                    "spec.flux.environment sets the same variable",
                    "remove one of the two",
                )


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


CHECKS: list[Callable[[MiniCluster], Iterator[Problem]]] = [
    _name_is_set,
    _commands_split,
    _option_flags_are_flags,
    _requests_within_limits,
    _container_names_differ,
    _flux_variables_are_not_secrets,
    _labels_are_well_formed,
    _labels_are_free,
    _kueue_labels_agree,
    _max_exec_time_is_seconds,
    _full_names_fit,
    _certificate_is_one,
    broker_config.problems,
]
