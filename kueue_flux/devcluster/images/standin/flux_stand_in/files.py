"""The files that the adapter writes, read as Flux reads them."""

import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Config:
    """What broker.toml says, and the files that it names.

    Args:
        hosts: in rank order.
        bind: endpoint on which the lead listens.
        connect: endpoint at which it is reached.
        public: the key that all share, Z85.
        secret: its other half.
        cores: how many cores the instance has; None where it was not told.
    """

    hosts: list[str]
    bind: str
    connect: str
    public: bytes
    secret: bytes = field(repr=False)
    cores: int | None

    @classmethod
    def read(cls, folder: Path) -> "Config":
        """Read the configuration as a broker does."""
        values = tomllib.loads((folder / "broker.toml").read_text())
        boot = values["bootstrap"]
        hosts = [name for entry in boot["hosts"] for name in decode(entry["host"])]
        lead = {"bind": boot["default_bind"], "connect": boot["default_connect"], **boot["hosts"][0]}
        port = str(boot.get("default_port", 8050))
        public, secret = read_certificate(Path(boot["curve_cert"]))
        resources = values.get("resource", {}).get("path")
        return cls(
            hosts=hosts,
            bind=lead["bind"].replace("%p", port),
            connect=lead["connect"].replace("%h", hosts[0]).replace("%p", port),
            public=public,
            secret=secret,
            cores=count_cores(Path(resources)) if resources else None,
        )


def decode(text: str) -> list[str]:
    """The names of a list with at most one bracket a name (RFC 29), as in `a,b-[0-2,7]`; also of an idset (RFC 22)."""
    names = []
    for name in re.findall(r"(?:\[[^]]*\]|[^,[])+", text):
        before, _, rest = name.partition("[")
        inside, _, after = rest.partition("]")
        for part in inside.split(","):
            first, _, last = part.partition("-")
            numbers = [first] if not last else [f"{n:0{len(first)}}" for n in range(int(first), int(last) + 1)]
            names += [f"{before}{number}{after}" for number in numbers]
    return names


def read_certificate(path: Path) -> tuple[bytes, bytes]:
    """The keys of a certificate (ZPL, ZeroMQ RFC 4); refused as by Flux where others can read it."""
    if path.stat().st_mode & 0o077:
        raise SystemExit(f"flux-broker: {path} can be read by others")
    pairs = dict(re.findall(r'^\s+([\w.-]+)\s*=\s*"([^"]*)"', path.read_text(), re.MULTILINE))
    if not pairs.get("keygen.hostname"):
        raise SystemExit(f"flux-broker: {path} has no keygen.hostname")
    return pairs["public-key"].encode(), pairs["secret-key"].encode()


def count_cores(path: Path) -> int:
    """How many cores a resource set has (RFC 20)."""
    entries = json.loads(path.read_text())["execution"]["R_lite"]
    return sum(len(decode(f"[{e['rank']}]")) * len(decode(f"[{e['children']['core']}]")) for e in entries)
