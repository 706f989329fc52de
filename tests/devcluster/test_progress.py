"""Progress as a CI log shows it: without a tty, every stage begins, beats and ends in lines of its own."""

import io
import time

import pytest
from rich.console import Console

from kueue_flux.devcluster.progress import Progress, duration


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def out():
    return io.StringIO()


@pytest.fixture
def progress(clock, out):
    return Progress(Console(file=out, force_terminal=False, width=40), heartbeat=3600, clock=clock)


def test_stages_are_nested_and_timed(progress, clock, out):
    with progress.stage("build a node image that has a long title"):
        clock.now += 2
        with progress.stage("build etcd") as stage:
            stage.update("3 of 7 packages")
            clock.now += 63
            progress.beat()
        clock.now += 1
    assert out.getvalue().splitlines() == [
        "build a node image that has a long title ...",
        "  build etcd ...",
        "  build etcd: 3 of 7 packages, 1 min 03 s",
        "  build etcd: done in 1 min 03 s",
        "build a node image that has a long title: done in 1 min 06 s",
    ]
    assert progress.summary().splitlines() == [
        "took 1 min 06 s",
        "    1 min 06 s  build a node image that has a long title",
    ]


def test_the_summary_names_the_longest_stages(progress, clock):
    for number, seconds in enumerate((1, 3, 50, 4, 20, 5, 6), start=1):
        with progress.stage(f"stage {number}"):
            clock.now += seconds
    total, *stages = progress.summary().splitlines()
    assert total == "took 1 min 29 s"
    assert [line.split("  ")[-1] for line in stages] == [f"stage {number}" for number in (3, 5, 7, 6, 4)]


def test_a_failure_is_told_from_success(progress, clock, out):
    def fail():
        with progress.stage("build"):
            clock.now += 4
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert out.getvalue().splitlines()[-1] == "build: failed after 4.0 s"


def test_an_update_goes_to_the_innermost_stage(progress, out):
    progress.update("nobody asked")
    with progress.stage("outer"), progress.stage("inner"):
        progress.update("half way")
        progress.beat()
    assert "  inner: half way, 0.0 s" in out.getvalue().splitlines()


def test_what_looks_like_markup_is_printed_as_it_is(progress, out):
    progress.note("plugins [bold]x[/bold]")
    assert out.getvalue() == "plugins [bold]x[/bold]\n"


def test_a_long_stage_shows_signs_of_life_by_itself(out):
    progress = Progress(Console(file=out, force_terminal=False), heartbeat=0.02)
    with progress.stage("long"):
        end = time.monotonic() + 10
        while "long: " not in out.getvalue():
            assert time.monotonic() < end, "no heartbeat"
            time.sleep(0.01)


def test_a_terminal_gets_one_line_that_changes_and_the_ends(clock, out):
    progress = Progress(Console(file=out, force_terminal=True, highlight=False), heartbeat=3600, clock=clock)
    with progress.stage("build") as stage:
        stage.update("a [b] c")
        progress.beat()
    assert "build: done in 0.0 s" in out.getvalue()
    assert "build ..." not in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (60, "1 min 00 s"), (185.4, "3 min 05 s")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text
