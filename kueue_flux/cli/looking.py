"""What `queue` and `top` do once their options are read: look once, or go on looking."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TypeVar

from kueue_flux.cli import queues
from kueue_flux.cli.follow import ticking
from kueue_flux.cli.options import Cluster, Form
from kueue_flux.cli.render import Paint
from kueue_flux.cli.terminal import emit, painter, say
from kueue_flux.client.errors import ClientError

T = TypeVar("T")

# How often ages move on in what is redrawn, seconds.
REDRAW_SECONDS = 1.0


async def list_queues(cluster: Cluster, *, all_namespaces: bool, form: Form | None) -> None:
    """Print the LocalQueues, one a line.

    Raises:
        ClientError: The cluster cannot be asked.
    """
    async with cluster.client() as client:
        found = await client.list_queues(all_namespaces=all_namespaces)
        namespace = await client.namespace()
    if form is not None:
        emit([queues.queue_record(queue) for queue in found], form)
    elif not found:
        where = "" if all_namespaces else f" in namespace {namespace}"
        say(f"no LocalQueues{where}: ask your cluster's admin for one")
    else:
        print(queues.queue_list(found, all_namespaces=all_namespaces, paint=painter(sys.stdout)))
        for sentence in dict.fromkeys(sentence for queue in found for sentence in queue.unknown):
            say(f"{queues.NOT_SHOWN}{sentence}")


async def show_queue(cluster: Cluster, name: str, *, form: Form | None) -> None:
    """Print a LocalQueue and what is in it.

    Raises:
        ClientError: The cluster cannot be asked, or has no such queue.
    """
    async with cluster.client() as client:
        found = await client.queue(name)
    if form is not None:
        emit(queues.contents_record(found), form)
    else:
        print(queues.contents(found, datetime.now(UTC), painter(sys.stdout)))


async def watch_queue(cluster: Cluster, name: str) -> None:
    """Show a LocalQueue until ^C: redrawn on a terminal, else a line for each change.

    Raises:
        ClientError: The cluster cannot be asked, or has no such queue.
    """
    async with cluster.client() as client:
        outage = _Outage()
        if sys.stdout.isatty():
            await _redraw(client.watch_queue(name, on_outage=outage), queues.contents, outage)
            return
        told: dict[str, str] = {}
        async with aclosing(client.watch_queue(name, on_outage=outage)) as states:
            async for found in states:
                now = queues.standings(found)
                for line in queues.changes(told, now):
                    print(f"{datetime.now():%H:%M:%S}  {line}", flush=True)
                told = now


async def top(cluster: Cluster, *, all_namespaces: bool) -> None:
    """Show queues, what runs and what waits: until ^C on a terminal, else once.

    Raises:
        ClientError: The cluster cannot be asked.
    """
    async with cluster.client() as client:

        def draw(found: object, now: datetime, paint: Paint) -> str:
            return queues.overview(found, now, all_namespaces=all_namespaces, paint=paint)  # type: ignore[arg-type]

        if not sys.stdout.isatty():
            found = await client.overview(all_namespaces=all_namespaces)
            print(queues.overview(found, datetime.now(UTC), all_namespaces=all_namespaces))
            return
        outage = _Outage()
        await _redraw(client.watch_overview(all_namespaces=all_namespaces, on_outage=outage), draw, outage)


class _Outage:
    """The last error of a cluster that cannot be asked, until it answers again."""

    def __init__(self) -> None:
        self.message = ""

    def __call__(self, error: ClientError) -> None:
        self.message = error.message


async def _redraw(stream: AsyncGenerator[T, None], draw: Callable[[T, datetime, Paint], str], outage: _Outage) -> None:
    from rich.live import Live
    from rich.text import Text

    paint = painter(sys.stdout)
    with Live(screen=True, auto_refresh=False, vertical_overflow="crop") as screen:
        async with aclosing(ticking(stream, REDRAW_SECONDS)) as states:
            async for found, is_new in states:
                if is_new:
                    outage.message = ""
                text = draw(found, datetime.now(UTC), paint)
                if outage.message:
                    text = f"{paint(outage.message, 'red')}; trying again\n\n{text}"
                screen.update(Text.from_ansi(text), refresh=True)
