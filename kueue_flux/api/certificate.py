"""The CURVE certificate that a user writes into a specification: read as Flux reads it, or told what is wrong with it.

The text holds a secret key, so nothing of it stands in an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

KEYS = ("public-key", "secret-key")
SECTIONS = ("metadata", "curve")

_ENTRY = re.compile(r'([A-Za-z0-9.-]+)\s*=\s*"([A-Za-z0-9.\-:+=^!/*?&<>()\[\]{}@%$# \t]*)"')
_Z85 = re.compile(r"[A-Za-z0-9.\-:+=^!/*?&<>()\[\]{}@%$#]+")
_KEY_LENGTH = 40  # 32 bytes in Z85
_LINE_LENGTH = 254  # what Flux's reader takes in at once


class CertificateError(ValueError):
    """A text is no CURVE certificate; says what is wrong with which line, and nothing of what it says."""


@dataclass(frozen=True, slots=True)
class GivenCertificate:
    """What a certificate says.

    Args:
        metadata: Its metadata by key, in order.
        public_key: Public half of the key, 40 characters of Z85.
        secret_key: Secret half, likewise.
    """

    metadata: dict[str, str]
    public_key: str
    secret_key: str = field(repr=False)


def read(text: str) -> GivenCertificate:
    """Read a certificate, as strictly as Flux does.

    Args:
        text: What `flux keygen` writes: unindented sections `metadata` and `curve`, in them `key = "value"`.

    Raises:
        CertificateError: Flux would not take it.

    Source: flux-keygen(1); flux-core, src/common/libzmqutil/cert.c; Z85 is ZeroMQ RFC 32.
    """
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        if "-----BEGIN" in words:
            raise CertificateError(f"line {number} begins a PEM certificate, as TLS has it; Flux needs a CURVE one")
        if len(line.encode()) > _LINE_LENGTH:
            raise CertificateError(f"line {number} is longer than {_LINE_LENGTH} bytes")
        indented = line[0] in " \t"
        if not indented and words in SECTIONS:
            section = words
            continue
        entry = _ENTRY.fullmatch(words)
        if not (indented and section and entry):
            raise CertificateError(f'line {number} is neither metadata, curve nor, indented below one, key = "value"')
        key, value = entry.groups()
        if key in found[section]:
            raise CertificateError(f"line {number} repeats an entry")
        found[section][key] = value
    if set(found["curve"]) - set(KEYS):
        raise CertificateError(f"curve holds an entry that is neither {' nor '.join(KEYS)}")
    for key in KEYS:
        _check_key(key, found["curve"].get(key))
    given = GivenCertificate(found["metadata"], *(found["curve"][key] for key in KEYS))
    if _public_half(given.secret_key) != given.public_key:
        raise CertificateError("the two keys are no pair: the public one is not the secret one's")
    return given


def _check_key(name: str, value: str | None) -> None:
    if value is None:
        raise CertificateError(f"there is no {name} below curve")
    if len(value) != _KEY_LENGTH:
        raise CertificateError(f"{name} has {len(value)} characters, and a key {_KEY_LENGTH}")
    if not _Z85.fullmatch(value):
        raise CertificateError(f"{name} has a character that is not one of Z85")


def _public_half(secret_key: str) -> str:
    import zmq  # the command line starts often, and a certificate is rare

    try:
        return zmq.curve_public(secret_key.encode("ascii")).decode("ascii")
    except zmq.ZMQError:
        raise CertificateError("secret-key is no Z85 number of 32 bytes") from None
