"""The dev cluster's certificates, checked by OpenSSL in a real TLS handshake, not by reading them back."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest

from kueue_flux.devcluster.pki import Authority, KeyPair, private_key_pem, write_private


@pytest.fixture
def authority() -> Authority:
    return Authority.create("test-authority")


def handshake(directory: Path, server: KeyPair, client: KeyPair, trusted: Authority, host: str) -> dict:
    """Connect with mutual TLS and return the client's certificate as the server saw it."""
    server.write(directory, "server")
    client.write(directory, "client")
    trusted.pair.write(directory, "ca")
    ca = str(directory / "ca.crt")
    accepting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
    accepting.verify_mode = ssl.CERT_REQUIRED
    accepting.load_cert_chain(directory / "server.crt", directory / "server.key")
    calling = ssl.create_default_context(cafile=ca)
    calling.load_cert_chain(directory / "client.crt", directory / "client.key")
    seen: dict = {}

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        try:
            with accepting.wrap_socket(connection, server_side=True) as secure:
                seen.update(secure.getpeercert() or {})
                secure.send(b"x")
        except OSError as error:
            seen["error"] = error

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname()) as plain,
                calling.wrap_socket(plain, server_hostname=host) as secure,
            ):
                secure.recv(1)
        finally:
            thread.join(5)
    return seen


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_client_reaches_a_server_and_is_known_by_user_and_groups(tmp_path, authority, host):
    server = authority.issue("server", hosts=["127.0.0.1", "localhost"])
    client = authority.issue("admin", organizations=["system:masters", "other"])
    seen = handshake(tmp_path, server, client, authority, host)
    assert seen["subject"] == (
        (("organizationName", "system:masters"),),
        (("organizationName", "other"),),
        (("commonName", "admin"),),
    )


def test_a_server_is_refused_under_a_name_it_was_not_issued_for(tmp_path, authority):
    server = authority.issue("server", hosts=["localhost"])
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        handshake(tmp_path, server, authority.issue("admin"), authority, "127.0.0.1")


def test_another_authoritys_client_is_refused(tmp_path, authority):
    server = authority.issue("server", hosts=["localhost"])
    stranger = Authority.create("test-authority").issue("admin", organizations=["system:masters"])
    try:
        seen = handshake(tmp_path, server, stranger, authority, "localhost")
    except OSError:  # TLS 1.3: the client may learn of the refusal at its first read, or as a reset
        return
    assert isinstance(seen.get("error"), ssl.SSLError)


def test_keys_are_private_on_disk_and_in_repr(tmp_path, authority):
    pair = authority.issue("admin")
    pair.write(tmp_path, "admin")
    assert stat.S_IMODE((tmp_path / "admin.key").stat().st_mode) == 0o600
    assert "PRIVATE KEY" not in repr(pair) + repr(authority)
    assert KeyPair.read(tmp_path, "admin") == pair


def test_a_private_file_replaces_one_that_others_could_read(tmp_path):
    path = tmp_path / "key"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, private_key_pem())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().startswith(b"-----BEGIN EC PRIVATE KEY-----")


def test_each_key_is_new(authority):
    keys = {authority.issue("a").key, authority.issue("a").key, private_key_pem(), private_key_pem()}
    assert len(keys) == 4
