"""What the commands do that use the Flux instance of a MiniCluster, once their options are read."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from kueue_flux.cli import failures, render, tty
from kueue_flux.cli.failures import InputError
from kueue_flux.cli.follow import Follower
from kueue_flux.cli.options import Cluster, Form
from kueue_flux.cli.terminal import emit, say, show
from kueue_flux.client.exec import Streams, Take
from kueue_flux.client.restful import secret
from kueue_flux.client.status import Status
from kueue_flux.flux import layout

if TYPE_CHECKING:
    from kueue_flux.client.miniclusters import AsyncMiniClusters


async def shell(cluster: Cluster, name: str, command: Sequence[str], *, wait: bool, limit: float | None) -> int:
    """Run a shell, or a command, beside the lead's broker; in a terminal if this is one.

    Returns:
        Its exit code.

    Raises:
        ClientError: It cannot be run.
    """
    async with cluster.client() as client:
        await _until_ready(client, name, wait, limit)
        if not tty.is_terminal():
            return await client.execute(name, command, _streams(stdin=True))
        if not command:
            say(f"connected to {name}; leaving the shell leaves it running, kueue-flux stop {name} ends it")
        return await _in_terminal(client, name, command or ("sh", "-c", 'exec "$(command -v bash || echo sh)"'))


async def top(cluster: Cluster, name: str) -> int:
    """Run `flux top` in this terminal.

    Returns:
        Its exit code.

    Raises:
        InputError: This is no terminal.
        ClientError: It cannot be run.
    """
    if not tty.is_terminal():
        raise InputError("top needs a terminal", f"for programs: kueue-flux jobs {name} --output json")
    async with cluster.client() as client:
        return await _in_terminal(client, name, ("env", "LC_ALL=C.UTF-8", "flux", "top"))


async def run(
    cluster: Cluster, name: str, words: Sequence[str], *, stdin: bool, wait: bool, limit: float | None
) -> int:
    """Run a job and show its output; interrupted, it is cancelled.

    Returns:
        Its exit code.

    Raises:
        ClientError: It cannot be run.
    """
    async with cluster.client() as client:
        await _until_ready(client, name, wait, limit)
        return await client.run_job(name, words, _streams(stdin=stdin))


async def submit_job(cluster: Cluster, name: str, words: Sequence[str]) -> None:
    """Submit a job and print its id.

    Raises:
        ClientError: It cannot be submitted.
    """
    async with cluster.client() as client:
        show(await client.submit_words(name, words))


async def jobs(cluster: Cluster, name: str, form: Form | None) -> int:
    """Print all jobs.

    Returns:
        The exit code.

    Raises:
        ClientError: They cannot be listed.
    """
    async with cluster.client() as client:
        if form is None:
            return await client.execute(name, ("flux", "jobs", "-a", "--count=0"), _streams())
        emit([render.job_record(job) for job in await client.jobs(name)], form)
        return 0


async def resources(cluster: Cluster, name: str, form: Form | None) -> int:
    """Print what the instance has.

    Returns:
        The exit code.

    Raises:
        ClientError: It cannot be asked.
    """
    async with cluster.client() as client:
        if form is None:
            return await client.execute(name, ("flux", "resource", "list"), _streams())
        emit([render.resources_record(found) for found in await client.resources(name)], form)
        return 0


async def port_forward(
    cluster: Cluster, name: str, local_port: int, *, show_token: bool, wait: bool, limit: float | None
) -> None:
    """Let the RESTful API of a MiniCluster be reached on this machine, until the MiniCluster has ended.

    Raises:
        ClientError: It cannot be.
    """
    async with cluster.client() as client:
        await _until_ready(client, name, wait, limit)
        async with client.restful_url(name, local_port=local_port, on_error=failures.report) as url:
            # Before anything is said to be there.
            token = await client.restful_token(name) if show_token else ""
            show(url)
            if show_token:
                show(token)
            else:
                say(f"its token: {_token_command(cluster, name, await client.namespace())}")
            say(f"its description: {url}/docs; ^C ends the forwarding, and MiniCluster {name} goes on")
            result = await client.wait(name)
        say(f"MiniCluster {name} has ended: {result.message}")


def _token_command(cluster: Cluster, name: str, namespace: str) -> str:
    where = replace(cluster, namespace=namespace).target(secret(name))
    key = f"jsonpath={{.data.{layout.RESTFUL_AUTH_FILE}}}"
    return f"kubectl get secret {where} -o {shlex.quote(key)} | base64 -d"


async def stop(cluster: Cluster, name: str, *, wait: bool, limit: float | None) -> None:
    """End a MiniCluster in order. One that has ended is left alone.

    Raises:
        WaitTimeout: It has not ended in time.
        ClientError: It cannot be stopped.
    """
    async with cluster.client() as client:
        status = Status.from_object(await client.get(name))
        if status.is_finished:
            say(f"{name} has finished already: {status.message}")
            return
        await client.stop(name)
        if not wait:
            print(f"{name} is being stopped")
            return
        result = await client.wait(name, timeout=limit)
        print(f"{name} stopped")
        if not result.succeeded:
            say(result.message)


async def _until_ready(client: AsyncMiniClusters, name: str, wait: bool, limit: float | None) -> None:
    if wait:
        await Follower(client, name, condition="Ready", say=say).run(limit)


async def _in_terminal(client: AsyncMiniClusters, name: str, command: Sequence[str]) -> int:
    # What the far side knows of a terminal is that there is one; which, programs read from TERM.
    words = ("env", f"TERM={os.environ.get('TERM', 'xterm')}", *command)
    show = _writer(sys.stdout.buffer)
    with tty.raw():
        return await client.execute(name, words, Streams(show, show, tty.keys(), tty.sizes()))


def _streams(*, stdin: bool = False) -> Streams:
    return Streams(_writer(sys.stdout.buffer), _writer(sys.stderr.buffer), tty.piped() if stdin else None)


def _writer(stream: BinaryIO) -> Take:
    def write(data: bytes) -> None:
        stream.write(data)
        stream.flush()

    return write
