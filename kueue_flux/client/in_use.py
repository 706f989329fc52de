"""What can be done with a MiniCluster whose Flux instance is up: the part of the client that goes into its pods."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from kueue_flux.client import instance, restful
from kueue_flux.client.connection import Connection
from kueue_flux.client.errors import ClientError
from kueue_flux.client.exec import Streams
from kueue_flux.client.forward import HOST, OnError, forwarded
from kueue_flux.client.instance import Completed, Job, Resources
from kueue_flux.client.restful import Restful
from kueue_flux.client.status import Status


class InUse:
    """Calls on the Flux instance of one MiniCluster, by its name. All of them raise:

    NotFound: There is no MiniCluster of that name.
    NotRunning: Its instance is not up; the message says where it stands.
    Forbidden: The caller may not create pods/exec.
    ClientError: The cluster cannot be asked.
    """

    _connection: Connection

    @abstractmethod
    async def get(self, name: str) -> dict[str, Any]:
        """Return a MiniCluster as the API server has it."""

    @abstractmethod
    async def namespace(self) -> str:
        """The namespace in use."""

    @abstractmethod
    async def with_positions(self, statuses: Iterable[Status]) -> tuple[Status, ...]:
        """Bring the positions of those that wait up to date."""

    async def exec(self, name: str, command: Sequence[str], *, stdin: bytes | None = None) -> Completed:
        """Run a program in the lead's container, connected to the Flux instance, and not as one of its jobs.

        Args:
            name: The MiniCluster's name.
            command: The program and its arguments.
            stdin: What it reads; None for nothing.

        Examples:
            >>> miniclusters.exec("hello", ["flux", "getattr", "size"]).stdout
            '4\\n'
        """
        lead = await self._lead(name)
        return await instance.completed(lambda streams: instance.run(self._connection, lead, command, streams), stdin)

    async def run(
        self, name: str, command: Sequence[str], *, options: Sequence[str] = (), stdin: bytes | None = None
    ) -> Completed:
        """Run a command as a job and wait for its end. A caller that gives up waiting cancels the job.

        Args:
            name: The MiniCluster's name.
            command: The command and its arguments.
            options: Options of `flux run`.
            stdin: What its tasks read; None for nothing.

        Raises:
            JobRejected: Flux does not take it.

        Examples:
            >>> print(miniclusters.run("hello", ["hostname"], options=["-N4"]).stdout)
        """
        lead, words = await self._lead(name), [*options, "--", *command]
        return await instance.completed(lambda streams: instance.run_job(self._connection, lead, words, streams), stdin)

    async def submit_job(self, name: str, command: Sequence[str], *, options: Sequence[str] = ()) -> str:
        """Submit a job, and leave it to itself.

        Args:
            name: The MiniCluster's name.
            command: The command and its arguments.
            options: Options of `flux submit`.

        Returns:
            Its id; one a line where an option such as --cc makes several jobs of it.

        Raises:
            JobRejected: Flux does not take it.

        Examples:
            >>> miniclusters.submit_job("hello", ["sleep", "60"])
            'fAbc12'
        """
        return await instance.submit(self._connection, await self._lead(name), [*options, "--", *command])

    async def jobs(self, name: str) -> Sequence[Job]:
        """Return all jobs of the instance, those that have ended too.

        Args:
            name: The MiniCluster's name.

        Examples:
            >>> [job.id for job in miniclusters.jobs("hello") if not job.is_finished]
            ['fAbc12']
        """
        return instance.parse_jobs(await self._output(name, "flux", "jobs", "-a", "--count=0", "--json"))

    async def resources(self, name: str) -> Sequence[Resources]:
        """Return what the instance has: nodes, cores and GPUs by state.

        Args:
            name: The MiniCluster's name.

        Examples:
            >>> {r.state: r.nodes for r in miniclusters.resources("hello")}
            {'free': 3, 'allocated': 1, 'down': 0}
        """
        form = f"--format={instance.RESOURCES}"
        return instance.parse_resources(await self._output(name, "flux", "resource", "list", "--no-header", form))

    async def stop(self, name: str) -> None:
        """Tell the instance to end, in order; returns at once.

        An interactive MiniCluster has then succeeded. Any other is told so while its command runs, which gets
        SIGTERM.

        Args:
            name: The MiniCluster's name.

        Examples:
            >>> miniclusters.stop("hello")
            >>> miniclusters.wait("hello").succeeded
            True
        """
        await instance.stop(self._connection, await self._lead(name))

    @asynccontextmanager
    async def restful(self, name: str, *, local_port: int = 0) -> AsyncIterator[Restful[httpx.AsyncClient]]:
        """Reach the RESTful API of a MiniCluster that runs a server of it, for as long as the block lasts.

        Args:
            name: The MiniCluster's name.
            local_port: The port of this machine's loopback that leads there; 0 takes one that is free.

        Yields:
            Its URL on this machine, its token, and an HTTP session that has both.

        Raises:
            Forbidden: The caller may not read the Secret with the token.

        Examples:
            >>> with miniclusters.restful("hello") as api:
            ...     api.session.post("/v1/jobs/submit", json={"command": ["hostname"]}).json()["f58"]
            'fAbc12'
        """
        async with self.restful_url(name, local_port=local_port) as url:
            token = await self.restful_token(name)
            headers, limit = restful.headers(token), restful.ANSWER_SECONDS
            # No proxy of the environment stands between this machine and itself.
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=limit, trust_env=False) as session:
                yield Restful(url, token, session)

    @asynccontextmanager
    async def restful_url(
        self, name: str, *, local_port: int = 0, on_error: OnError | None = None
    ) -> AsyncIterator[str]:
        """The same as :meth:`restful`, without the token.

        Args:
            name: The MiniCluster's name.
            local_port: The port of this machine's loopback that leads there; 0 takes one that is free.
            on_error: Called with the error each time that a connection cannot be handed on.

        Yields:
            Its URL on this machine.
        """
        lead = await self._lead(name)
        restful.check_served(await self.get(name))
        at = forwarded(self._connection, lead.path, restful.PORT, local_port=local_port, on_error=on_error)
        async with at as port:
            yield f"http://{HOST}:{port}"

    async def restful_token(self, name: str) -> str:
        """Return the token of a MiniCluster's RESTful API. Whoever has it can run commands in the pods.

        Args:
            name: The MiniCluster's name.
        """
        return await restful.read_token(self._connection, await self.namespace(), name)

    async def submit_words(self, name: str, words: Sequence[str]) -> str:
        """The same as :meth:`submit_job`.

        Args:
            name: The MiniCluster's name.
            words: What follows `flux submit`: options and the command.

        Returns:
            The job's id.
        """
        return await instance.submit(self._connection, await self._lead(name), words)

    async def execute(self, name: str, command: Sequence[str], streams: Streams) -> int:
        """The same as :meth:`exec` while it runs; a terminal too.

        Args:
            name: The MiniCluster's name.
            command: The program and its arguments; none for a shell.
            streams: Its input and output.

        Returns:
            Its exit code.
        """
        return await instance.run(self._connection, await self._lead(name), command, streams)

    async def run_job(self, name: str, words: Sequence[str], streams: Streams) -> int:
        """The same as :meth:`run` while it runs.

        Args:
            name: The MiniCluster's name.
            words: What follows `flux run`: options and the command.
            streams: Its input and output.

        Returns:
            Its exit code.
        """
        return await instance.run_job(self._connection, await self._lead(name), words, streams)

    async def _output(self, name: str, *command: str) -> str:
        done = await self.exec(name, command)
        if done.exit_code:
            raise ClientError(f"{' '.join(command)} ended with {done.exit_code}: {done.stderr.strip()}")
        return done.stdout

    async def _lead(self, name: str) -> instance.Lead:
        obj = await self.get(name)
        (status,) = await self.with_positions([Status.from_object(obj)])
        instance.check_running(status)
        return await instance.find_lead(self._connection, obj, await self.namespace())
