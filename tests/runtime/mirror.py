"""A reflector of pods that runs, and what it and the server hold, for the reflector's tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kueue_flux.runtime.reflector import Reflector
from kueue_flux.runtime.store import Store
from tests.runtime.fake_api import PODS, FakeApi, pod
from tests.runtime.fake_server import client_of


@asynccontextmanager
async def mirror(api: FakeApi, **options: Any) -> AsyncIterator[Reflector]:
    """A reflector of pods that runs; in the end its store must equal the server's."""
    reflector = Reflector(client_of(api), options.pop("resource", PODS), Store(), **options)
    running = asyncio.create_task(reflector.run())
    try:
        await asyncio.sleep(1)
        yield reflector
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def seen(reflector: Reflector) -> dict[str, str]:
    return {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in reflector.store}


def there(api: FakeApi) -> dict[str, str]:
    objects = api.collections.get("api/v1/pods", {}).values()
    return {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in objects}


def now() -> float:
    return asyncio.get_running_loop().time()


def with_pods(count: int) -> FakeApi:
    api = FakeApi()
    for number in range(count):
        api.put(PODS, pod(f"p{number:04}"))
    return api
