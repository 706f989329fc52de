"""The same client for programs without an event loop, and for notebooks, which have one of their own.

Mechanical: each call runs the asynchronous one in a thread of its own and waits for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from kueue_flux.client.miniclusters import AsyncMiniClusters
from kueue_flux.client.restful import ANSWER_SECONDS, Restful, headers

P = ParamSpec("P")
T = TypeVar("T")


def _call(
    method: Callable[Concatenate[AsyncMiniClusters, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[MiniClusters, P], T]:
    @wraps(method)
    def call(self: MiniClusters, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._client, *args, **kwargs))

    return call


def _iterate(
    method: Callable[Concatenate[AsyncMiniClusters, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[MiniClusters, P], Iterator[T]]:
    @wraps(method)
    def iterate(self: MiniClusters, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        stream = method(self._client, *args, **kwargs)
        end = object()

        async def following() -> Any:
            return await anext(stream, end)

        try:
            while (item := self._run(following())) is not end:
                yield item
        finally:
            self._run(stream.aclose())

    return iterate


class MiniClusters:
    """The MiniClusters of one namespace.

    Args:
        namespace: The namespace; None takes that of the kubeconfig's context.
        kubeconfig: Path of a kubeconfig; None takes $KUBECONFIG, ~/.kube/config or the pod's service account.
        context: A context of the kubeconfig; None takes the current one.

    Examples:
        >>> with MiniClusters("default") as miniclusters:
        ...     miniclusters.submit(mc)
        ...     print(*miniclusters.logs("hello", follow=True), sep="\\n")
        ...     miniclusters.wait("hello").exit_code
        0
    """

    def __init__(
        self, namespace: str | None = None, *, kubeconfig: str | None = None, context: str | None = None
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kueue-flux-client", daemon=True)
        self._thread.start()
        self._client = AsyncMiniClusters(namespace, kubeconfig=kubeconfig, context=context)

    def __enter__(self) -> MiniClusters:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the cluster. Calling it again does nothing."""
        if self._loop.is_closed():
            return
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    namespace = _call(AsyncMiniClusters.namespace)
    submit = _call(AsyncMiniClusters.submit)
    get = _call(AsyncMiniClusters.get)
    list = _call(AsyncMiniClusters.list)
    status = _call(AsyncMiniClusters.status)
    watch = _iterate(AsyncMiniClusters.watch)
    wait = _call(AsyncMiniClusters.wait)
    logs = _iterate(AsyncMiniClusters.logs)
    delete = _call(AsyncMiniClusters.delete)
    wait_deleted = _call(AsyncMiniClusters.wait_deleted)
    exec = _call(AsyncMiniClusters.exec)
    run = _call(AsyncMiniClusters.run)
    submit_job = _call(AsyncMiniClusters.submit_job)
    jobs = _call(AsyncMiniClusters.jobs)
    resources = _call(AsyncMiniClusters.resources)
    stop = _call(AsyncMiniClusters.stop)
    events = _call(AsyncMiniClusters.events)
    pods = _call(AsyncMiniClusters.pods)
    queues = _call(AsyncMiniClusters.queues)
    list_queues = _call(AsyncMiniClusters.list_queues)
    queue = _call(AsyncMiniClusters.queue)
    grant = _call(AsyncMiniClusters.grant)
    watch_queue = _iterate(AsyncMiniClusters.watch_queue)
    overview = _call(AsyncMiniClusters.overview)
    watch_overview = _iterate(AsyncMiniClusters.watch_overview)
    priority_classes = _call(AsyncMiniClusters.priority_classes)

    @contextmanager
    def restful(self, name: str, *, local_port: int = 0) -> Iterator[Restful[httpx.Client]]:
        """The same as :meth:`AsyncMiniClusters.restful`, with a session that needs no event loop.

        Args:
            name: The MiniCluster's name.
            local_port: The port of this machine's loopback that leads there; 0 takes one that is free.
        """
        at = self._client.restful_url(name, local_port=local_port)
        url = self._run(at.__aenter__())
        try:
            token = self._run(self._client.restful_token(name))
            with httpx.Client(base_url=url, headers=headers(token), timeout=ANSWER_SECONDS, trust_env=False) as session:
                yield Restful(url, token, session)
        finally:
            self._run(at.__aexit__(None, None, None))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            # ^C arrives here, in the caller's thread: what runs in the other one ends too.
            future.cancel()
            raise
