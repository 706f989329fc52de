"""The two kinds of broker: the lead, on which the initial program runs, and the workers."""

import asyncio
import json
import signal
import sys
import time

from zmq.auth.asyncio import AsyncioAuthenticator

from .broker import Broker, Message
from .files import Config

GOODBYE = 10.0  # seconds that workers have to leave at the end


class Lead(Broker):
    """Rank 0: waits for the others, runs the initial program, keeps what there is to keep.

    Args:
        program: the initial program.
    """

    def __init__(self, config: Config, attributes: dict[str, str], program: list[str]) -> None:
        super().__init__(config, 0, attributes)
        self.program = program
        self.kvs: dict[str, str] = {}
        self.jobs: list[Message] = []
        self.client: bytes | None = None
        self.changed = asyncio.Event()
        self.overlay.curve_server = True

    def callback(self, domain: str, key: bytes) -> bool:
        """Admit who has the instance's own key (asked for each peer that connects; ZeroMQ RFC 27)."""
        return key == self.config.public

    async def work(self) -> int:
        """Wait for everybody, run the initial program, send everybody home."""
        guard = AsyncioAuthenticator(self.context)
        guard.start()
        guard.configure_curve_callback("*", credentials_provider=self)
        self.overlay.bind(self.config.bind)
        await self.until(len(self.config.hosts) - 1)
        for rank in self.heard:
            await self.tell(rank, type="script")
        child = await asyncio.create_subprocess_exec(*self.program, env=self.environment())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, child.terminate)
        code = await child.wait()
        for rank in self.heard:
            await self.tell(rank, type="leave")
        try:
            await asyncio.wait_for(self.until(0), GOODBYE)
        except TimeoutError:
            print("flux-broker: some ranks did not leave in time", file=sys.stderr)
        return code if code >= 0 else 128 - code

    async def until(self, count: int) -> None:
        """Wait for the number of workers to become this."""
        while len(self.heard) != count:
            self.changed.clear()
            await self.changed.wait()

    async def lost(self, rank: int) -> None:
        """Count a silent worker as gone, and with it the job of which it ran a part."""
        self.changed.set()
        job = self.jobs[-1] if self.jobs else None
        if job and job["running"]:
            job["exception"] = ("exec", f"node failure on {self.config.hosts[rank]} (rank {rank})")
            await self.kill(signal.SIGKILL)
            await self.done(rank, 143)

    async def on_peer(self, address: list[bytes], message: Message) -> None:
        """Handle what came from a worker, or from this rank's own tasks."""
        rank = int(address[0])
        if rank and message["type"] != "gone":
            known = rank in self.heard
            self.heard[rank] = time.monotonic()
            if not known:
                self.changed.set()
        match message["type"]:
            case "gone":
                self.heard.pop(rank, None)
                self.changed.set()
            case "output" if self.client:
                await self.reply(self.client, **message)
            case "done":
                await self.done(rank, message["code"])
            case "ask":
                await self.tell(rank, type="answer", client=message["client"], **self.answer(message["words"]))

    async def on_client(self, address: list[bytes], message: Message) -> None:
        """Handle what a command on the lead wants."""
        match message["type"]:
            case "run":
                await self.start(address[0], message)
            case "kill":
                await self.kill(message["signal"])
            case "ask":
                await self.reply(address[0], type="end", **self.answer(message["words"]))

    async def start(self, client: bytes, message: Message) -> None:
        """Start a job, its tasks spread evenly over the first nodes."""
        size, ranks = message["size"], message["nodes"] or len(self.config.hosts)
        size = size or ranks
        job = {**message, "size": size, "running": [], "code": 0, "exception": None, "tasks": {}}
        self.jobs.append(job)
        self.client = client
        if ranks > len(self.config.hosts) or (self.config.cores and size > self.config.cores):
            job["exception"] = ("alloc", "unsatisfiable request")
            job["code"] = 1
            await self.reply(client, type="end", code=1, text="flux-job: alloc: unsatisfiable request\n")
            return
        for rank in range(min(ranks, size)):
            job["tasks"][str(rank)] = [number for number in range(size) if number * ranks // size == rank]
            job["running"].append(rank)
        order = {name: job[name] for name in ("argv", "cwd", "env", "size", "tasks")}
        for rank in job["running"][1:]:
            await self.tell(rank, type="tasks", job=order)
        self.later(self.run_tasks(order))

    async def kill(self, number: int) -> None:
        """Send a signal to all tasks."""
        self.signal_tasks(number)
        for rank in self.heard:
            await self.tell(rank, type="signal", signal=number)

    async def done(self, rank: int, code: int) -> None:
        """Note that a rank's tasks have ended, and tell the client when all have."""
        job = self.jobs[-1]
        if rank in job["running"]:
            job["running"].remove(rank)
            job["code"] = max(job["code"], code)
            if not job["running"] and self.client:
                text = f"flux-job: task(s) exited with exit code {job['code']}\n" if job["code"] else ""
                await self.reply(self.client, type="end", code=job["code"], text=text)

    def answer(self, words: list[str]) -> Message:
        """Answer a command that only asks, or writes down."""
        match words:
            case ["kvs", "put", pair]:
                key, _, value = pair.partition("=")
                self.kvs[key] = value
                return {"code": 0, "output": ""}
            case ["kvs", "get", key]:
                found = key in self.kvs
                return {"code": int(not found), "output": f"{self.kvs[key]}\n" if found else ""}
            case ["job", "last", *_]:
                return {"code": int(not self.jobs), "output": "f1\n" if self.jobs else ""}
            case ["job", "status", *_] if self.jobs:
                job = self.jobs[-1]
                kind, note = job["exception"] or ("", "")
                shown = {"exception_occurred": bool(kind), "exception_type": kind, "exception_note": note}
                return {"code": job["code"], "output": f"{json.dumps(shown)}\n" if "--json" in words else ""}
        return {"code": 1, "output": "", "text": f"flux: the stand-in does not know `flux {' '.join(words)}'\n"}


class Worker(Broker):
    """Any other rank: runs its part of a job, and leaves when told."""

    def __init__(self, config: Config, rank: int, attributes: dict[str, str]) -> None:
        super().__init__(config, rank, attributes)
        self.told = asyncio.Event()
        self.code = 0
        self.overlay.identity = str(rank).encode()
        self.overlay.curve_serverkey = config.public

    async def work(self) -> int:
        """Join, and stay until told to leave."""
        self.overlay.connect(self.config.connect)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.told.set)
        await self.told.wait()
        self.signal_tasks(signal.SIGKILL)
        if self.code == 0:
            await self.script("broker.rc3_path")
            await self.tell(0, type="gone")
        return self.code

    async def lost(self, rank: int) -> None:
        """Without a lead there is nothing to do."""
        self.code = 1
        self.told.set()

    async def on_peer(self, address: list[bytes], message: Message) -> None:
        """Handle what the lead said."""
        self.heard[0] = time.monotonic()
        match message["type"]:
            case "script":
                self.later(self.script("broker.rc1_path"))
            case "tasks":
                self.later(self.run_tasks(message["job"]))
            case "signal":
                self.signal_tasks(message["signal"])
            case "leave":
                self.told.set()
            case "answer":
                client = bytes.fromhex(message.pop("client"))
                await self.reply(client, **{**message, "type": "end"})

    async def on_client(self, address: list[bytes], message: Message) -> None:
        """Pass a question on to the lead."""
        await self.tell(0, type="ask", client=address[0].hex(), words=message.get("words", []))
