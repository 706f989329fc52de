"""`broker.toml`, the configuration from which every broker learns its rank, its peers and its resources.

All brokers of a MiniCluster read the same text; each finds its rank by looking for its own host name in the
list.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kueue_flux.api import broker_config, hostlist
from kueue_flux.flux import layout, toml

DEFAULT_PORT = 8050

_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_INTERFACE = re.compile(r"[A-Za-z0-9_.:-]{1,15}|\*")
_DURATION = re.compile(r"[0-9]+(\.[0-9]+)?(ms|s|m|h|d)?")  # RFC 23
_TOPOLOGY = re.compile(r"custom|binomial|kary:[0-9]+|mincrit(:[0-9]+)?")
_POLICY = re.compile(r"[a-z][a-z0-9-]*")
_SIMPLE = dict.fromkeys(("sched", "feasibility"), "sched-simple")
_ENDPOINT = re.compile(r"tcp://[^\s\"\\*]+:([0-9]{1,5}|%p)|tcp://\*:([0-9]{1,5}|%p)")


@dataclass(frozen=True, slots=True)
class Host:
    """A host whose endpoints differ from the others'.

    Args:
        name: Host name, as `hostname` prints it on that host.
        bind: ZeroMQ endpoint on which its broker listens, e.g. `tcp://lo:8051`; None for the common one.
        connect: ZeroMQ endpoint at which its peers reach it; None for the common one.
    """

    name: str
    bind: str | None = None
    connect: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """What the brokers of one Flux instance have to know.

    Args:
        hosts: Hosts in rank order, the lead first; at least one, all names different.
        domain: DNS domain in which the hosts are found, e.g. `mc.default.svc.cluster.local`; a host named
            `mc-0` is reached at `mc-0.<domain>`. Empty when the plain host names resolve.
        port: TCP port on which each broker listens, 1-65535.
        interface: Network interface to which it binds.
        connect_timeout: Time after which an attempt to connect to the parent broker is given up and begun anew,
            an RFC 23 duration such as `2s`; None for Flux's own (30s).
        heartbeat_timeout: Time without a sign of life after which a worker gives its lead up and ends, an RFC 23
            duration of at least 4s; None for Flux's own (5m).
        curve_path: Path of the CURVE certificate, mode 0400 and owned by the broker's user.
        resources_path: Path of the resource set R; None lets Flux discover what the hosts have.
        allow_root_owner: Let root act as the instance's owner; wanted where containers run as root.
        topology: Shape of the overlay network, e.g. `kary:2` or `binomial`; None for Flux's own (flat).
        queue_policy: Fluxion's queue policy, e.g. `fcfs` or `easy`; None for its own.
        sched_simple: Schedule by sched-simple, even where there is Fluxion.

    Raises:
        ValueError: A value is not what the broker would accept.

    Source: flux-config-bootstrap(5), flux-config-tbon(5), flux-config-resource(5), flux-config-access(5),
        flux-modprobe(1).
    """

    hosts: Sequence[str | Host]
    domain: str = ""
    port: int = DEFAULT_PORT
    interface: str = "eth0"
    connect_timeout: str | None = "2s"
    heartbeat_timeout: str | None = "1m"
    curve_path: str = layout.CURVE_COPY
    resources_path: str | None = layout.RESOURCES
    allow_root_owner: bool = False
    topology: str | None = None
    queue_policy: str | None = None
    sched_simple: bool = False

    def __post_init__(self) -> None:
        names = [host.name for host in self.entries()]
        if not names or len(set(names)) != len(names):
            raise ValueError("a Flux instance needs at least one host, and each host once")
        for name in names:
            _check("host name", _DOMAIN, name)
        if self.domain:
            _check("domain", _DOMAIN, self.domain)
        if not 1 <= self.port <= 65535:
            raise ValueError(f"port must be 1-65535, not {self.port}")
        _check("interface", _INTERFACE, self.interface)
        _check("connect timeout", _DURATION, self.connect_timeout)
        _check("heartbeat timeout", _DURATION, self.heartbeat_timeout)
        _check("topology", _TOPOLOGY, self.topology)
        _check("queue policy", _POLICY, self.queue_policy)
        for host in self.entries():
            _check("bind endpoint", _ENDPOINT, host.bind)
            _check("connect endpoint", _ENDPOINT, host.connect)

    @property
    def suffix(self) -> str:
        """What follows a host's name where it is looked up."""
        return f".{self.domain}" if self.domain else ""

    def entries(self) -> list[Host]:
        """The hosts in rank order."""
        return [Host(host) if isinstance(host, str) else host for host in self.hosts]

    def host_tables(self) -> list[dict[str, str]]:
        """The `hosts` array of `[bootstrap]`: hosts without endpoints of their own share one entry."""
        tables: list[dict[str, str]] = []
        plain: list[str] = []
        for host in self.entries():
            own = {key: value for key in ("bind", "connect") if (value := getattr(host, key)) is not None}
            if not own:
                plain.append(host.name)
                continue
            if plain:
                tables.append({"host": hostlist.encode(plain)})
                plain = []
            tables.append({"host": host.name, **own})
        if plain:
            tables.append({"host": hostlist.encode(plain)})
        return tables


