"""Host lists as Flux and its users write them (RFC 29), so that a thousand hosts are one line of configuration.

A list is comma-separated expressions `prefix[ids]suffix`, where ids are numbers and ranges:
`mc-[0-2,7],login`. Order and repetition are kept. Where Flux and the RFC differ (zero padding inside one bracket),
this module reads as Flux does and writes only what both read alike.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from kueue_flux.api.problems import shown

MAX_HOSTS = 1 << 20
"""Most hosts that one range may hold: Flux refuses larger ones."""

_HOST = re.compile(r"[!-+\--Z\\^-~]+")  # printable ASCII, no blank, comma or square bracket (RFC 29)
# the number by which hosts of one kind differ: the last characters of the name, else those of its first label
_NUMBERED = (re.compile(r"(.*?)([0-9]+)()"), re.compile(r"([^.]*?)([0-9]+)(\..*)"))
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_MAX_LENGTH = 253  # characters of a DNS name
_MAX_DIGITS = 18  # Flux keeps a host's number in 64 bits and drops the host silently when it does not fit


def encode(hosts: Iterable[str]) -> str:
    """Write host names as a host list.

    Args:
        hosts: Host names, in order; names may repeat.

    Returns:
        The host list, empty for no hosts. Names that differ in a trailing number share one bracket where they
        follow each other: `mc-0, mc-1, mc-2` is `mc-[0-2]`, and with a domain `mc-[0-2].example.org`.

    Raises:
        ValueError: A name is empty, holds a character that a host list cannot carry, or ends in a number of
            more than 18 digits.

    Source: RFC 29, "Hostlist Format".
    """
    return ",".join(_expressions(hosts))


def decode(text: str, most: int = MAX_HOSTS) -> list[str]:
    """Read a host list.

    Args:
        text: The host list; may be empty.
        most: Of how many hosts it may be; those that are too many are never expanded.

    Returns:
        The host names in order, repeated ones included. Leading zeros of a range's first number give the width
        of all its numbers: `a[008-10]` is `a008, a009, a010`.

    Raises:
        ValueError: The text is no host list; the message quotes the expression and says what is wrong.

    Source: RFC 29, "Hostlist Format".
    """
    hosts = (host for expression in _split(text) for host in _expand(expression))
    found = list(islice(hosts, most + 1))
    if len(found) > most:
        raise ValueError(f"host list {shown(text)} has more than {most} hosts")
    return found


class _Group:
    """Hosts with one prefix and suffix whose numbers can stand in one bracket: all padded alike."""

    def __init__(self, prefix: str, digits: str, suffix: str) -> None:
        self.prefix, self.suffix = prefix, suffix
        self.pad = len(digits) if digits.startswith("0") else 0
        self.ranges = [[int(digits), int(digits)]]

    def takes(self, prefix: str, digits: str, suffix: str) -> bool:
        alike = (prefix, suffix) == (self.prefix, self.suffix)
        return alike and bool(digits) and f"{int(digits):0{self.pad}d}" == digits

    def add(self, number: int) -> None:
        if number == self.ranges[-1][1] + 1:
            self.ranges[-1][1] = number
        else:
            self.ranges.append([number, number])

    def __str__(self) -> str:
        first, last = self.ranges[0]
        if len(self.ranges) == 1 and first == last:
            return f"{self.prefix}{first:0{self.pad}d}{self.suffix}"
        return f"{self.prefix}[{','.join(self._range(*r) for r in self.ranges)}]{self.suffix}"

    def _range(self, low: int, high: int) -> str:
        return f"{low:0{self.pad}d}" if low == high else f"{low:0{self.pad}d}-{high:0{self.pad}d}"


def _expressions(hosts: Iterable[str]) -> Iterator[str]:
    group: _Group | None = None
    for host in hosts:
        prefix, digits, suffix = _parse_host(host)
        if group and group.takes(prefix, digits, suffix):
            group.add(int(digits))
            continue
        if group:
            yield str(group)
        group = _Group(prefix, digits, suffix) if digits else None
        if group is None:
            yield host
    if group:
        yield str(group)


def _parse_host(host: str) -> tuple[str, str, str]:
    if not _HOST.fullmatch(host):
        raise ValueError(f"{host!r} is no host name: printable ASCII without blanks, commas, square brackets")
    found = next((match for pattern in _NUMBERED if (match := pattern.fullmatch(host))), None)
    prefix, digits, suffix = found.groups() if found else (host, "", "")
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"{host!r} has a number of more than {_MAX_DIGITS} digits")
    return prefix, digits, suffix


def _split(text: str) -> Iterator[str]:
    """Split at the commas outside brackets."""
    depth, start = 0, 0
    for position, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        if depth not in (0, 1):
            raise ValueError(f"unbalanced square brackets in host list {shown(text)}")
        if character == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    if depth:
        raise ValueError(f"unbalanced square brackets in host list {shown(text)}")
    if text:
        yield text[start:]


def _expand(expression: str) -> Iterator[str]:
    if not expression:
        raise ValueError("empty expression in host list: two commas in a row, or one at an end")
    prefix, bracket, rest = expression.partition("[")
    ids, _, suffix = rest.partition("]")
    if "[" in suffix:
        # Flux would take the second bracket as text and name hosts that cannot exist
        raise ValueError(f"{shown(expression)} has more than one bracket; a host list expression has at most one")
    if bracket and len(prefix) + len(suffix) > _MAX_LENGTH:
        raise ValueError(f"{shown(expression)} has a name of more than {_MAX_LENGTH} characters")
    for part in (prefix, suffix):
        if part and not _HOST.fullmatch(part):
            raise ValueError(f"{shown(expression)} holds a character that host names cannot have")
    if not bracket:
        yield expression
        return
    for item in ids.split(","):
        match = _RANGE.fullmatch(item)
        if not match:
            raise ValueError(f"{shown(item)} in {shown(expression)} is neither a number nor a range like 0-7")
        low, high = match.group(1), match.group(2) or match.group(1)
        if max(len(low), len(high)) > _MAX_DIGITS or int(high) - int(low) >= MAX_HOSTS:
            raise ValueError(f"{shown(item)} in {shown(expression)} is too large: at most {MAX_HOSTS} hosts")
        if int(low) > int(high):
            raise ValueError(f"{shown(item)} in {shown(expression)} runs backwards")
        for number in range(int(low), int(high) + 1):
            yield f"{prefix}{number:0{len(low)}d}{suffix}"
