"""A broker configuration that a user writes: read, and compared with the MiniCluster that it is to serve.

What it leaves out is filled in, and what only kueue-flux can know (paths, the domain of the hosts) is put right, where
the configuration is written for an admission. What is told here is what neither can mend.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kueue_flux.api import hostlist
from kueue_flux.api.problems import Problem, shown
from kueue_flux.api.rules import FLAT

if TYPE_CHECKING:
    from kueue_flux.api.minicluster import MiniCluster

FIELD = "spec.flux.brokerConfig"
TABLES = ("access", "bootstrap", "heartbeat", "modules", "resource", "sched-fluxion-qmanager", "tbon")
"""The tables of which kueue-flux sets keys."""

# The time that Python's library takes for a dotted key grows with the square of its length.
_PARTS = 64
_DEPTH = _PARTS + 16
_LONG_KEY = re.compile(rf"(?:\.[^.,=\n]*){{{_PARTS}}}")
_STRING_OR_COMMENT = re.compile(r"(?s:\"{3}.*?\"{3}|'{3}.*?'{3})|" r""""(?:[^"\\\n]|\\.)*"|'[^'\n]*'|#[^\n]*""")

# flux-config-bootstrap(5): the types of keys, and of those of an entry of `hosts`
_BOOTSTRAP: dict[str, type] = {
    "curve_cert": str,
    "default_port": int,
    "default_bind": str,
    "default_connect": str,
    "enable_ipv6": bool,
    "hosts": list,
}
_HOST = ("host", "bind", "connect", "parent")
_ENDPOINT = re.compile(r"tcp://[^\s\"\\]+:([0-9]{1,5}|%p)")
_ENDPOINTS = ("default_bind", "default_connect", "bind", "connect")
_TYPES = {str: "text", int: "a whole number", bool: "true or false", list: "a list"}

# How many hosts may be listed: each some times over, for the sake of its keys; a few more can be shown to be wrong.
_NAMED, _FEW_HOSTS = 4, 1000

# Where the Flux Operator, its forerunners and kueue-flux keep the certificate and R; nobody else writes there.
_PLACES = ("/mnt/flux/", "/etc/flux/", "/run/flux/", "/etc/curve/")


class BrokerConfigError(ValueError):
    """A text is no broker configuration."""


def read(text: str) -> dict[str, Any]:
    """Read a broker configuration; an empty text is an empty one.

    Raises:
        BrokerConfigError: It is not TOML, or nested too deeply, or has a number that is too large.
    """
    if _LONG_KEY.search(_STRING_OR_COMMENT.sub("", text)):
        raise BrokerConfigError(f"has a key of more than {_PARTS} parts")
    try:
        config = tomllib.loads(text)
        _check(config, "", _DEPTH)
    except tomllib.TOMLDecodeError as error:
        raise BrokerConfigError(f"is not TOML: {error}") from None
    except RecursionError:
        raise BrokerConfigError("is nested too deeply") from None
    except ValueError as error:  # a number or a date that Python cannot hold
        raise BrokerConfigError(f"cannot be read: {error}") from None
    return config


def _check(value: Any, where: str, depth: int) -> None:
    """Raise an error for what TOML 1.0 leaves to its readers, and Flux cannot read."""
    if depth < 0:
        raise RecursionError
    if isinstance(value, dict):
        for key, inner in value.items():
            _check(inner, f"{where}.{key}".strip("."), depth - 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, where, depth - 1)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{shown(where)} is a number of more than 64 bits")


def problems(mc: MiniCluster) -> Iterator[Problem]:
    """Yield what is wrong with a MiniCluster's own broker configuration."""
    try:
        config = read(mc.spec.flux.broker_config)
    except BrokerConfigError as error:
        yield Problem(FIELD, str(error), "correct it there")
        return
    no_tables = [name for name in TABLES if not isinstance(config.get(name, {}), dict)]
    if not no_tables and not isinstance(config.get("modules", {}).get("alternatives", {}), dict):
        no_tables = ["modules.alternatives"]
    for name in no_tables:
        yield Problem(FIELD, f"{name} must be a table", f"write [{name}] above its keys")
    if no_tables:
        return
    bootstrap = config.get("bootstrap", {})
    if wrong := list(_wrong_keys(bootstrap)):
        yield from wrong
        return
    yield from _paths(mc, config)
    yield from _endpoints(bootstrap)
    yield from _hosts(mc, bootstrap)
    yield from _contradictions(mc, config)


def entries(bootstrap: Mapping[str, Any], most: int = hostlist.MAX_HOSTS) -> list[tuple[list[str], dict[str, str]]]:
    """Return the entries of `hosts`, each as its hosts and its other keys.

    Args:
        bootstrap: The table.
        most: How many hosts all of them may name together.

    Raises:
        ValueError: An entry's host is no host list, or they name more.
    """
    found = []
    for entry in bootstrap.get("hosts", []):
        names = hostlist.decode(entry["host"], most)
        most -= len(names)
        found.append((names, {key: value for key, value in entry.items() if key != "host"}))
    return found


def has_tree(config: Mapping[str, Any]) -> bool:
    """Whether hosts name their parents, which makes the brokers' tree."""
    return any("parent" in entry for entry in config.get("bootstrap", {}).get("hosts", []))