def broker_toml(config: BrokerConfig, given: Mapping[str, Any] | None = None) -> str:
    """Write the broker configuration.

    Args:
        config: What the brokers have to know.
        given: A configuration that the user has written, without problems (`api.broker_config`). What it says goes
            before what is said here, but for the paths of certificate and R, the hosts that there are, and the domain
            in which they are reached.

    Returns:
        TOML text, the same for all brokers.
    """
    tables = _tables(config)
    return toml.dumps(_merged(config, tables, given) if given else tables)


def _tables(config: BrokerConfig) -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {
        "bootstrap": {
            "curve_cert": config.curve_path,
            "default_port": config.port,
            "default_bind": f"tcp://{config.interface}:%p",
            "default_connect": f"tcp://%h{config.suffix}:%p",
            "hosts": config.host_tables(),
        },
        # noverify: a container sees the node's cores, R grants those that were admitted
        "resource": {"path": config.resources_path, "noverify": True} if config.resources_path is not None else {},
        "tbon": {"connect_timeout": config.connect_timeout, "topo": config.topology},
        # without it ZeroMQ goes on looking for a lead that is gone, and the worker would never know
        "heartbeat": {"timeout": config.heartbeat_timeout},
        "access": {"allow-root-owner": True} if config.allow_root_owner else {},
        "modules": {"alternatives": _SIMPLE} if config.sched_simple else {},
        "sched-fluxion-qmanager": {"queue-policy": config.queue_policy},
    }
    said = {name: {key: v for key, v in table.items() if v is not None} for name, table in tables.items()}
    return {name: table for name, table in said.items() if table}


def _merged(config: BrokerConfig, tables: dict[str, dict[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**given, **{name: {**table, **given.get(name, {})} for name, table in tables.items()}}
    bootstrap = merged["bootstrap"]
    bootstrap["curve_cert"] = config.curve_path
    bootstrap["default_connect"] = _reachable(config, bootstrap["default_connect"])
    bootstrap["hosts"] = _present(config, given) or config.host_tables()
    if "config" in given.get("resource", {}):  # resources described in place take R's
        del merged["resource"]["path"]
    elif "resource" in tables:
        merged["resource"]["path"] = config.resources_path
    return merged


def _present(config: BrokerConfig, given: Mapping[str, Any]) -> list[dict[str, str]]:
    """The entries of `hosts`, without the hosts that are not there; who has lost its parent is the lead's child."""
    names = {broker_config.label(host.name): host.name for host in config.entries()}
    tables = []
    for hosts, keys in broker_config.entries(given.get("bootstrap", {})):
        present = [name for host in hosts if (name := names.get(broker_config.label(host)))]
        if "connect" in keys:
            keys["connect"] = _reachable(config, keys["connect"])
        if (parent := keys.pop("parent", None)) and (name := names.get(broker_config.label(parent))):
            keys["parent"] = name
        if present:
            tables.append({"host": hostlist.encode(present), **keys})
    return tables


def _reachable(config: BrokerConfig, endpoint: str) -> str:
    """An endpoint to connect to; one of the hosts' is put into the domain in which DNS knows them."""
    host, colon, port = endpoint.removeprefix("tcp://").rpartition(":")
    first = broker_config.label(host)
    names = {broker_config.label(each.name): each.name for each in config.entries()}
    if first != "%h" and first not in names:
        return endpoint
    return f"tcp://{names.get(first, first)}{config.suffix}{colon}{port}"


def _check(what: str, pattern: re.Pattern[str], value: str | None) -> None:
    if value is not None and not pattern.fullmatch(value):
        raise ValueError(f"{value!r} is no {what} that Flux accepts")
