import pytest

from bench import numbers
from tests.bench import records


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([5.0], 99, 5.0),
        ([1.0, 2.0, 3.0], 50, 2.0),
        ([3.0, 1.0, 2.0], 0, 1.0),
        ([1.0, 2.0, 3.0], 100, 3.0),
        ([1.0, 2.0], 50, 1.5),
        (list(range(101)), 99, 99.0),
    ],
)
def test_percentiles_lie_between_neighbours(values: list[float], percent: float, expected: float):
    assert numbers.percentile(values, percent) == expected


def test_nothing_has_no_percentile():
    with pytest.raises(ValueError, match="no values"):
        numbers.percentile([], 50)


def test_the_sides_are_compared_by_their_means_and_every_round_stays_visible():
    (rounds,) = numbers.sides(records.scale()["rounds"]).values()
    rows = {row["what"]: row for row in numbers.comparison(rounds)}
    rate = rows["admitted /s"]
    assert (rate["jobs"], rate["mcs"]) == ([10.0, 12.0], [9.0, 9.0])
    assert (rate["job"], rate["mc"], rate["ratio"]) == (11.0, 9.0, pytest.approx(9 / 11))
    assert rows["API requests, each"]["ratio"] == 1.5
    assert rows["kube-apiserver CPU, ms each"]["job"] == 20.0


def test_requests_are_listed_by_how_many_more_a_minicluster_makes():
    (rounds,) = numbers.sides(records.scale()["rounds"]).values()
    assert numbers.calls(rounds) == [("PUT endpoints", 0.0, 5.0), ("POST secrets", 0.0, 1.0), ("POST jobs", 1.0, 1.0)]


def test_injection_is_pooled_over_rounds_and_told_in_milliseconds():
    rows = numbers.injection(records.scale(injection=0.005))
    assert [(row["situation"], row["view"], row["count"]) for row in rows[:4]] == [
        ("one at a time", "as clients see it", 1),
        ("one at a time", "in etcd", 1),
        ("one at a time", "until the adapter's turn", 1),
        ("quota for all", "as clients see it", 6),
    ]
    assert rows[3]["p50"] == 5.0
    assert rows[3]["max"] == 50.0


def test_memory_is_told_for_a_thousand_and_extrapolated_from_the_empty_adapter():
    (row,) = numbers.memory(records.scale()["standing"])
    assert row["per_thousand"] == 10.0
    assert row["at_ten_thousand"] == 170.0


def test_stages_come_in_their_order_followed_by_the_differences():
    rows = {row["what"]: row for row in numbers.stages(records.pods(0.5, 0.75, 2.0))}
    assert list(rows) == [
        *("created", "admitted", "injected", "containers up", "Flux RUN", "output", "finished"),
        *("admitted to injected", "containers up to Flux RUN", "Flux RUN to output", "output to finished"),
    ]
    boot = rows["containers up to Flux RUN"]
    assert (boot["median"], boot["min"], boot["max"], boot["runs"]) == (0.75, 0.5, 2.0, 3)


def test_a_stage_that_a_run_did_not_reach_counts_fewer_runs():
    part = records.pods(0.5, 0.5)
    del part["runs"][1]["Flux RUN"]
    rows = {row["what"]: row for row in numbers.stages(part)}
    assert rows["Flux RUN"]["runs"] == rows["Flux RUN to output"]["runs"] == 1
    assert rows["output"]["runs"] == 2
