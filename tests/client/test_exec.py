"""Programs in containers: words, streams, terminals and ends, over a WebSocket that may break."""

import asyncio

import pytest

from kueue_flux.client.errors import ClientError, Forbidden, NotFound, Unauthorized, Unreachable
from kueue_flux.client.exec import Streams, execute
from tests.client.objects import PODS
from tests.client.pod_exec import STATUS, STDERR, Process, refuse, serve
from tests.client.server import failure

POD = f"{PODS}/hello-0-a"


class Taken:
    """What came out of a program."""

    def __init__(self, **more):
        self.out, self.err = bytearray(), bytearray()
        self.streams = Streams(self.out.extend, self.err.extend, **more)


async def run(client, *words, **more):
    taken = Taken(**more)
    code = await execute(client._connection, POD, "flux", words, taken.streams)
    return code, bytes(taken.out), bytes(taken.err)


async def pieces(*data):
    for piece in data:
        yield piece


async def test_words_and_streams(server, client):
    async def program(process: Process) -> int:
        await process.print("out\n")
        await process.print(b"\xff\x00", STDERR)
        await process.print("")
        await process.print("more")
        return 0

    words = ["sh", "-c", 'echo "$1"', "a b", "", "ü"]
    processes = serve(server, program)
    assert await run(client, *words) == (0, b"out\nmore", b"\xff\x00")
    (process,) = processes
    assert process.words == words
    expected = {"container": "flux", "stdin": "false", "stdout": "true", "stderr": "true", "tty": "false"}
    assert expected.items() <= process.query.items()


@pytest.mark.parametrize("code", [0, 1, 7, 137])
async def test_exit_codes(server, client, code):
    async def program(_: Process) -> int:
        return code

    serve(server, program)
    assert (await run(client, "true"))[0] == code


async def test_stdin_to_its_end(server, client):
    async def cat(process: Process) -> int:
        await process.stdin_closed.wait()
        await process.print(process.stdin)
        return 0

    serve(server, cat)
    data = [b"a" * 100_000, b"\x00", b"end"]
    assert await run(client, "cat", stdin=pieces(*data)) == (0, b"".join(data), b"")


async def test_a_terminal_has_sizes_and_one_output(server, client):
    more = asyncio.Event()

    async def sizes():
        yield 80, 24
        await more.wait()
        yield 120, 40
        await asyncio.Event().wait()

    async def program(process: Process) -> int:
        await process.until(lambda: process.sizes == [(80, 24)])
        more.set()
        await process.until(lambda: process.sizes == [(80, 24), (120, 40)])
        await process.print("drawn")
        return 0

    processes = serve(server, program)
    assert await run(client, "top", sizes=sizes(), stdin=pieces()) == (0, b"drawn", b"")
    expected = {"stdin": "true", "stderr": "false", "tty": "true"}
    assert expected.items() <= processes[0].query.items()


async def test_output_that_comes_after_the_status(server, client):
    async def program(process: Process) -> None:
        await process.end(3)
        await process.print("late")

    serve(server, program)
    assert await run(client, "true") == (3, b"late", b"")


async def test_a_program_that_cannot_be_started(server, client):
    async def program(process: Process) -> None:
        await process.print('{"status": "Failure", "message": "no such file"}', STATUS)

    serve(server, program)
    with pytest.raises(ClientError, match="the command cannot be run: no such file"):
        await run(client, "nonsense")


@pytest.mark.parametrize("how", ["closed", "broken"])
async def test_a_connection_that_is_lost(server, client, how):
    async def program(process: Process) -> None:
        await process.print("begun")
        if how == "broken":
            process.socket._writer.transport.abort()

    serve(server, program)
    with pytest.raises(Unreachable, match="lost before the command had ended"):
        await run(client, "sleep")


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (failure(403, 'pods "a" is forbidden: cannot create resource "pods/exec"'), Forbidden),
        (failure(404, 'pods "a" not found', name="a", kind="pods"), NotFound),
        (failure(401, "Unauthorized"), Unauthorized),
    ],
)
async def test_a_refusal(server, client, reply, error):
    refuse(server, reply)
    with pytest.raises(error):
        await run(client, "true")


async def test_no_websocket_behind_the_path(server, client):
    server.on("GET", f"{POD}/exec", failure(200, "hello"))
    with pytest.raises(Unreachable, match="opens no WebSocket"):
        await run(client, "true")


async def test_who_gives_up_leaves_the_connection(server, client):
    begun, left = asyncio.Event(), asyncio.Event()

    async def program(process: Process) -> None:
        begun.set()
        await process.until(lambda: process.socket.closed)
        left.set()

    serve(server, program)
    running = asyncio.create_task(run(client, "sleep"))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(5):
        await left.wait()


async def test_what_takes_the_output_may_fail(server, client):
    async def program(process: Process) -> int:
        await process.print("line\n")
        return 0

    def take(_: bytes) -> None:
        raise BrokenPipeError

    serve(server, program)
    with pytest.raises(BrokenPipeError):
        await execute(client._connection, POD, "flux", ["yes"], Streams(take, take))
