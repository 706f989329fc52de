"""Where the server is, who it is and who we are: kubeconfig or service account, TLS, and credentials that change."""

import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kubernetes.aio.config import incluster_config

from kueue_flux.devcluster.pki import Authority
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.transport import KubeTransport, _keepalive_socket
from tests.runtime.fake_api import PODS, FakeApi, pod
from tests.runtime.fake_server import serve


@pytest.fixture
def authority() -> Authority:
    return Authority.create("cluster")


@pytest.fixture
async def api() -> FakeApi:
    api = FakeApi()
    api.put(PODS, pod("a"))
    api.token = "first"
    return api


@pytest.fixture
async def url(api: FakeApi, authority: Authority, tmp_path: Path) -> AsyncIterator[str]:
    """An HTTPS server whose certificate the authority signed."""
    authority.pair.write(tmp_path, "ca")
    authority.issue("server", hosts=["127.0.0.1"]).write(tmp_path, "server")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    async with serve(api, tls) as url:
        yield url


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a cluster around us nor a kubeconfig at home."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def kubeconfig(path: Path, url: str, ca: Path, token_file: Path) -> str:
    path.write_text(f"""
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{url}", certificate-authority: {ca}}}}}]
users: [{{name: u, user: {{tokenFile: {token_file}}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
current-context: c
""")
    return str(path)


async def works(client: Client) -> None:
    assert (await client.get(PODS, "a", "ns"))["metadata"]["name"] == "a"
    await client.close()


async def test_in_cluster_with_a_token_that_is_rotated(
    api: FakeApi, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    host, port = url.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    client = await Client.connect()
    await client.get(PODS, "a", "ns")
    token.write_text("second")
    api.token = "second"  # the first has expired
    await works(client)
    assert len(api.requests) == 3, "one 401 in between"


async def test_kubeconfig_with_a_token_file_that_is_rotated(api: FakeApi, url: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    client = await Client.connect(kubeconfig(tmp_path / "config", url, tmp_path / "ca.crt", token))
    await client.get(PODS, "a", "ns")
    token.write_text("second")
    api.token = "second"
    await works(client)


async def test_kubeconfig_of_the_environment_wins_over_the_pods_own(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("first")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    path = kubeconfig(tmp_path / "config", url, tmp_path / "ca.crt", tmp_path / "token")
    monkeypatch.setenv("KUBECONFIG", path)
    await works(await Client.connect())


async def test_a_server_that_our_authority_did_not_sign_is_refused(api: FakeApi, url: str, tmp_path: Path) -> None:
    Authority.create("cluster").pair.write(tmp_path, "other")
    (tmp_path / "token").write_text("first")
    client = await Client.connect(kubeconfig(tmp_path / "config", url, tmp_path / "other.crt", tmp_path / "token"))
    with pytest.raises(ApiError, match="CERTIFICATE_VERIFY_FAILED") as raised:
        await client.get(PODS, "a", "ns")
    assert raised.value.unreachable
    assert api.requests == [], "and never saw the token"
    await client.close()


async def test_a_server_that_only_answers_401_is_not_asked_to_death(api: FakeApi, url: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("wrong")
    client = await Client.connect(kubeconfig(tmp_path / "config", url, tmp_path / "ca.crt", tmp_path / "token"))
    for _ in range(5):
        with pytest.raises(ApiError, match="401"):
            await client.get(PODS, "a", "ns")
    assert len(api.requests) == 6, "credentials were loaded again once, not five times"
    await client.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(None, "no kubeconfig at", id="no file"),
        pytest.param("", "no usable Kubernetes configuration", id="empty"),
        pytest.param("clusters: [", "no usable Kubernetes configuration", id="not YAML"),
        pytest.param("apiVersion: v1\nkind: Config\n", "no usable Kubernetes configuration", id="no context"),
    ],
)
async def test_no_usable_configuration(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ApiError, match=message) as raised:
        await KubeTransport.load(str(path))
    assert raised.value.reason == "Credentials"


async def test_outside_of_everything_the_error_names_the_remedy() -> None:
    with pytest.raises(ApiError, match="name one with KUBECONFIG"):
        await Client.connect()


def test_connections_notice_a_peer_that_vanished() -> None:
    with _keepalive_socket((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 1))) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        between = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
        assert idle + between * sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) <= 60
