"""The process: starts the parts in order, says what it waits for, and stops them in order.

Start: health server, reflectors (on a standby too, so that it takes over with warm stores), sync, Lease,
controllers. Stop (SIGTERM, SIGINT): no new work, reconciles under way end, events are sent, the Lease is given
back, exit code 0. Leadership lost, or a part that fails: everything stops where it is, exit code 1.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog

from kueue_flux.runtime.client import Client
from kueue_flux.runtime.controller import Controller, Reconcile
from kueue_flux.runtime.events import Recorder
from kueue_flux.runtime.health import Check, HealthServer
from kueue_flux.runtime.lease import Elector, LeaseConfig
from kueue_flux.runtime.reflector import Reflector
from kueue_flux.runtime.resource import Resource
from kueue_flux.runtime.store import Index, Store, Transform, strip

log = structlog.get_logger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
REPORT_SECONDS = 10.0
"""How often the log says what start-up still waits for."""
EVENT_SECONDS = 3.0
"""How long the last events may take to be sent on the way out."""


class Manager:
    """Wires client, reflectors, controllers and health into one process.

    Args:
        client: the API client; the manager closes it.
        name: the controller's name in events and logs.
        identity: this process in events and in the Lease, such as the pod's name and a random part.
        lease: leader election; None runs without.
        health_host: address of the health server; "" for all.
        health_port: its port; 0 picks a free one, None runs without.
        drain_seconds: how long reconciles under way may go on after SIGTERM.
    """

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        identity: str,
        lease: LeaseConfig | None = None,
        health_host: str = "",
        health_port: int | None = 8081,
        drain_seconds: float = 20.0,
    ) -> None:
        self.client = client
        self.recorder = Recorder(client, name, identity)
        self.health: HealthServer | None = None
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        if health_port is not None:
            self.health = HealthServer(health_host, health_port, self._live, self._ready)
        self._drain_seconds = drain_seconds
        self._reflectors: list[Reflector] = []
        self._controllers: list[Controller] = []
        self._tasks: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._elector: Elector | None = None
        if lease is not None:
            # its own slots and short attempts: a renewal must neither queue up nor hang
            own = Client(client.transport, timeout=lease.renew_deadline / 2, max_retries=0)
            self._elector = Elector(own, lease)
            client.before_write = self._elector.check
        self._stop = asyncio.Event()
        self._failed = False
        self._parts: list[asyncio.Task[None]] = []
        self._keeping: asyncio.Task[None] | None = None
        self._working: asyncio.Task[None] | None = None
        self._beside: list[asyncio.Task[None]] = []

    def watch(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexes: Mapping[str, Index] | None = None,
        transform: Transform = strip,
        optional: bool = False,
    ) -> Reflector:
        """Mirror a resource type; its objects are in the result's `store`. Before `run` only.

        Args:
            resource: what to mirror.
            namespace: None mirrors all namespaces.
            label_selector: mirror only these.
            field_selector: mirror only these.
            indexes: further indexes of the store.
            transform: what the store keeps of an object.
            optional: the cluster may lack this type (see `Reflector`).
        """
        reflector = Reflector(
            self.client,
            resource,
            Store(indexes, transform),
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            optional=optional,
        )
        self._reflectors.append(reflector)
        self._ready[f"watch-{resource}"] = lambda: reflector.problem
        return reflector

    def controller(self, name: str, reconcile: Reconcile, *, workers: int = 8, timeout: float = 300.0) -> Controller:
        """Add a controller; `store.subscribe` functions feed it by `enqueue`. Before `run` only.

        Args:
            name: label of its metrics and logs.
            reconcile: makes the world so for one key.
            workers: keys worked on at once.
            timeout: seconds after which a reconcile counts as failed.
        """
        controller = Controller(name, reconcile, workers=workers, timeout=timeout)
        self._controllers.append(controller)
        return controller

    def while_leading(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run this, too, from the moment when controllers start; cancelled at the end. Before `run` only."""
        self._tasks.append(task)

    def add_ready_check(self, name: str, check: Check) -> None:
        """Readiness needs this too."""
        self._ready[name] = check

    def add_live_check(self, name: str, check: Check) -> None:
        """Liveness needs this too; when it fails, the kubelet restarts the container."""
        self._live[name] = check

    def stop(self) -> None:
        """As SIGTERM does."""
        self._stop.set()

    async def run(self) -> int:
        """Run until SIGTERM, SIGINT or the loss of the Lease.

        Returns:
            The process's exit code: 0 when told to stop, 1 when it cannot go on.

        Raises:
            OSError: the health server's port is taken.
        """
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        try:
            if self.health:
                await self.health.start()
            for reflector in self._reflectors:
                self._start(reflector.run(), f"watch {reflector.resource}")
            self._start(self.recorder.run(), "events")
            self._start(self._lead(), "start", may_end=True)
            await self._stop.wait()
            if not self._failed:
                await self._drain()
        finally:
            await self._shut_down()
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)
        log.info("stopped", failed=self._failed)
        return 1 if self._failed else 0

    async def _lead(self) -> None:
        await self._sync()
        if self._elector:
            await self._elector.acquire()
            self._keeping = self._start(self._elector.keep(), "lease")
        self._working = self._start(self._work(), "controllers")
        self._beside = [self._start(task(), "task") for task in self._tasks]

    async def _sync(self) -> None:
        syncing = asyncio.gather(*(reflector.wait_synced() for reflector in self._reflectors))
        try:
            while not (await asyncio.wait({syncing}, timeout=REPORT_SECONDS))[0]:
                waiting = {str(r.resource): r.problem for r in self._reflectors if not r.synced}
                log.warning("waiting for the API server", waiting=waiting)
        finally:
            syncing.cancel()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers:
                group.create_task(controller.run())

    async def _drain(self) -> None:
        log.info("stopping: reconciles under way may end", at_most_seconds=self._drain_seconds)
        for task in self._beside:
            task.cancel()
        for controller in self._controllers:
            controller.queue.shut_down(discard=True)
        if self._working:
            parts = {part for part in (self._working, self._keeping) if part}
            await asyncio.wait(parts, timeout=self._drain_seconds, return_when=asyncio.FIRST_COMPLETED)
            if not self._working.done():
                log.warning("some reconciles did not end in time and are cut off")
        try:
            async with asyncio.timeout(EVENT_SECONDS):
                await self.recorder.flush()
        except TimeoutError:
            log.warning("some events were not sent in time")

    async def _shut_down(self) -> None:
        self._stop.set()
        for part in self._parts:
            part.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)
        if self._elector:  # only now: nothing of this process acts any more
            await self._elector.release()
        if self.health:
            await self.health.stop()
        await self.client.close()

    def _start(self, part: Coroutine[Any, Any, None], name: str, *, may_end: bool = False) -> asyncio.Task[None]:
        task = asyncio.create_task(part, name=name)
        self._parts.append(task)
        task.add_done_callback(lambda _: self._ended(task, may_end))
        return task

    def _ended(self, task: asyncio.Task[None], may_end: bool) -> None:
        """A part that ends by itself takes the process with it: half a controller is worse than a restart."""
        if task.cancelled():
            return
        error = task.exception()
        if error is None and (may_end or (self._stop.is_set() and task is self._working)):
            return
        log.error("stopping: a part ended", part=task.get_name(), exc_info=error)
        self._failed = True
        self._stop.set()

    def _signalled(self, number: int) -> None:
        log.info("stopping", signal=signal.Signals(number).name)
        for each in STOP_SIGNALS:  # a second signal does what it does to any program
            asyncio.get_running_loop().remove_signal_handler(each)
        self.stop()
