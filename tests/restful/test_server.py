"""What clients do that are slow, gone, many, or no HTTP clients at all."""

import json
import logging
import queue
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from kueue_flux.restful.server import Server
from kueue_flux.restful.settings import Limits
from tests.restful.conftest import TOKEN
from tests.restful.fake_flux import RUNS, data
from tests.restful.test_api import until

AUTH = f"Authorization: Bearer {TOKEN}\r\n"


def talk(api, *sent, close=False):
    """Send bytes; what is answered until the server closes."""
    with socket.create_connection(api.address, timeout=60) as connection:
        for piece in sent:
            connection.sendall(piece.encode() if isinstance(piece, str) else piece)
        if close:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def status(answer):
    return int(answer.split(b" ", 2)[1])


def content(answer):
    return json.loads(answer.partition(b"\r\n\r\n")[2])


BAD = {
    "no HTTP": ("\x16\x03\x01\x02\r\n", 400),
    "no version": ("GET /healthz HTTP/x\r\n\r\n", 400),
    "HTTP/2": ("GET / HTTP/2.0\r\n\r\n", 505),
    "method": ("BREW / HTTP/1.1\r\n\r\n", 501),
    "long target": ("GET /" + "x" * 70_000 + " HTTP/1.1\r\n\r\n", 414),
    "many headers": ("GET / HTTP/1.1\r\n" + "A: b\r\n" * 200 + "\r\n", 431),
    "long header": ("GET / HTTP/1.1\r\nA: " + "x" * 70_000 + "\r\n\r\n", 431),
    "length": (f"POST /v1/jobs/submit HTTP/1.1\r\n{AUTH}Content-Length: x\r\n\r\n", 400),
    "negative": (f"POST /v1/jobs/submit HTTP/1.1\r\n{AUTH}Content-Length: -1\r\n\r\n", 400),
    "long length": (f"POST /v1/jobs/submit HTTP/1.1\r\n{AUTH}Content-Length: {'9' * 5000}\r\n\r\n", 400),
    "two lengths": (f"POST /v1/jobs/submit HTTP/1.1\r\n{AUTH}Content-Length: 1\r\nContent-Length: 2\r\n\r\n{{", 400),
    "chunked": (
        f"POST /v1/jobs/submit HTTP/1.1\r\n{AUTH}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n",
        411,
    ),
    "short body": (f"POST /v1/jobs/submit HTTP/1.1\r\n{AUTH}Content-Length: 9\r\n\r\n{{", 400),
}


@pytest.mark.parametrize(("sent", "expected"), BAD.values(), ids=BAD)
def test_what_is_no_request_is_told_so_in_json(serve, sent, expected):
    api = serve(linger=0.1)
    answer = talk(api, sent, close=True)
    if b"HTTP/1.1" in answer:  # what has no version is answered without a head
        assert status(answer) == expected
        assert b"Connection: close" in answer
        answer = answer.partition(b"\r\n\r\n")[2]
    assert json.loads(answer)["detail"]
    assert api.get("/healthz").status_code == 200


def test_a_whole_url_and_http_1_0(api):
    answer = talk(api, f"GET http://{api.address[0]}/v1/nodes HTTP/1.0\r\n{AUTH}\r\n")
    assert (status(answer), "nodes" in content(answer)) == (200, True)


def test_a_path_may_be_in_utf_8_as_somebody_types_it(api):
    answer = talk(api, f"GET /v1/jobs/ƒoo HTTP/1.0\r\n{AUTH}\r\n")
    assert content(answer)["Message"] == "'ƒoo' is no job id"


def test_a_stream_over_http_1_0_ends_with_the_connection(api):
    api.flux.add(1)
    api.flux.events[1] = [data("a\n"), data("b\n")]
    answer = talk(api, f"GET /v1/jobs/1/output/stream HTTP/1.0\r\n{AUTH}\r\n")
    assert b"chunked" not in answer
    assert answer.endswith(b"\r\n\r\na\nb\n")


