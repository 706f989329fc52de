"""The RESTful API of a MiniCluster on this machine: through a WebSocket for each connection, with its token."""

import asyncio
import base64
import socket

import httpx
import pytest
from aiohttp import web

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.client import ClientError, Forbidden, MiniClusters, NotRunning, restful
from kueue_flux.manifests import restful as manifests
from kueue_flux.restful.settings import DEFAULT_PORT
from tests.client import pod_port
from tests.client.objects import MINICLUSTERS, PODS, lead, queued, running
from tests.client.server import Reply, failure, kubeconfig, listing

ONE = f"{MINICLUSTERS}/hello"
SECRET = "/api/v1/namespaces/team/secrets/hello-restful"
TOKEN = "t0ken"
LARGE = "x" * 300_000


@pytest.fixture
async def api():
    """What listens in the pod; returns its port."""

    async def answer(request):
        return web.json_response({"asked": request.headers["Authorization"], "sent": await request.text()})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield site._server.sockets[0].getsockname()[1]
    await runner.cleanup()


def serving(**spec):
    obj = running()
    obj["spec"] |= {"containers": [{"image": "ubuntu"}], **spec}
    return obj


@pytest.fixture
def up(server, api):
    """A MiniCluster that serves; returns the queries of its port-forwards."""
    server.on("GET", ONE, Reply(serving()))
    server.on("GET", PODS, listing(lead("a", "running")))
    server.on("GET", SECRET, Reply({"data": {"token": base64.b64encode(TOKEN.encode()).decode()}}))
    return pod_port.serve(server, api)


def test_names_are_those_of_the_controller():
    mc = MiniCluster.from_object(serving())
    assert (restful.PORT, restful.secret("hello")) == (DEFAULT_PORT, manifests.name(mc))


async def test_a_session(client, up):
    async with client.restful("hello") as api:
        assert TOKEN not in repr(api)
        answers = await asyncio.gather(*(api.session.post("/v1/jobs", content=text) for text in ("a", LARGE)))
        assert [answer.json() for answer in answers] == [
            {"asked": f"Bearer {TOKEN}", "sent": text} for text in ("a", LARGE)
        ]
    assert up == [{"ports": "5000"}] * 2
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))


async def test_a_session_without_an_event_loop(server, up, tmp_path):
    def use():
        config = kubeconfig(tmp_path / "config", server.url)
        with MiniClusters(kubeconfig=config) as miniclusters, miniclusters.restful("hello") as api:
            return api.session.get("/v1/jobs").json()["asked"]

    assert await asyncio.to_thread(use) == f"Bearer {TOKEN}"


async def test_a_port_that_is_named(client, up):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ClientError, match=f"port {port} of this machine cannot be used") as caught:
            async with client.restful("hello", local_port=port):
                pass
    assert "0 takes any" in caught.value.remedy
    async with client.restful("hello", local_port=port) as api:
        assert api.url == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("how", ["refused", "not taken"])
async def test_a_connection_that_cannot_be_handed_on_is_told_and_closed(server, client, up, how):
    if how == "refused":

        async def refuse(_request):
            return web.json_response(failure(403, "cannot create pods/portforward").body, status=403)

        server.sockets = refuse
    else:
        pod_port.serve(server, 0, "cannot create pods/portforward\n")
    told = []
    forwarding = client.restful_url("hello", on_error=told.append)
    async with forwarding as url, httpx.AsyncClient(trust_env=False) as session:
        with pytest.raises(httpx.TransportError):
            await session.get(url)
    assert [type(error) for error in told] == [Forbidden if how == "refused" else ClientError]
    assert "cannot create pods/portforward" in told[0].message


async def test_who_has_said_all_that_it_had_to_say_still_gets_its_answer(client, up):
    async with client.restful_url("hello") as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
        writer.write(
            b"POST / HTTP/1.1\r\nHost: here\r\nAuthorization: x\r\nContent-Length: 1\r\nConnection: close\r\n\r\na"
        )
        writer.write_eof()
        assert b'"sent": "a"' in await reader.read()
        writer.close()


@pytest.mark.parametrize(
    ("obj", "secret", "error", "message"),
    [
        (queued(), None, NotRunning, "does not run yet"),
        (running(), None, ClientError, "has no RESTful API; one that has"),
        (serving(interactive=True), None, ClientError, "has no RESTful API"),
        (
            serving(),
            failure(404, "not found", name="hello-restful"),
            ClientError,
            "Secret hello-restful with the token",
        ),
        (serving(), failure(403, "cannot get secrets"), Forbidden, "cannot get secrets; ask for permission to get"),
    ],
)
async def test_what_is_in_the_way(server, client, up, obj, secret, error, message):
    server.scripts["GET", ONE].clear()
    server.on("GET", ONE, Reply(obj))
    if secret is not None:
        server.scripts["GET", SECRET].clear()
        server.on("GET", SECRET, secret)
    with pytest.raises(error, match=message):
        async with client.restful("hello"):
            pass
