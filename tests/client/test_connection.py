import base64
import contextlib
import datetime
import json
import re
import sys
import tempfile
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kueue_flux.client import AsyncMiniClusters, NoCluster, NotInstalled, Unauthorized, Unreachable
from kueue_flux.client.connection import Connection
from tests.client.objects import MINICLUSTERS, queued
from tests.client.server import Reply, failure, kubeconfig, listing

ONE = f"{MINICLUSTERS}/hello"


async def test_a_kubeconfig_that_does_not_exist(tmp_path):
    async with AsyncMiniClusters(kubeconfig=str(tmp_path / "none")) as client:
        with pytest.raises(NoCluster, match=r"none does not exist.*kueue-flux dev up"):
            await client.list()


class Chunk(bytes):
    """Bytes that notice when they are put behind others, as is done again and again to a line that is not over."""

    def __radd__(self, other: object) -> bytes:
        raise AssertionError("all that came before is copied for each chunk")


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([], []),
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b", b"\n", b"\nc\r\x0c", b"\x85d"], [b"ab", b"", b"c\r\x0c\x85d"]),
        ([b"a\nb", b"c\nd\n", b"e"], [b"a", b"bc", b"d", b"e"]),
    ],
)
async def test_lines_are_put_together_of_chunks(monkeypatch, chunks, lines):
    class Response:
        async def aiter_bytes(self):
            for chunk in chunks:
                yield Chunk(chunk)

    @contextlib.asynccontextmanager
    async def call(*_):
        yield Response()

    connection = Connection()
    monkeypatch.setattr(connection, "_call", call)
    assert [line async for line in connection.lines("/log", {}, silence=None)] == lines


async def test_the_environment_names_the_kubeconfig(server, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path / "config", server.url))
    server.on("GET", ONE, Reply(queued()))
    async with AsyncMiniClusters() as client:
        assert (await client.get("hello"))["metadata"]["name"] == "hello"


NO_CONTEXT = "it names no cluster, user and context"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("contexts: []", NO_CONTEXT),
        ("{current-context: '', contexts: [], clusters: [], users: []}", NO_CONTEXT),
        ("not yaml: [", "while parsing"),
        ("just text", NO_CONTEXT),
        ("", "it is empty; name another with --kubeconfig or KUBECONFIG, or start a cluster: kueue-flux dev up"),
    ],
)
async def test_a_kubeconfig_that_is_no_kubeconfig(tmp_path, text, why):
    broken = tmp_path / "config"
    broken.write_text(text)
    async with AsyncMiniClusters(kubeconfig=str(broken)) as client:
        with pytest.raises(NoCluster, match=f"{re.escape(str(broken))} cannot be used: {why}"):
            await client.list()


async def test_a_context_that_does_not_exist(server, tmp_path):
    config = kubeconfig(tmp_path / "config", server.url)
    async with AsyncMiniClusters(kubeconfig=config, context="nowhere") as client:
        with pytest.raises(NoCluster, match=r"context nowhere of .*cannot be used"):
            await client.list()


async def test_a_server_that_does_not_answer(tmp_path):
    # Port 1 of loopback: nothing listens there.
    config = kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    async with AsyncMiniClusters(kubeconfig=config) as client:
        with pytest.raises(Unreachable, match=r"http://127.0.0.1:1 \(.*config\) does not answer") as caught:
            await client.list()
    assert "--kubeconfig" in caught.value.remedy


@pytest.mark.parametrize(
    ("options", "namespace"),
    [
        ({}, "team"),
        ({"context": "there"}, "elsewhere"),
        ({"context": "plain"}, "default"),
        ({"namespace": "mine", "context": "there"}, "mine"),
    ],
)
async def test_the_namespace_is_that_of_the_context_in_use(server, tmp_path, options, namespace):
    async with AsyncMiniClusters(kubeconfig=kubeconfig(tmp_path / "config", server.url), **options) as client:
        assert await client.namespace() == namespace


async def test_a_cluster_without_miniclusters(client):
    with pytest.raises(NotInstalled):
        await client.list()


def plugin(path: Path) -> dict:
    """A user whose exec plugin gives another token at each call: token-1, token-2 ..."""
    code = (
        "import json, pathlib; n = pathlib.Path('calls'); c = int(n.read_text()) + 1 if n.exists() else 1;"
        "n.write_text(str(c)); print(json.dumps({'status': {'token': f'token-{c}'}}))"
    ).replace("'calls'", repr(str(path / "calls")))
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": ["-c", code]}}


async def test_credentials_that_expired_are_renewed_once(server, tmp_path):
    server.on("GET", ONE, failure(401, "Unauthorized"), Reply(queued()))
    config = kubeconfig(tmp_path / "config", server.url, plugin(tmp_path))
    async with AsyncMiniClusters(kubeconfig=config) as client:
        await client.get("hello")
    assert server.tokens == ["Bearer token-1", "Bearer token-2"]


async def test_credentials_that_stay_refused(server, tmp_path):
    server.on("GET", ONE, failure(401, "Unauthorized"))
    config = kubeconfig(tmp_path / "config", server.url, plugin(tmp_path))
    async with AsyncMiniClusters(kubeconfig=config) as client:
        with pytest.raises(Unauthorized):
            await client.get("hello")
    assert len(server.tokens) == 2


def certificate() -> dict:
    """A user with an inline client certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {"client-certificate-data": pem.decode(), "client-key-data": secret.decode()}


async def test_no_copy_of_an_inline_key_stays_on_disk(server, tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    user = certificate()
    config = kubeconfig(tmp_path / "config", server.url, {name: encoded(pem) for name, pem in user.items()})
    server.on("GET", MINICLUSTERS, listing())
    server.on("GET", ONE, failure(401, "Unauthorized"), Reply(queued()))
    async with AsyncMiniClusters(kubeconfig=config) as client:
        await client.list()
        assert list(temporary.iterdir()) == []
        await client.get("hello")  # renews the credentials
    assert list(temporary.iterdir()) == []


def encoded(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()


async def test_key_files_that_are_the_users_own_stay(server, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pem = certificate()
    files = {"client-certificate": "tmp-me.crt", "client-key": "tmp-me.key"}
    for kind, file in files.items():
        (tmp_path / file).write_text(pem[f"{kind}-data"])
    user = {kind: str(tmp_path / file) for kind, file in files.items()}
    server.on("GET", MINICLUSTERS, listing())
    async with AsyncMiniClusters(kubeconfig=kubeconfig(tmp_path / "config", server.url, user)) as client:
        await client.list()
    assert all((tmp_path / file).exists() for file in files.values())


async def test_two_clients_do_not_share_a_connection(server, tmp_path):
    config = kubeconfig(tmp_path / "config", server.url)
    server.on("GET", ONE, Reply(queued()))
    one, two = AsyncMiniClusters(kubeconfig=config), AsyncMiniClusters(kubeconfig=config)
    await one.get("hello")
    await two.get("hello")
    await one.close()
    assert json.dumps(await two.get("hello"))
    await two.close()
