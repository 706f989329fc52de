from typing import Any

import pytest

from bench import aims
from tests.bench import records


def verdict(results: dict[str, Any], words: str) -> bool:
    (aim,) = [aim for aim in aims.check(results) if words in aim.what]
    return aim.met


@pytest.mark.parametrize(("seconds", "met"), [(0.0099, True), (0.0101, False)])
def test_injection_is_held_against_its_median(seconds: float, met: bool):
    assert verdict(records.results(scale=records.scale(injection=seconds)), "after admission, quota for all") is met


@pytest.mark.parametrize(("rate", "met"), [(10.5, True), (10.4, False)])
def test_rates_are_held_against_those_of_plain_jobs(rate: float, met: bool):
    results = records.results(scale=records.scale(mc_per_second=rate))
    assert verdict(results, "admitted a second") is met
    assert verdict(results, "finished a second") is met


def test_one_slow_boot_is_enough_to_miss_the_aim():
    assert verdict(records.results(pods=records.pods(0.5, 0.9, 1.0)), "RUN within 1 s")
    assert not verdict(records.results(pods=records.pods(0.5, 0.9, 1.1)), "RUN within 1 s")


def test_memory_is_held_against_the_extrapolation():
    scale = records.scale()
    assert verdict(records.results(scale=scale), "1000 waiting")
    scale["standing"]["points"][0]["resident_mib"] = 94.0
    assert not verdict(records.results(scale=scale), "1000 waiting")


def test_aims_of_a_part_that_was_not_run_are_left_out():
    assert aims.check(records.results()) == []
    assert len(aims.check(records.results(pods=records.pods(0.5)))) == 1
