"""What every broker does: talk to its peers and to the commands on its host, run tasks, notice who is silent."""

import asyncio
import json
import os
import subprocess
import sys
import time
from typing import Any

import zmq
import zmq.asyncio

from .files import Config

BEAT = 1.0  # seconds between two signs of life
SILENCE = 6.0  # seconds after which a peer counts as lost

Message = dict[str, Any]


class Broker:
    """What lead and worker have in common: two sockets, children, signs of life.

    Args:
        config: what it read.
        rank: its place among the hosts.
        attributes: the `-S` options.
    """

    def __init__(self, config: Config, rank: int, attributes: dict[str, str]) -> None:
        self.config = config
        self.rank = rank
        self.attributes = attributes
        self.uri = "ipc://" + attributes["local-uri"].removeprefix("local://")
        self.context = zmq.asyncio.Context()
        self.local = self.context.socket(zmq.ROUTER)
        self.local.bind(self.uri)
        self.overlay = self.context.socket(zmq.ROUTER if rank == 0 else zmq.DEALER)
        self.overlay.curve_publickey, self.overlay.curve_secretkey = config.public, config.secret
        self.heard: dict[int, float] = {}
        self.tasks: list[asyncio.subprocess.Process] = []
        self.background: set[asyncio.Task[None]] = set()

    async def live(self) -> int:
        """Do what this rank is for; its exit code."""
        loops = [self.serve(self.overlay, self.on_peer), self.serve(self.local, self.on_client), self.beat()]
        work = [asyncio.create_task(loop) for loop in (self.work(), *loops)]
        done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        codes = [task.result() for task in done]  # raises where a loop failed; otherwise none of them ends
        self.context.destroy(linger=500)
        return codes[0] or 0

    async def work(self) -> int:
        """What this rank is for; ends when the broker does."""
        raise NotImplementedError

    async def on_peer(self, address: list[bytes], message: Message) -> None:
        """Handle what came from another rank."""
        raise NotImplementedError

    async def on_client(self, address: list[bytes], message: Message) -> None:
        """Handle what a command on this host wants."""
        raise NotImplementedError

    async def lost(self, rank: int) -> None:
        """Handle a peer's silence."""
        raise NotImplementedError

    async def tell(self, rank: int, **message: Any) -> None:
        """Send to another rank; a worker reaches the lead only."""
        address = [str(rank).encode()] if self.rank == 0 else []
        await self.overlay.send_multipart([*address, json.dumps(message).encode()])

    async def reply(self, to: bytes, **message: Any) -> None:
        """Answer a command on this host."""
        await self.local.send_multipart([to, json.dumps(message).encode()])

    async def serve(self, sock: Any, handle: Any) -> None:
        """Handle what arrives on a socket, one after the other."""
        while True:
            *address, body = await sock.recv_multipart()
            await handle(address, json.loads(body))

    async def beat(self) -> None:
        """Show that this rank is alive, and notice who is not."""
        while True:
            for rank in list(self.heard) if self.rank == 0 else [0]:
                await self.tell(rank, type="beat")
            for rank in [rank for rank, when in self.heard.items() if time.monotonic() - when > SILENCE]:
                del self.heard[rank]
                print(f"flux-broker: no sign of life of {self.config.hosts[rank]}", file=sys.stderr)
                await self.lost(rank)
            await asyncio.sleep(BEAT)

    def later(self, work: Any) -> None:
        """Let something run beside all else."""
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def script(self, attribute: str) -> None:
        """Run the shell script of an attribute, if there is one."""
        if text := self.attributes.get(attribute):
            shell = os.environ.get("SHELL", "/bin/sh")
            child = await asyncio.create_subprocess_exec(shell, "-c", text, env=self.environment())
            await child.wait()

    def environment(self) -> dict[str, str]:
        """The environment of what this broker starts."""
        return {**os.environ, **self.address()}

    def address(self) -> dict[str, str]:
        """How a command finds this broker, and knows that it is gone."""
        return {"FLUX_URI": self.uri, "FLUX_BROKER_PID": str(os.getpid())}

    async def run_tasks(self, job: Message) -> None:
        """Run this rank's tasks of a job, hand on what they print, and report the highest exit code."""
        codes = await asyncio.gather(*(self.run_task(job, number) for number in job["tasks"][str(self.rank)]))
        await self.report(type="done", code=max(codes))

    async def run_task(self, job: Message, number: int) -> int:
        """Run one task; its exit code as a shell would give it."""
        env = {**job["env"], **self.address(), "FLUX_TASK_RANK": str(number), "FLUX_JOB_SIZE": str(job["size"])}
        try:
            child = await asyncio.create_subprocess_exec(
                *job["argv"],
                cwd=job["cwd"],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            await self.report(type="output", stream=2, text=f"flux-shell: {job['argv'][0]}: {error.strerror}\n")
            return 127 if isinstance(error, FileNotFoundError) else 126
        self.tasks.append(child)
        await asyncio.gather(self.copy(child.stdout, 1), self.copy(child.stderr, 2))
        code = await child.wait()
        return code if code >= 0 else 128 - code

    async def copy(self, stream: Any, number: int) -> None:
        """Hand on what a task prints, line by line."""
        while line := await stream.readline():
            await self.report(type="output", stream=number, text=line.decode(errors="replace"))

    async def report(self, **message: Any) -> None:
        """Tell the lead, which may be this very broker."""
        if self.rank:
            await self.tell(0, **message)
        else:
            await self.on_peer([b"0"], message)

    def signal_tasks(self, number: int) -> None:
        """Send a signal to this rank's tasks."""
        for child in self.tasks:
            if child.returncode is None:
                child.send_signal(number)
