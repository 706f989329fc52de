"""Where MiniClusters stand in their queues: who is asked, how often, and what is worth telling."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kueue_flux.controller import positions
from kueue_flux.controller.positions import INTERVAL_SECONDS, RETRY_SECONDS, Positions, Waiting
from kueue_flux.kueue.visibility import Place
from kueue_flux.runtime.errors import ApiError


class Visibility:
    """Kueue's visibility API: what it answers, by LocalQueue, and what it was asked."""

    def __init__(self) -> None:
        self.queues: dict[str, dict[str, int] | ApiError] = {}
        self.asked: list[str] = []

    async def request(self, method: str, path: str) -> dict[str, Any]:
        assert method == "GET"
        self.asked.append(path)
        queue = path.split("/")[-2]
        answer = self.queues.get(queue, ApiError(404, "NotFound", "no such queue"))
        if isinstance(answer, ApiError):
            raise answer
        return {
            "items": [
                {"metadata": {"name": name}, "positionInClusterQueue": position} for name, position in answer.items()
            ]
        }


def waiting(*names: str, queue: str = "q") -> list[Waiting]:
    return [("team", queue, f"job-{name}", ("team", name)) for name in names]


def known(visibility: Visibility, *of: list[Waiting]) -> tuple[Positions, list[str]]:
    """Positions of these MiniClusters, and the list of those of which it told."""
    everyone = [one for some in of for one in some]
    found = Positions(visibility, lambda: everyone)  # type: ignore[arg-type]  # as much of a Client as it uses
    told: list[str] = []
    found.subscribe(lambda namespace, name: told.append(name))
    return found, told


@pytest.fixture
def visibility() -> Visibility:
    return Visibility()


async def test_each_queue_is_asked_once(visibility: Visibility) -> None:
    visibility.queues = {"q": {"job-a": 0, "job-b": 1, "job-stranger": 2}, "r": {"job-c": 5}}
    found, told = known(visibility, waiting("a", "b"), waiting("c", queue="r"))
    await found.poll()
    assert visibility.asked == [
        f"/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/{queue}/pendingworkloads"
        for queue in ("q", "r")
    ]
    assert found == {
        ("team", "job-a"): Place(0),
        ("team", "job-b"): Place(1, "job-a", 1),
        ("team", "job-c"): Place(5),
    }
    assert told == ["a", "b", "c"]


async def test_nobody_is_asked_when_nothing_waits(visibility: Visibility) -> None:
    found, _ = known(visibility)
    await found.poll()
    assert visibility.asked == []


async def test_what_no_longer_waits_is_forgotten(visibility: Visibility) -> None:
    visibility.queues = {"q": {"job-a": 0, "job-b": 1}}
    found, told = known(visibility, waiting("a", "b"))
    await found.poll()
    visibility.queues = {"q": {"job-b": 0}}
    await found.poll()
    assert found == {("team", "job-b"): Place(0)}
    assert told == ["a", "b", "b"]


async def test_a_queue_that_does_not_exist_hides_no_other(visibility: Visibility) -> None:
    visibility.queues = {"r": {"job-c": 5}}
    found, _ = known(visibility, waiting("a"), waiting("c", queue="r"))
    await found.poll()
    assert found == {("team", "job-c"): Place(5)}


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (3, 3, False),
        (3, 2, True),
        (9, 8, True),
        (200, 199, False),  # a thousand that wait must not be told each time that the head is admitted
        (200, 181, True),
        (100, 91, False),
        (100, 90, True),
        (12, 11, False),
        (11, 9, True),
        (5, 900, True),
    ],
)
async def test_deep_in_the_queue_positions_are_told_coarsely(
    visibility: Visibility, first: int, second: int, told: bool
) -> None:
    visibility.queues = {"q": {"job-a": first}}
    found, heard = known(visibility, waiting("a"))
    await found.poll()
    visibility.queues = {"q": {"job-a": second}}
    await found.poll()
    assert found["team", "job-a"].position == (second if told else first)
    assert heard == ["a"] * (2 if told else 1)


async def test_who_is_ahead_may_change_without_a_word_of_its_own(visibility: Visibility) -> None:
    """A thousand MiniClusters that wait must not be told of each other all the time."""
    visibility.queues = {"q": {"job-a": 0, "job-b": 2}}
    found, told = known(visibility, waiting("b"))
    await found.poll()
    assert found["team", "job-b"].behind == "job-a and 1 of other queues"
    visibility.queues = {"q": {"job-c": 1, "job-b": 2}}
    await found.poll()
    assert found["team", "job-b"].behind == "job-c and 1 of other queues"
    assert told == ["b"]


async def test_far_behind_nobody_is_named(visibility: Visibility) -> None:
    visibility.queues = {"q": {"job-a": 0, "job-b": 10}}
    found, _ = known(visibility, waiting("b"))
    await found.poll()
    assert (found["team", "job-b"].position, found["team", "job-b"].behind) == (10, "")


@pytest.mark.parametrize(
    ("answer", "pause"), [({}, INTERVAL_SECONDS), (ApiError(503, "ServiceUnavailable", "off"), RETRY_SECONDS)]
)
async def test_an_api_that_is_off_is_asked_less_often(
    visibility: Visibility, monkeypatch: pytest.MonkeyPatch, answer: Any, pause: float
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise asyncio.CancelledError

    monkeypatch.setattr(positions.asyncio, "sleep", sleep)
    visibility.queues = {"q": answer}
    found, _ = known(visibility, waiting("a"))
    with pytest.raises(asyncio.CancelledError):
        await found.run()
    assert pauses == [pause, pause]


def test_a_subscriber_is_called_for_each_change() -> None:
    calls: list[tuple[str, str]] = []
    subscriber: Callable[[str, str], None] = lambda namespace, name: calls.append((namespace, name))  # noqa: E731
    found = Positions(Visibility(), list)  # type: ignore[arg-type]
    found.subscribe(subscriber)
    found._note(("team", "job-a"), Place(1), ("team", "a"))
    assert calls == [("team", "a")]
