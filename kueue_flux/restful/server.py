"""HTTP: connections, what is read from them and within which limits, and answers written to them.

One thread for each connection, on the standard library's http.server. What that lacks is here: limits on sizes,
times and numbers; answers in JSON for its own errors too; an end to requests whose client has gone.
"""

from __future__ import annotations

import io
import json
import logging
import select
import socket
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any, Callable, Iterator, cast

from .answers import JSON, Abandoned, Answer, Problem, refused
from .settings import Limits

log = logging.getLogger(__name__)

TOO_MANY = b'{"detail":"Too many connections: try again in a second"}'
TURNED_AWAY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(TOO_MANY), TOO_MANY)
)
PIECE = 1 << 16


class Request:
    """A request as it comes in.

    Args:
        method: Its method.
        target: What it is for: path and query.
        header: Gives a header's value by its name, None without one.
        read: Reads the body; raises a Problem for one that is too long or does not arrive.
        abandoned: Whether nobody waits for the answer any more.
    """

    def __init__(
        self,
        method: str,
        target: str,
        header: Callable[[str], str | None],
        read: Callable[[], bytes],
        abandoned: Callable[[], bool],
    ) -> None:
        self.method, self.target, self.header = method, target, header
        self.read, self.abandoned = read, abandoned


Serve = Callable[[Request, Callable[[Answer], None]], None]


class Server(socketserver.ThreadingTCPServer):
    """Listens, and has each connection served by a thread.

    Args:
        host: Address to listen on; all addresses when empty.
        port: TCP port.
        serve: Answers a request. It is called in many threads, and gives the answer to a function, because what it
            answers with may need what it holds until all has been sent.
        limits: What is too much.

    Raises:
        OSError: It cannot listen there.
    """

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, host: str, port: int, serve: Serve, limits: Limits) -> None:
        self.serve, self.limits = serve, limits
        self.stopping = threading.Event()
        self.busy = Busy()
        self._free = threading.BoundedSemaphore(limits.connections)
        everywhere = not host and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if everywhere or ":" in host else socket.AF_INET
        super().__init__((host, port), Handler, bind_and_activate=False)
        try:
            if everywhere:
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self.server_bind()
            self.server_activate()
        except OSError:
            self.server_close()
            raise

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Have a connection served, unless there are too many."""
        if not self._free.acquire(blocking=False):
            self._turn_away(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be had
            self._free.release()
            self._turn_away(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """What the thread of a connection does."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that failed: usually a client that went away."""
        log.debug("connection failed", exc_info=True)

    def stop(self, patience: float) -> None:
        """Take no more connections, let go who follows a job, and give other answers some seconds to be sent."""
        self.stopping.set()
        self.shutdown()
        self.server_close()
        self.busy.wait(patience)

    def _turn_away(self, request: Any) -> None:
        log.warning("there are %d connections already: one was turned away", self.limits.connections)
        request.setblocking(False)
        try:
            request.send(TURNED_AWAY)
        except OSError:
            log.debug("a client that was turned away had gone")
        self.shutdown_request(request)


