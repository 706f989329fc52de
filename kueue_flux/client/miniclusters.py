"""MiniClusters for programs with an event loop: submit, look, wait, read the output, delete.

What can be done with one that runs is in `in_use`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from types import TracebackType
from typing import Any

from kueue_flux.api.minicluster import API_VERSION, KIND, PLURAL, MiniCluster
from kueue_flux.api.setup import DEFAULT_QUEUE
from kueue_flux.client import logs
from kueue_flux.client.connection import Connection, can_be_name, existing_namespace
from kueue_flux.client.errors import (
    Deleted,
    Forbidden,
    NotFound,
    Unanswered,
    Unavailable,
    WaitTimeout,
)
from kueue_flux.client.follow import follow as follow_output
from kueue_flux.client.in_use import InUse
from kueue_flux.client.queues import KUEUE_API, Queues
from kueue_flux.client.status import Result, Stage, Status, conditions, refusal
from kueue_flux.client.watch import OnOutage, states
from kueue_flux.kueue.visibility import Pending, pending, pending_workloads_path

FIELD_MANAGER = "kueue-flux-client"

Object = dict[str, Any]


class AsyncMiniClusters(InUse, Queues):
    """The MiniClusters of one namespace.

    Args:
        namespace: The namespace; None takes that of the kubeconfig's context.
        kubeconfig: Path of a kubeconfig; None takes $KUBECONFIG, ~/.kube/config or the pod's service account.
        context: A context of the kubeconfig; None takes the current one.

    Examples:
        >>> async with AsyncMiniClusters("default") as miniclusters:
        ...     await miniclusters.submit(mc)
        ...     result = await miniclusters.wait("hello")
    """

    def __init__(
        self, namespace: str | None = None, *, kubeconfig: str | None = None, context: str | None = None
    ) -> None:
        self._connection = Connection(namespace, kubeconfig=kubeconfig, context=context)

    async def __aenter__(self) -> AsyncMiniClusters:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections to the cluster."""
        await self._connection.close()

    async def namespace(self) -> str:
        """The namespace in use."""
        return await self._connection.namespace()

    async def submit(self, minicluster: MiniCluster | Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Create a MiniCluster.

        Args:
            minicluster: The model, or an object as in YAML. Its namespace wins over this client's.
            dry_run: Let the API server check it, and create nothing.

        Returns:
            The object as created.

        Raises:
            InvalidMiniCluster: It cannot be run; nothing was sent.
            AlreadyExists: There is a MiniCluster of that name.
            Rejected: The API server finds it invalid.
            NotInstalled: The cluster serves no MiniClusters.
            ClientError: The cluster cannot be asked, or does not permit it.

        Examples:
            >>> miniclusters.submit({
            ...     "apiVersion": "flux-framework.org/v1alpha2",
            ...     "kind": "MiniCluster",
            ...     "metadata": {"name": "hello", "labels": {"kueue.x-k8s.io/queue-name": "team-a"}},
            ...     "spec": {"size": 4, "tasks": 4, "containers": [{"image": "ubuntu", "command": "date"}]},
            ... })
        """
        if not isinstance(minicluster, MiniCluster):
            # What the user wrote is sent, not what the model makes of it.
            MiniCluster.from_object(minicluster)
            body = dict(minicluster)
        else:
            body = minicluster.to_object()
        body = {**body, "apiVersion": API_VERSION, "kind": KIND}
        namespace = body["metadata"].get("namespace") or await self.namespace()
        params = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        if dry_run:
            params["dryRun"] = "All"
        return await self._connection.request("POST", _path(namespace), params=params, body=body)

    async def get(self, name: str) -> Object:
        """Return a MiniCluster as the API server has it.

        Args:
            name: Its name.

        Raises:
            NotFound: There is none of that name.
            ClientError: The cluster cannot be asked.
        """
        return await self._on_one("GET", name)

    async def list(self, *, all_namespaces: bool = False) -> Sequence[Object]:
        """Return the MiniClusters as the API server has them, oldest first.

        Args:
            all_namespaces: Of all namespaces instead of this client's.

        Raises:
            ClientError: The cluster cannot be asked.
        """
        path = f"/apis/{API_VERSION}/{PLURAL}" if all_namespaces else await self._miniclusters()
        items, _ = await self._connection.collect(path)
        return sorted(items, key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]))

    async def status(self, name: str) -> Status:
        """Say where a MiniCluster stands, with its exact position in the queue where Kueue tells it.

        Args:
            name: Its name.

        Raises:
            NotFound: There is none of that name.
            ClientError: The cluster cannot be asked.

        Examples:
            >>> miniclusters.status("hello").stage
            <Stage.QUEUED: 'Queued'>
        """
        (status,) = await self.with_positions([Status.from_object(await self.get(name))])
        return status

    async def with_positions(self, statuses: Iterable[Status]) -> tuple[Status, ...]:
        """Bring the positions of those that wait up to date, with one request for each queue, and say behind whom.

        Where Kueue's visibility API does not answer (it may be off, or not for this user), a position stays
        as the controller last saw it.

        Args:
            statuses: As read from the objects.
        """
        statuses = tuple(statuses)
        waiting = {(s.namespace, s.queue) for s in statuses if s.stage is Stage.QUEUED and s.queue}
        found: dict[tuple[str, str], tuple[Pending, str]] = {}
        for namespace, queue in sorted(waiting):
            try:
                summary = await self._connection.request("GET", pending_workloads_path(namespace, queue))
            except (NotFound, Forbidden, Unavailable):
                continue
            behind = ""
            for item in pending(summary):
                found[namespace, item.workload] = item, behind
                behind = item.owner.name
        return tuple(_placed(s, found.get((s.namespace, s.workload))) for s in statuses)

    async def watch(self, name: str, *, on_outage: OnOutage | None = None) -> AsyncGenerator[Object, None]:
        """Yield a MiniCluster as it is, and again after each change, over lost connections.

        Args:
            name: Its name.
            on_outage: Called with the error each time that the cluster cannot be asked.

        Raises:
            NotFound: There is none of that name.
            Deleted: It was deleted meanwhile.
            ClientError: The cluster cannot be asked.
        """
        uid = ""
        stream = states(self._connection, await self._miniclusters(), _selector(name), on_outage=on_outage)
        async with aclosing(stream) as objects:
            async for found in objects:
                if not found and not uid:
                    raise await self._no_such(name)
                if not found or (uid and found[0]["metadata"]["uid"] != uid):
                    raise Deleted(f"MiniCluster {name} was deleted")
                uid = found[0]["metadata"]["uid"]
                yield found[0]

    async def wait(self, name: str, condition: str = "Finished", timeout: float | None = None) -> Result:  # noqa: ASYNC109
        """Wait for a condition, or for the end.

        Args:
            name: The MiniCluster's name.
            condition: A condition type: `QuotaReserved`, `Admitted`, `Ready` or `Finished`.
            timeout: Seconds; None waits for ever.

        Returns:
            With `succeeded` None: the condition is reached and the command may still run. Otherwise it has
            finished, and this is its result.

        Raises:
            WaitTimeout: It did not come in time. The MiniCluster goes on.
            Unanswered: The cluster has not answered in that time.
            Refused: kueue-flux does not run this MiniCluster.
            Deleted: It was deleted meanwhile.
            NotFound: There is none of that name.
            ClientError: The cluster cannot be asked.

        Examples:
            >>> miniclusters.wait("hello", timeout=600).exit_code
            0
        """
        status: Status | None = None
        try:
            async with asyncio.timeout(timeout), aclosing(self.watch(name)) as objects:
                async for obj in objects:
                    status = Status.from_object(obj)
                    if (result := reached(obj, status, condition)) is not None:
                        return result
        except TimeoutError:
            if status is None:
                raise Unanswered(name, timeout) from None
            at = f"it is {status.stage}, {status.message or 'no reason given'}"
            raise WaitTimeout(f"MiniCluster {name} is not {condition.lower()} after {timeout:g} s: {at}") from None
        raise AssertionError("a watch does not end by itself")

    async def logs(self, name: str, *, follow: bool = False) -> AsyncGenerator[str, None]:
        """Yield the lines of the command's output: what the lead, index 0, has written.

        Args:
            name: The MiniCluster's name.
            follow: Wait for the pod where there is none yet, and go on until the MiniCluster has finished,
                from pod to pod where one is evicted.

        Raises:
            NotStarted: There is no output yet; with `follow`, it has ended without any.
            Refused: kueue-flux does not run this MiniCluster.
            Deleted: It was deleted before it had any output.
            NotFound: There is no MiniCluster of that name.
            ClientError: The log cannot be read.

        Examples:
            >>> for line in miniclusters.logs("hello", follow=True):
            ...     print(line)
        """
        async with aclosing(self.raw_logs(name, follow=follow)) as lines:
            async for line in lines:
                yield line.decode(errors="replace")

    async def raw_logs(self, name: str, *, follow: bool = False) -> AsyncGenerator[bytes, None]:
        """The same as :meth:`logs`, with the bytes that the command wrote."""
        found = await self.get(name)
        uid, namespace = found["metadata"]["uid"], await self.namespace()
        if follow:
            stream = follow_output(self._connection, namespace, uid, await self._miniclusters(), _selector(name))
        else:
            lead = await logs.current_lead(self._connection, namespace, uid)
            if lead is None or not lead.run:
                raise logs.no_output(Status.from_object(found))
            stream = logs.read(self._connection, namespace, lead, follow=False)
        async with aclosing(stream) as lines:
            async for line in lines:
                yield line

    async def delete(self, name: str, *, foreground: bool = True) -> None:
        """Delete a MiniCluster and all that belongs to it; returns once the deletion is accepted.

        Args:
            name: Its name.
            foreground: It stays until its pods have ended, so that its quota is free once it is gone; else
                it goes at once, its name can be used again, and its pods follow.

        Raises:
            NotFound: There is none of that name.
            ClientError: The cluster cannot be asked, or does not permit it.
        """
        policy = "Foreground" if foreground else "Background"
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
        await self._on_one("DELETE", name, options)

    async def wait_deleted(self, name: str, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait until a MiniCluster and its pods are gone.

        Args:
            name: Its name.
            timeout: Seconds; None waits for ever.

        Raises:
            WaitTimeout: It is still there.
            ClientError: The cluster cannot be asked.
        """
        try:
            async with asyncio.timeout(timeout), aclosing(self.watch(name)) as objects:
                async for _ in objects:
                    continue
        except (NotFound, Deleted):
            return
        except TimeoutError:
            raise WaitTimeout(f"MiniCluster {name} is still being deleted after {timeout:g} s") from None

    async def events(self, name: str, *, uid: str = "") -> Sequence[Object]:
        """Return the events of a MiniCluster, oldest first, as core/v1 Events.

        Args:
            name: Its name.
            uid: Its uid, to leave out those of others that had the name before; empty for all.

        Raises:
            ClientError: The cluster cannot be asked, or does not permit it.
        """
        selector = f"involvedObject.kind={KIND},involvedObject.name={name}"
        selector += f",involvedObject.uid={uid}" if uid else ""
        items, _ = await self._connection.collect(
            f"/api/v1/namespaces/{await self.namespace()}/events", {"fieldSelector": selector}
        )
        return sorted(items, key=event_time)

    async def pods(self, name: str) -> Sequence[Object]:
        """Return the pods of a MiniCluster.

        Args:
            name: Its name.

        Raises:
            NotFound: There is none of that name.
            ClientError: The cluster cannot be asked, or does not permit it.
        """
        uid = (await self.get(name))["metadata"]["uid"]
        selector = {"labelSelector": f"{logs.MINICLUSTER_UID}={uid}"}
        items, _ = await self._connection.collect(logs.pods_path(await self.namespace()), selector)
        return items

    async def queues(self) -> tuple[str, ...]:
        """Return the names of the namespace's LocalQueues.

        Raises:
            NotFound: The cluster has no Kueue.
            ClientError: The cluster cannot be asked, or does not permit it.
        """
        return await self._names(f"{KUEUE_API}/namespaces/{await self.namespace()}/localqueues")

    async def gives_default_queue(self) -> bool:
        """Whether Kueue gives a LocalQueue to what names none: the one named `default`, unless that is stopped.

        Raises:
            NotFound: The cluster has no Kueue.
            ClientError: The cluster cannot be asked, or does not permit it.
        """
        items, _ = await self._connection.collect(f"{KUEUE_API}/namespaces/{await self.namespace()}/localqueues")
        found = (item.get("spec", {}) for item in items if item["metadata"]["name"] == DEFAULT_QUEUE)
        return any(spec.get("stopPolicy", "None") == "None" for spec in found)

    async def priority_classes(self) -> tuple[str, ...]:
        """Return the names of the cluster's WorkloadPriorityClasses.

        Raises:
            NotFound: The cluster has no Kueue.
            ClientError: The cluster cannot be asked, or does not permit it.
        """
        return await self._names(f"{KUEUE_API}/workloadpriorityclasses")

    async def _names(self, path: str) -> tuple[str, ...]:
        items, _ = await self._connection.collect(path)
        return tuple(sorted(item["metadata"]["name"] for item in items))

    async def _miniclusters(self) -> str:
        return _path(await self.namespace())

    async def _on_one(self, method: str, name: str, body: Mapping[str, Any] | None = None) -> Object:
        if not can_be_name(name):
            raise await self._no_such(name)
        try:
            return await self._connection.request(method, f"{await self._miniclusters()}/{name}", body=body)
        except NotFound as error:
            raise await self._no_such(name) from error

    async def _no_such(self, name: str) -> NotFound:
        namespace = await self.namespace()
        return NotFound(
            f"there is no MiniCluster {name or repr(name)} in namespace {namespace}",
            f"see what there is: kueue-flux list -n {namespace}",
        )


def reached(obj: Mapping[str, Any], status: Status, condition: str) -> Result | None:
    """Say whether a MiniCluster has come to what someone waits for.

    Args:
        obj: The MiniCluster.
        status: The same, read.
        condition: A condition type.

    Returns:
        Its end, or the condition; None while neither is there.

    Raises:
        Refused: Neither will come.
    """
    if status.result is not None:
        return status.result
    if refused := refusal(status):
        raise refused
    found = conditions(obj).get(condition, {})
    if found.get("status") != "True":
        return None
    return Result(None, None, str(found.get("reason", "")), str(found.get("message", "")))


def event_time(event: Mapping[str, Any]) -> str:
    """When an event was last seen (RFC 3339), in whichever field its reporter wrote it."""
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp", "")
    )


def _placed(status: Status, place: tuple[Pending, str] | None) -> Status:
    if place is None or status.stage is not Stage.QUEUED:
        return status
    item, behind = place
    return replace(status, position=item.position, behind=behind)


def _path(namespace: str) -> str:
    return f"/apis/{API_VERSION}/namespaces/{existing_namespace(namespace)}/{PLURAL}"


def _selector(name: str) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={name}"}
