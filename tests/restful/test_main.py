import threading

import pytest

from kueue_flux.restful.answers import failed
from kueue_flux.restful.main import until_stopped


def broker(script):
    """A connection that is there (1) or not (0), one look after the other; at the end somebody says stop."""
    stop, looks = threading.Event(), iter(script)

    def connect():
        there = next(looks, None)
        if there is None:
            stop.set()
        elif not there:
            raise failed(503, "Flux does not answer")

    return stop, connect


@pytest.mark.parametrize(
    ("script", "told"), [([], True), ([1, 1], True), ([0], True), ([1, 0, 1, 0, 1], True), ([1, 0, 0], False)]
)
def test_it_serves_until_told_or_until_the_broker_has_gone_for_good(script, told):
    assert until_stopped(*broker(script), look=0.001) is told


def test_told_before_it_began():
    stop = threading.Event()
    stop.set()
    assert until_stopped(stop, lambda: pytest.fail("nobody has to look"))
