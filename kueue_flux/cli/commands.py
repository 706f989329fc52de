"""What the commands do once their options are read: list, status, logs, wait, delete."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime

from kueue_flux.cli import failures, render
from kueue_flux.cli.chronicle import Chronicle
from kueue_flux.cli.follow import CONTROLLER_SECONDS, NO_CONTROLLER, Follower, write_output
from kueue_flux.cli.options import Cluster, Form, Goal, ListForm
from kueue_flux.cli.terminal import emit, painter, say, show
from kueue_flux.cli.visible import visible
from kueue_flux.client.errors import ClientError, Forbidden, NotFound, WaitTimeout
from kueue_flux.client.miniclusters import AsyncMiniClusters, Object
from kueue_flux.client.status import Stage, Status

# How often ages move on in what is redrawn, seconds.
REDRAW_SECONDS = 1.0
# A deletion that takes no longer needs no words, seconds.
QUICK_SECONDS = 1.0


async def list_all(cluster: Cluster, *, all_namespaces: bool, form: ListForm | None) -> None:
    """Print the MiniClusters, one a line, oldest first.

    Raises:
        ClientError: The cluster cannot be asked.
    """
    async with cluster.client() as client:
        objects = await client.list(all_namespaces=all_namespaces)
        statuses = await client.with_positions(Status.from_object(obj) for obj in objects)
        namespace = await client.namespace()
    if form in (ListForm.JSON, ListForm.YAML):
        emit([render.record(status) for status in statuses], form)
        return
    if not statuses:
        say("no MiniClusters" + ("" if all_namespaces else f" in namespace {namespace}"))
        return
    now = datetime.now(UTC)
    wide = form is ListForm.WIDE
    header = list(render.WIDE_COLUMNS if wide else render.COLUMNS)
    rows = [render.row(status, now, wide=wide) for status in statuses]
    if all_namespaces:
        header.insert(0, "NAMESPACE")
        rows = [[status.namespace, *row] for status, row in zip(statuses, rows, strict=True)]
    print(render.table(header, rows, painter(sys.stdout), header.index("STATUS")))


async def show_status(cluster: Cluster, name: str, *, form: Form | None) -> None:
    """Print where one MiniCluster stands.

    Raises:
        ClientError: The cluster cannot be asked, or has none of that name.
    """
    async with cluster.client() as client:
        if form is not None:
            emit(render.record(await client.status(name)), form)
            return
        obj = await client.get(name)
        print(_report(obj, *await _details(client, obj)))


async def watch_status(cluster: Cluster, name: str) -> None:
    """Tell what happens to one MiniCluster until it has ended, a line for each step; on a terminal above its report.

    Raises:
        ClientError: The cluster cannot be asked, or has none of that name.
    """
    async with cluster.client() as client:
        if not sys.stdout.isatty():
            await Chronicle(client, name, say=show).run()
            return
        from rich.live import Live
        from rich.text import Text

        with Live(transient=True, auto_refresh=False) as screen:

            def tell(line: str) -> None:
                screen.console.print(Text(visible(line)), soft_wrap=True)

            async def draw(obj: Object, status: Status) -> None:
                screen.update(Text.from_ansi("\n" + _report(obj, status, ())), refresh=True)

            chronicle = Chronicle(client, name, say=tell, draw=draw)
            await chronicle.run()
        print(f"\n{_report(chronicle.latest, *await _details(client, chronicle.latest))}")


async def _details(client: AsyncMiniClusters, obj: Object) -> tuple[Status, Sequence[Object]]:
    (status,) = await client.with_positions([Status.from_object(obj)])
    try:
        return status, await client.events(status.name, uid=obj["metadata"].get("uid", ""))
    except Forbidden:
        return status, ()  # the rest is worth showing all the same


def _report(obj: Object, status: Status, events: Sequence[Object]) -> str:
    now = datetime.now(UTC)
    text = render.report(obj, status, events, now, painter(sys.stdout))
    waited = (now - status.created).total_seconds() if status.created else 0
    if status.stage is Stage.CREATED and waited > CONTROLLER_SECONDS:
        text += f"\n\n{NO_CONTROLLER}"
    return text


async def print_logs(cluster: Cluster, name: str, *, follow: bool) -> None:
    """Print the command's output.

    Raises:
        ClientError: There is none, or it cannot be read.
    """
    async with cluster.client() as client, aclosing(client.raw_logs(name, follow=follow)) as lines:
        async for line in lines:
            write_output(line)


async def wait_for(cluster: Cluster, name: str, goal: Goal, limit: float | None) -> int:
    """Wait, showing progress.

    Returns:
        The exit code.

    Raises:
        ClientError: It cannot be waited for, or not any longer.
    """
    async with cluster.client() as client:
        result = await Follower(client, name, condition=goal.condition, say=say).run(limit)
    return failures.exit_code(result)


async def delete_all(cluster: Cluster, names: Sequence[str], *, wait: bool, limit: float | None) -> int:
    """Delete MiniClusters, and go on with the others where one cannot be. All that goes wrong is reported.

    Returns:
        The exit code.
    """
    code = 0
    async with cluster.client() as client:
        deleting = []
        for name in names:
            try:
                await client.delete(name, foreground=wait)
                deleting.append(name)
            except ClientError as error:
                failures.report(error)
                code = failures.FAILED
        if not wait:
            for name in deleting:
                print(f"{name} is being deleted")
            return code

        ends = await asyncio.gather(*(_gone(client, name, limit) for name in deleting), return_exceptions=True)
    for end in ends:
        if isinstance(end, ClientError):
            failures.report(end)
            code = code or (failures.TIMED_OUT if isinstance(end, WaitTimeout) else failures.FAILED)
        elif end is not None:
            raise end
    return code


async def _gone(client: AsyncMiniClusters, name: str, limit: float | None) -> None:
    telling = asyncio.create_task(_tell_what_is_left(client, name))
    try:
        await client.wait_deleted(name, limit)
    finally:
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling
    print(f"{name} deleted", flush=True)


async def _tell_what_is_left(client: AsyncMiniClusters, name: str) -> None:
    """Tell a reader at once, and a log after a moment, what a deletion waits for."""
    if not sys.stderr.isatty():
        await asyncio.sleep(QUICK_SECONDS)
    told = ""
    while left := await _left(client, name):
        if left != told:
            say(f"{name}: waiting for {left}")
            told = left
        await asyncio.sleep(REDRAW_SECONDS)


async def _left(client: AsyncMiniClusters, name: str) -> str:
    """What keeps a MiniCluster that is being deleted; empty once it is gone."""
    try:
        pods = len(await client.pods(name))
    except NotFound:
        return ""
    except ClientError:
        return "its pods to end"  # whoever may not see them still learns what takes so long
    return f"{render.some(pods, 'pod')} to end" if pods else "Kubernetes to clear up"