class Busy:
    """How many requests are being answered."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until there are none, or for so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count, seconds)


class Handler(BaseHTTPRequestHandler):
    """Serves the requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        """Read by a deadline, and let no small piece of output wait for a larger one."""
        super().setup()
        self.owner = cast(Server, self.server)
        self.limits = self.owner.limits
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming = Incoming(self.connection)
        self.rfile = cast(Any, io.BufferedReader(self.incoming, PIECE))

    def version_string(self) -> str:
        """What the Server header says."""
        return "kueue-flux"

    def handle_one_request(self) -> None:
        """Read a request and have it served."""
        self.unread = 0
        self.incoming.within(self.limits.idle)
        super().handle_one_request()

    def handle_expect_100(self) -> bool:
        """Nothing is asked for before it is known whether it is wanted: see `_read`."""
        return True

    def _serve(self) -> None:
        began, self.status = time.monotonic(), 0
        with self.owner.busy:
            try:
                self._answer()
                if self.unread:
                    self._linger()
            except Abandoned:
                self.close_connection = True
            finally:
                spent = (time.monotonic() - began) * 1000
                path = json.dumps(self.path.partition("?")[0])  # a query may hold what is nobody's business
                log.info("%s %s %s %d %.0f ms", self.client_address[0], self.command, path, self.status, spent)

    def _answer(self) -> None:
        try:
            self.unread = self._length()
        except Problem as problem:
            self.unread = sys.maxsize  # nobody can tell
            self._send(problem.answer())
            return
        target = self.path.encode("latin-1").decode("utf-8", "replace")  # as somebody types ƒ into a command line
        self.owner.serve(Request(self.command, target, self.headers.get, self._read, self._abandoned), self._send)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve

    # -- what comes in

    def _length(self) -> int:
        """The length of the body."""
        if self.headers.get("Transfer-Encoding") is not None:
            raise refused(411, "Length Required: send the body in one piece, with a Content-Length")
        lengths = set(self.headers.get_all("Content-Length", ["0"]))
        length = lengths.pop()
        if lengths or not (length.isascii() and length.isdigit() and len(length) < 19):
            raise refused(400, "Bad Request: Content-Length must be one number")
        return int(length)

    def _read(self) -> bytes:
        """The body of the request."""
        if self.unread > self.limits.body:
            raise refused(413, f"The body is larger than {self.limits.body} bytes")
        if self.unread and self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        self.incoming.within(self.limits.receive)
        try:
            body = self.rfile.read(self.unread)
        except socket.timeout:
            raise refused(408, f"The body did not arrive within {self.limits.receive:.0f} s") from None
        if len(body) < self.unread:
            raise refused(400, "The body is shorter than its Content-Length")
        self.unread = 0
        return body

    def _linger(self) -> None:
        """Read and drop what a refused client still sends: closed on, it could lose the answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_WR)
        self.incoming.within(self.limits.linger)
        try:
            while self.unread > 0:
                piece = self.rfile.read1(PIECE)
                if not piece:
                    return
                self.unread -= len(piece)
        except socket.timeout:
            log.debug("a refused client was still sending")

    def _abandoned(self) -> bool:
        """Whether the client has gone, or the server is to end."""
        if self.owner.stopping.is_set():
            return True
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        if not poll.poll(0):
            return False
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return True

    # -- what goes out

    def _send(self, answer: Answer) -> None:
        """Send an answer."""
        self.connection.settimeout(self.limits.send)
        self.status = answer.status
        body = answer.body
        chunked = not isinstance(body, bytes) and self.request_version >= "HTTP/1.1"
        if self.unread or not (chunked or isinstance(body, bytes)):
            self.close_connection = True
        self._send_head(answer, chunked)
        if self.command == "HEAD":
            return
        if isinstance(body, bytes):
            for start in range(0, len(body), PIECE):
                self.wfile.write(body[start : start + PIECE])
        else:
            self._send_pieces(body, chunked)

    def _send_head(self, answer: Answer, chunked: bool) -> None:
        self.send_response(answer.status)
        headers = [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")]
        if answer.status != 204:
            headers.append(("Content-Type", answer.media))
        if chunked:
            headers.append(("Transfer-Encoding", "chunked"))
        elif isinstance(answer.body, bytes) and answer.status != 204:
            headers.append(("Content-Length", str(len(answer.body))))
        if self.close_connection:
            headers.append(("Connection", "close"))
        for name, value in [*headers, *answer.headers]:
            self.send_header(name, value)
        self.end_headers()

    def _send_pieces(self, pieces: Iterator[bytes], chunked: bool) -> None:
        complete = False
        try:
            for piece in pieces:
                if piece:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            if chunked:
                self.wfile.write(b"0\r\n\r\n")
            complete = True
        except Problem as problem:
            log.warning("an answer ended before its end: %s", problem.content)
        finally:
            self.close_connection |= not complete  # without the last chunk the client sees that this is not all

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server itself finds wrong with a request, in JSON."""
        self.close_connection = True
        self.unread = 0
        content = {"detail": message or self.responses.get(code, ("Error",))[0]}
        self._send(Answer(json.dumps(content).encode(), code, JSON))
        log.info("%s sent a bad request: %d", self.client_address[0], code)

    def log_message(self, format: str, *args: Any) -> None:
        """What http.server would say: it quotes the request, and is replaced by the line of `_serve`."""


class Incoming(io.RawIOBase):
    """What a client sends, as long as it does so in time: a byte now and then does not keep a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until = 0.0

    def within(self, seconds: float) -> None:
        """From now on, this long."""
        self._until = time.monotonic() + seconds

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what there is.

        Raises:
            socket.timeout: The time is over.
        """
        left = self._until - time.monotonic()
        if left <= 0:
            raise socket.timeout
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)
