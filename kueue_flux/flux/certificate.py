"""The CURVE certificate that brokers share: made in process, so that no pod has to run `flux keygen` first, or given.

The whole of it is a secret. It is kept where neither repr, str, a traceback nor a log record shows it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import zmq

from kueue_flux.api import certificate

# what flux-core's reader lets pass in a metadata value (src/common/libzmqutil/cert.c); with anything else in it
# the text is no certificate
_VALUE = re.compile(r"[A-Za-z0-9.\-:+=^!/*?&<>()\[\]{}@%$# \t]{1,200}")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate; its text is a secret and shows only where `reveal` is called.

    Args:
        hostname: Host for which it was made.
        public_key: Public half of the key, 40 characters of Z85.
    """

    hostname: str
    public_key: str
    _text: str = field(repr=False)

    def reveal(self) -> str:
        """The certificate's text, with the secret key: for the Secret and nothing else."""
        return self._text


def new_certificate(hostname: str, *, now: datetime, userid: int = 0) -> Certificate:
    """Make a certificate with a new key pair.

    Args:
        hostname: Name for the certificate, shown in Flux's logs; without one the peers do not connect.
        now: Time to be noted in it, to the second.
        userid: Numeric user to be noted in it.

    Returns:
        The certificate, different at each call.

    Raises:
        ValueError: The host name is empty or holds a character that Flux does not read back.

    Source: flux-keygen(1); the text is ZPL (ZeroMQ RFC 4), the keys Z85 (ZeroMQ RFC 32) of CurveZMQ (RFC 26).
    """
    if not _VALUE.fullmatch(hostname) or hostname != hostname.strip():
        raise ValueError(f"{hostname!r} is no host name for a certificate")
    public, secret = (key.decode("ascii") for key in zmq.curve_keypair())
    metadata = {
        "name": hostname,
        "keygen.hostname": hostname,
        "keygen.time": now.strftime("%Y-%m-%dT%H:%M:%S"),
        "keygen.userid": str(userid),
        "keygen.zmq-version": zmq.zmq_version(),
    }
    return Certificate(hostname=hostname, public_key=public, _text=_text(metadata, public, secret))


def given_certificate(text: str, hostname: str) -> Certificate:
    """Take over a certificate that somebody else has made.

    Args:
        text: The certificate, as `flux keygen` writes it.
        hostname: Name for it where it has none: without one the peers do not connect.

    Raises:
        CertificateError: It is none that Flux would take.
    """
    given = certificate.read(text)
    metadata = {"name": hostname, "keygen.hostname": hostname} | given.metadata
    return Certificate(
        hostname=metadata["keygen.hostname"],
        public_key=given.public_key,
        _text=_text(metadata, given.public_key, given.secret_key),
    )


def _text(metadata: Mapping[str, str], public: str, secret: str) -> str:
    lines = [
        "#  ZeroMQ CURVE **Secret** Certificate",
        "#  DO NOT DISTRIBUTE",
        "",
        "metadata",
        *(f'    {key} = "{value}"' for key, value in metadata.items()),
        "curve",
        f'    public-key = "{public}"',
        f'    secret-key = "{secret}"',
    ]
    return "\n".join(lines) + "\n"