def _wrong_keys(bootstrap: Mapping[str, Any]) -> Iterator[Problem]:
    for key, value in bootstrap.items():
        if key not in _BOOTSTRAP:
            yield Problem(FIELD, f"[bootstrap] knows no key {key}", f"remove it; it knows {', '.join(_BOOTSTRAP)}")
        elif not _is(_BOOTSTRAP[key], value):
            yield Problem(FIELD, f"[bootstrap] {key} must be {_TYPES[_BOOTSTRAP[key]]}", "change it")
        elif key == "default_port" and not 0 <= value <= 65535:
            yield Problem(FIELD, "[bootstrap] default_port must be 0 to 65535", "change it")
    hosts = bootstrap.get("hosts", [])
    for index, entry in enumerate(hosts if isinstance(hosts, list) else []):
        text = isinstance(entry, dict) and all(isinstance(value, str) for value in entry.values())
        if not text or "host" not in entry or set(entry) - set(_HOST):
            told = f"[bootstrap] hosts[{index}] must be a table of text with host, and may have {', '.join(_HOST[1:])}"
            yield Problem(FIELD, told, 'write it as { host = "NAMES" }')


def _is(kind: type, value: Any) -> bool:
    return type(value) is kind  # true and false are no numbers


def _paths(mc: MiniCluster, config: Mapping[str, Any]) -> Iterator[Problem]:
    places = (*_PLACES, f"{mc.spec.flux.container.mount_path.rstrip('/')}/")
    certificate = config.get("bootstrap", {}).get("curve_cert", "")
    if certificate and not certificate.startswith(places):
        remedy = "leave it out, and name a Secret with your certificate in spec.flux.curveCertSecret"
        yield Problem(FIELD, f"[bootstrap] curve_cert: there is no certificate at {shown(certificate)}", remedy)
    resources = config.get("resource", {}).get("path", "")
    if not isinstance(resources, str) or (resources and not resources.startswith(places)):
        remedy = "leave it out for what was admitted, or describe your own in resource.config (flux-config-resource(5))"
        yield Problem(FIELD, f"[resource] path: there are no resources at {shown(resources)}", remedy)


def _endpoints(bootstrap: Mapping[str, Any]) -> Iterator[Problem]:
    for table in (bootstrap, *bootstrap.get("hosts", [])):
        for key in _ENDPOINTS:
            if key in table and not _ENDPOINT.fullmatch(table[key]):
                told = f"[bootstrap] {key}: {shown(table[key])} is no ZeroMQ endpoint by TCP with a port"
                yield Problem(FIELD, told, "write it as tcp://eth0:%p or tcp://%h:%p")


def _hosts(mc: MiniCluster, bootstrap: Mapping[str, Any]) -> Iterator[Problem]:
    if not bootstrap.get("hosts"):
        return
    try:
        listed = entries(bootstrap, max(_FEW_HOSTS, _NAMED * mc.spec.size))
    except ValueError as error:
        yield Problem(FIELD, f"[bootstrap] hosts: {error}", 'write it as { host = "mc-[0-3]" }')
        return
    if not mc.name:
        told = "[bootstrap] hosts cannot be known while metadata.generateName leaves the name open"
        yield Problem(FIELD, told, "leave hosts out, or set metadata.name")
        return
    pods = mc.hosts(range(mc.spec.size))
    known = dict.fromkeys(host for names, _ in listed for host in names)
    given = list(known)
    if [label(host) for host in given] != [label(pod) for pod in pods]:
        right = hostlist.encode(pods)
        told = f"[bootstrap] hosts are {shown(hostlist.encode(given))}, and the pods' names, by rank, {shown(right)}"
        yield Problem(FIELD, told, f'leave hosts out, or list {{ host = "{right}" }} first')
    elif {"." in host for host in given} != {"." in pod for pod in pods}:
        full, option = ("full", "true") if "." in given[0] else ("short", "false")
        told = f"[bootstrap] hosts are {full} names, and those of the pods are not"
        yield Problem(FIELD, told, f"set spec.network.setHostnameAsFQDN: {option}, or leave hosts out")
    for names, keys in listed:
        parent = keys.get("parent")
        if parent is not None and (parent not in known or parent in names):
            told = f"[bootstrap] hosts: {shown(parent)} cannot be the parent of {names[0]}"
            yield Problem(FIELD, told, "name another host of the list")


def label(host: str) -> str:
    """Return a host's name without its domain."""
    return host.partition(".")[0]


def _contradictions(mc: MiniCluster, config: Mapping[str, Any]) -> Iterator[Problem]:
    flux = mc.spec.flux
    said = [
        ("topology", flux.topology, "tbon", "topo"),
        ("scheduler.queuePolicy", flux.scheduler.queue_policy, "sched-fluxion-qmanager", "queue-policy"),
    ]
    for field, value, table, key in said:
        own = config.get(table, {}).get(key)
        if value and own not in (None, value):
            yield Problem(f"spec.flux.{field}", f"brokerConfig says {shown(own)} in [{table}]", "remove one of the two")
    if flux.topology and has_tree(config):
        told = "the hosts in brokerConfig have parents, which make another tree"
        yield Problem("spec.flux.topology", told, "remove the topology or the parents")
    if flux.minimal_service and (has_tree(config) or config.get("tbon", {}).get("topo", FLAT) not in ("custom", FLAT)):
        told = "the brokers of brokerConfig's tree connect to others than the lead, which alone would have a name"
        yield Problem("spec.flux.minimalService", told, "remove it or the tree")
    if flux.scheduler.simple and "sched" in config.get("modules", {}).get("alternatives", {}):
        told = "brokerConfig chooses a scheduler in [modules.alternatives]"
        yield Problem("spec.flux.scheduler.simple", told, "remove one of the two")
