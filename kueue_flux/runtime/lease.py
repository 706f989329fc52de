"""Leader election on a coordination.k8s.io/v1 Lease, so that of several replicas one acts.

The rules are client-go's: whoever holds the Lease renews it every few seconds; others watch the record with
their own clock (never comparing timestamps of two machines) and take it when it has not changed for its
duration. A leader that cannot renew gives up well before anybody else may start. One thing is added: `check`,
asked before every write, so that a process that was frozen and wakes up late cannot write as a leader of the past.

Source: https://pkg.go.dev/k8s.io/client-go/tools/leaderelection
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import structlog

from kueue_flux.runtime import clock, metrics
from kueue_flux.runtime.client import Client
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Object, Resource

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
log = structlog.get_logger(__name__)


class LeadershipLostError(ApiError):
    """A write was not sent, since this process does not lead (any more)."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "LeadershipLost", message)


@dataclass(frozen=True, slots=True)
class LeaseConfig:
    """Which Lease, and how long (client-go's defaults).

    Args:
        namespace: of the Lease.
        name: of the Lease.
        identity: of this process; unique among replicas and restarts.
        duration: seconds after which an unrenewed Lease may be taken.
        renew_deadline: seconds after which a leader that cannot renew gives up; less than `duration`.
        retry: seconds between tries.
    """

    namespace: str
    name: str
    identity: str
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.retry < self.renew_deadline < self.duration:
            raise ValueError("a Lease needs retry < renew_deadline < duration")


class Elector:
    """Gets the Lease, keeps it, gives it back.

    Args:
        client: a client of its own, so that renewals never wait behind other requests.
        config: which Lease.
        now: wall clock, for the timestamps that people read in the Lease.
    """

    def __init__(self, client: Client, config: LeaseConfig, *, now: clock.Clock = clock.now) -> None:
        self._client = client
        self._config = config
        self._now = now
        self._record: Object | None = None  # the Lease as last seen
        self._seen_spec: dict[str, Any] | None = None
        self._seen_at = float("-inf")  # when its spec last changed, by our own clock
        self._leads_until = float("-inf")  # by our own clock
        self._log = log.bind(lease=f"{config.namespace}/{config.name}", identity=config.identity)
        self._gauge = metrics.leader.labels(config.name)
        self._gauge.set(0)

    @property
    def leading(self) -> bool:
        """Whether this process may act now: its last renewal is younger than the Lease's duration."""
        return asyncio.get_running_loop().time() < self._leads_until

    def check(self) -> None:
        """Refuse when this process does not lead; for `Client.before_write`.

        Raises:
            LeadershipLostError: it does not.
        """
        if not self.leading:
            raise LeadershipLostError(f"{self._config.identity} does not hold {self._config.name}")

    async def acquire(self) -> None:
        """Wait until this process leads."""
        reported: str | None = None
        while not await self._try():
            holder = self._holder()
            if holder != reported:
                self._log.info("waiting for the Lease", holder=holder or "unknown")
                reported = holder
            # standbys spread out, so that they do not all try in the moment the Lease runs out
            await asyncio.sleep(self._config.retry * random.uniform(1.0, 2.2))  # noqa: S311
        self._gauge.set(1)
        self._log.info("leading")

    async def keep(self) -> None:
        """Renew until that fails for `renew_deadline` seconds or somebody else holds the Lease, then return."""
        loop = asyncio.get_running_loop()
        try:
            renewed = loop.time()
            while loop.time() < renewed + self._config.renew_deadline:
                await asyncio.sleep(self._config.retry)
                try:
                    async with asyncio.timeout_at(renewed + self._config.renew_deadline):
                        held = await self._try()
                except TimeoutError:
                    break
                if held:
                    renewed = loop.time()
                elif self._holder() not in ("", self._config.identity):
                    break
            self._log.error("lost the Lease", holder=self._holder() or "unknown")
        finally:
            self._leads_until = float("-inf")
            self._gauge.set(0)

    async def release(self) -> None:
        """Give the Lease back, so that the next process need not wait for it to run out. Call after all work ended."""
        self._leads_until = float("-inf")
        self._gauge.set(0)
        if self._record is None or self._holder() != self._config.identity:
            return
        spec = {
            **self._record["spec"],
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "renewTime": clock.micro_time(self._now()),
        }
        try:
            async with asyncio.timeout(self._config.retry):
                await self._client.replace(LEASES, {**self._record, "spec": spec})
        except (ApiError, TimeoutError) as error:  # it then runs out by itself, or is another's already
            self._log.info("could not give the Lease back", error=str(error) or "timeout")
            return
        self._log.info("gave the Lease back")

    async def _try(self) -> bool:
        """One try to take or renew the Lease. Returns whether we hold it."""
        loop = asyncio.get_running_loop()
        try:
            # a leader renews from what it knows; only a conflict makes it look
            if self._record is None or not self.leading:
                await self._observe()
            if self._holder() not in ("", self._config.identity) and loop.time() < self._runs_out():
                return False
            started = loop.time()  # from here, not from the answer: others count from when they see the write
            self._remember(await self._write())
        except ApiError as error:
            if error.conflict or error.not_found:
                self._record = None  # look again
            elif not error.already_exists:
                self._log.warning("cannot reach the Lease", error=str(error))
            return False
        self._leads_until = started + self._config.duration
        return True

    async def _observe(self) -> None:
        try:
            self._remember(await self._client.get(LEASES, self._config.name, self._config.namespace))
        except ApiError as error:
            if not error.not_found:
                raise
            self._record = None

    async def _write(self) -> Object:
        config, now = self._config, clock.micro_time(self._now())
        spec: dict[str, Any] = {
            "holderIdentity": config.identity,
            "leaseDurationSeconds": int(config.duration),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        if self._record is None:
            metadata = {"namespace": config.namespace, "name": config.name}
            lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
            return await self._client.create(LEASES, lease)
        before = self._record["spec"]
        spec["leaseTransitions"] = int(before.get("leaseTransitions") or 0)
        if self._holder() == config.identity:
            spec["acquireTime"] = before.get("acquireTime") or now
        else:
            spec["leaseTransitions"] += 1
        return await self._client.replace(LEASES, {**self._record, "spec": {**before, **spec}})

    def _remember(self, lease: Object) -> None:
        self._record = lease
        spec = lease.setdefault("spec", {})
        if spec != self._seen_spec:
            self._seen_spec = dict(spec)
            self._seen_at = asyncio.get_running_loop().time()

    def _runs_out(self) -> float:
        duration = self._record["spec"].get("leaseDurationSeconds") if self._record else 0
        return self._seen_at + float(duration or 0)

    def _holder(self) -> str:
        return str(self._record["spec"].get("holderIdentity") or "") if self._record else ""