def test_one_connection_carries_many_requests(api):
    one = f"GET /v1/nodes HTTP/1.1\r\n{AUTH}\r\n"
    body = f"POST /v1/jobs/submit HTTP/1.1\r\n{AUTH}Content-Length: 19\r\n\r\n" + '{"command": "app"} '
    last = f"GET /v1/nodes HTTP/1.1\r\nConnection: close\r\n{AUTH}\r\n"
    answer = talk(api, one + body + one + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 4
    assert len(api.flux.submitted) == 1


# -- bodies


@pytest.mark.parametrize("expect", ["", "Expect: 100-continue\r\n"])
def test_a_body_of_10_megabytes_is_refused_and_not_kept(api, expect):
    head = f"POST /v1/jobs/submit HTTP/1.1\r\n{AUTH}{expect}Content-Length: 10000000\r\n\r\n"
    answer = talk(api, head, b"x" * 10_000_000)
    assert status(answer) == 413
    assert content(answer)["detail"] == "The body is larger than 1048576 bytes"
    assert api.get("/healthz").status_code == 200


def test_a_refused_body_is_not_asked_for(serve):
    api = serve(linger=0.1)
    head = f"POST /v1/jobs/submit HTTP/1.1\r\n{AUTH}Expect: 100-continue\r\nContent-Length: 10000000\r\n\r\n"
    assert b"100 Continue" not in talk(api, head)


def test_a_body_without_the_token_is_not_read(serve):
    api = serve(linger=0.1)
    answer = talk(api, "POST /v1/jobs/submit HTTP/1.1\r\nContent-Length: 1000\r\n\r\n")
    assert status(answer) == 401


def test_a_body_that_is_awaited_is_asked_for(api):
    head = f"POST /v1/jobs/submit HTTP/1.1\r\n{AUTH}Expect: 100-continue\r\nContent-Length: 18\r\n"
    answer = talk(api, head + "Connection: close\r\n\r\n", '{"command": "app"}')
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


def test_a_body_up_to_the_limit_is_taken(serve):
    api = serve(body=100)
    words = {"command": ["app", "x" * 70]}
    assert len(json.dumps(words)) <= 100
    assert api.post("/v1/jobs/submit", content=json.dumps(words)).status_code == 200
    assert api.post("/v1/jobs/submit", content=json.dumps(words).ljust(101)).status_code == 413


# -- slow clients


def test_a_request_that_does_not_end_ends_the_connection(serve):
    api = serve(idle=0.2)
    assert talk(api, "GET /healthz HTTP/1.1\r\n") == b""
    assert talk(api) == b""


def dribble(connection):
    for _ in range(6000):
        connection.sendall(b"X")
        threading.Event().wait(0.01)


def test_a_byte_now_and_then_is_not_enough(serve):
    api = serve(idle=0.3)
    with socket.create_connection(api.address, timeout=60) as connection:
        with pytest.raises(ConnectionError):
            dribble(connection)
        assert api.get("/healthz").status_code == 200


def test_a_body_that_does_not_come_is_told_so(serve):
    api = serve(receive=0.2, linger=0.1)
    answer = talk(api, f"POST /v1/jobs/submit HTTP/1.1\r\n{AUTH}Content-Length: 9\r\n\r\n{{")
    assert status(answer) == 408


def test_a_client_that_takes_nothing_is_left(serve):
    api = serve(send=0.2)
    api.flux.add(1, **RUNS)
    api.flux.coming[1] = queue.Queue()
    with socket.create_connection(api.address, timeout=60) as connection:
        connection.sendall(f"GET /v1/jobs/1/output/stream HTTP/1.1\r\n{AUTH}\r\n".encode())
        for _ in range(400):
            api.flux.coming[1].put(data("x" * 65536))
        assert api.flux.closed.wait(60)


# -- clients that go


@pytest.mark.parametrize("path", ["/v1/jobs/1/output/stream", "/v1/jobs/1/output"])
def test_a_client_that_has_gone_is_noticed(api, path):
    api.flux.add(1, **RUNS)
    api.flux.coming[1] = queue.Queue()
    with socket.create_connection(api.address, timeout=60) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\n{AUTH}\r\n".encode())
    assert api.flux.closed.wait(60)
    until(lambda: api.app.followers.acquire(blocking=False) and api.app.followers.release() is None)
    assert api.get("/v1/jobs").status_code == 200


def test_a_stream_that_breaks_off_is_seen_to(serve):
    def broken(jobid):
        yield data("a\n")
        raise OSError("Flux has gone")

    api = serve()
    api.flux.add(1, **RUNS)
    api.flux.follow = broken
    with pytest.raises(httpx.RemoteProtocolError), api.http.stream("GET", "/v1/jobs/1/output/stream") as answer:
        list(answer.iter_raw())
    assert api.get("/healthz").status_code == 200


# -- many clients


def test_a_hundred_requests_side_by_side(api):
    api.flux.meets = threading.Barrier(100)  # none is answered before all have come
    api.flux.add(1)
    with ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(api.get, ["/v1/jobs"] * 100))
    assert [answer.status_code for answer in answers] == [200] * 100


def test_one_too_many_is_turned_away_and_may_come_again(serve):
    api = serve(connections=2)
    held = [socket.create_connection(api.address, timeout=60) for _ in range(2)]
    for connection in held:
        connection.sendall(f"GET /v1/nodes HTTP/1.1\r\n{AUTH}\r\n".encode())
        assert b"200 OK" in connection.recv(65536)
    answer = talk(api)
    assert (status(answer), b"Retry-After: 1" in answer) == (503, True)
    assert "Too many" in content(answer)["detail"]
    for connection in held:
        connection.close()
    until(lambda: b"200 OK" in talk(api, "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"))


# -- the end


def test_the_end_ends_streams(serve):
    api = serve()
    api.flux.add(1, **RUNS)
    api.flux.coming[1] = queue.Queue()
    api.flux.coming[1].put(data("a\n"))
    with api.http.stream("GET", "/v1/jobs/1/output/stream") as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == b"a\n"
        api.server.stopping.set()
        with pytest.raises(httpx.RemoteProtocolError):  # not as if that were all
            list(pieces)


def test_a_port_that_is_taken(api):
    with pytest.raises(OSError, match="in use"):
        Server("127.0.0.1", api.server.port, api.app.serve, Limits())


@pytest.mark.parametrize("host", ["", "127.0.0.1"])
def test_it_listens(api, host):
    server = Server(host, 0, api.app.serve, Limits())
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=60).close()
    finally:
        server.server_close()


# -- what it writes down


def test_a_line_for_each_request_without_what_is_nobodys_business(api, caplog):
    caplog.set_level(logging.DEBUG, "kueue_flux.restful")
    secret = "hush-9876"
    api.post("/v1/jobs/submit", params={"command": "app", "envars": json.dumps({"KEY": secret})})
    api.anonymous(auth=("fluxuser", secret)).get("/v1/jobs")
    talk(api, f"GET /v1/jobs/\x1b[31mforged HTTP/1.1\r\n{AUTH}\r\n", close=True)
    until(lambda: "forged" in caplog.text)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("kueue_flux.restful")]
    assert any('POST "/v1/jobs/submit" 200' in line for line in lines)
    assert any('GET "/v1/jobs" 401' in line for line in lines)
    said = "\n".join(lines)
    assert secret not in said
    assert TOKEN not in said
    assert "\x1b" not in said
