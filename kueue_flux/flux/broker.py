"""`broker.toml`, the configuration from which every broker learns its rank, its peers and its resources.

All brokers of a MiniCluster read the same text; each finds its rank by looking for its own host name in the
list.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kueue_flux.flux import hostlist, layout

DEFAULT_PORT = 8050

_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_INTERFACE = re.compile(r"[A-Za-z0-9_.:-]{1,15}|\*")
_DURATION = re.compile(r"[0-9]+(\.[0-9]+)?(ms|s|m|h|d)?")  # RFC 23
_TOPOLOGY = re.compile(r"custom|binomial|kary:[0-9]+|mincrit(:[0-9]+)?")
_POLICY = re.compile(r"[a-z][a-z0-9-]*")
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

    Raises:
        ValueError: A value is not what the broker would accept.

    Source: flux-config-bootstrap(5), flux-config-tbon(5), flux-config-resource(5), flux-config-access(5).
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

    def __post_init__(self) -> None:
        names = [host.name for host in self._entries()]
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
        for host in self._entries():
            _check("bind endpoint", _ENDPOINT, host.bind)
            _check("connect endpoint", _ENDPOINT, host.connect)

    def _entries(self) -> list[Host]:
        return [Host(host) if isinstance(host, str) else host for host in self.hosts]

    def host_tables(self) -> list[dict[str, str]]:
        """The `hosts` array of `[bootstrap]`: hosts without endpoints of their own share one entry."""
        tables: list[dict[str, str]] = []
        plain: list[str] = []
        for host in self._entries():
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


def broker_toml(config: BrokerConfig) -> str:
    """Write the broker configuration.

    Args:
        config: What the brokers have to know.

    Returns:
        TOML text, the same for all brokers.
    """
    domain = f".{config.domain}" if config.domain else ""
    lines = [
        "[bootstrap]",
        f"curve_cert = {_quote(config.curve_path)}",
        f"default_port = {config.port}",
        f"default_bind = {_quote(f'tcp://{config.interface}:%p')}",
        f"default_connect = {_quote(f'tcp://%h{domain}:%p')}",
        "hosts = [",
        *(f"    {_inline(table)}," for table in config.host_tables()),
        "]",
    ]
    if config.resources_path is not None:
        # noverify: a container sees the node's cores, R grants those that were admitted
        lines += ["", "[resource]", f"path = {_quote(config.resources_path)}", "noverify = true"]
    tbon = {"connect_timeout": config.connect_timeout, "topo": config.topology}
    settings = [f"{key} = {_quote(value)}" for key, value in tbon.items() if value is not None]
    if settings:
        lines += ["", "[tbon]", *settings]
    if config.heartbeat_timeout is not None:
        # without it ZeroMQ goes on looking for a lead that is gone, and the worker would never know
        lines += ["", "[heartbeat]", f"timeout = {_quote(config.heartbeat_timeout)}"]
    if config.allow_root_owner:
        lines += ["", "[access]", "allow-root-owner = true"]
    if config.queue_policy is not None:
        lines += ["", "[sched-fluxion-qmanager]", f"queue-policy = {_quote(config.queue_policy)}"]
    return "\n".join(lines) + "\n"


def _check(what: str, pattern: re.Pattern[str], value: str | None) -> None:
    if value is not None and not pattern.fullmatch(value):
        raise ValueError(f"{value!r} is no {what} that Flux accepts")


def _inline(table: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{key} = {_quote(value)}" for key, value in table.items()) + " }"


def _quote(text: str) -> str:
    """A TOML basic string (TOML 1.0, "String"): quotes, backslashes and control characters escaped."""
    escaped = "".join(f"\\{c}" if c in '"\\' else f"\\u{ord(c):04x}" if c < " " or c == "\x7f" else c for c in text)
    return f'"{escaped}"'
