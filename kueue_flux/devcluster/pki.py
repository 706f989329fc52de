"""Certificates of a control plane that runs as plain processes.

Its components know each other by client certificates (the user is the common name, the groups are the
organisations), so a cluster of our own needs an authority of its own. Elliptic curve keys, because they are
made in a millisecond where RSA keys take a tenth of a second each: that is felt in a cluster that starts in
seconds.

Source: https://kubernetes.io/docs/setup/best-practices/certificates/
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Long enough that no dev cluster outlives it; Kueue renews what has less than 90 days left.
VALIDITY = timedelta(days=5 * 365)
# Clocks of the machine and of whatever reads the certificate need not agree to the second.
CLOCK_SKEW = timedelta(hours=1)


PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key.

    Args:
        certificate: X.509 certificate, PEM.
        key: its private key, PEM; never shown by repr.
    """

    certificate: bytes
    key: bytes = field(repr=False)

    def write(self, directory: Path, name: str) -> None:
        """Write NAME.crt and NAME.key into `directory`, the key readable by its owner only."""
        directory.mkdir(parents=True, exist_ok=True)
        write_private(directory / f"{name}.key", self.key)
        (directory / f"{name}.crt").write_bytes(self.certificate)

    @classmethod
    def read(cls, directory: Path, name: str) -> KeyPair:
        """Read what `write` wrote.

        Raises:
            FileNotFoundError: there is no such pair.
        """
        return cls((directory / f"{name}.crt").read_bytes(), (directory / f"{name}.key").read_bytes())


@dataclass(frozen=True)
class Authority:
    """A certificate authority: a pair that signs others."""

    pair: KeyPair

    @classmethod
    def create(cls, common_name: str, *, key: PrivateKey | None = None) -> Authority:
        """A new self-signed authority.

        Args:
            common_name: its name; also put in as a DNS name, without which Kueue's certificate rotation takes an
                authority for invalid and makes another.
            key: its private key, where it must be of another kind than ours are.
        """
        key = key or ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name, ())
        builder = _builder(name, key.public_key(), issuer=name)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_usage(sign_certificates=True), critical=True)
        names = x509.SubjectAlternativeName([x509.DNSName(common_name)])
        builder = builder.add_extension(names, critical=False)
        return cls(KeyPair(_pem(builder.sign(key, hashes.SHA256())), private_key_pem(key)))

    def issue(self, common_name: str, *, organizations: Iterable[str] = (), hosts: Iterable[str] = ()) -> KeyPair:
        """A certificate for client and server use, signed by this authority.

        Args:
            common_name: the user, as Kubernetes reads client certificates.
            organizations: the user's groups.
            hosts: DNS names and IP addresses a server answers under; none for a mere client.
        """
        signer = x509.load_pem_x509_certificate(self.pair.certificate)
        signing_key = serialization.load_pem_private_key(self.pair.key, password=None)
        assert isinstance(signing_key, PrivateKey)  # noqa: S101 - `create` made it
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(common_name, organizations), key.public_key(), issuer=signer.subject)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(sign_certificates=False), critical=True)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        if names := [_general_name(host) for host in hosts]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return KeyPair(_pem(builder.sign(signing_key, hashes.SHA256())), private_key_pem(key))


def private_key_pem(key: PrivateKey | None = None) -> bytes:
    """A private key as PEM (SEC 1 or PKCS #1); if none is given a new one, as to sign account tokens with."""
    return (key or ec.generate_private_key(ec.SECP256R1())).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, at no moment readable by others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # else an existing file would keep its mode
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _builder(
    subject: x509.Name, public_key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey, *, issuer: x509.Name
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + VALIDITY)
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str, organizations: Iterable[str]) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
