"""Each bad input is refused, in words that name the field and the remedy."""

from __future__ import annotations

import pytest

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.problems import InvalidMiniCluster, Problem
from tests.api.bad_inputs import INVALID, BadInput, minicluster, with_container


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case.id)
def test_it_is_refused(case: BadInput) -> None:
    with pytest.raises(InvalidMiniCluster) as raised:
        MiniCluster.from_object(case.object)
    problems = raised.value.problems
    named = [problem for problem in problems if problem.field == case.path and case.words in str(problem)]
    assert named, "\n".join(str(problem) for problem in problems)
    assert named[0].reason == "InvalidSpec"
    assert named[0].remedy
    assert raised.value.reason == "InvalidSpec"


def test_all_problems_are_told_at_once() -> None:
    obj = with_container(batch=True, launcher=True, environment={"KUEUE_FLUX_A": ""})
    obj["spec"] |= {"minSize": 5, "flux": {"bursting": {"hostlist": "a"}}}
    with pytest.raises(InvalidMiniCluster) as raised:
        MiniCluster.from_object(obj)
    assert {problem.field for problem in raised.value.problems} == {
        "spec.minSize",
        "spec.flux.bursting",
        "spec.containers[0].launcher",
        "spec.containers[0].environment.KUEUE_FLUX_A",
    }


def test_what_can_never_work_comes_before_what_is_unsupported() -> None:
    obj = minicluster({"flux": {"bursting": {"hostlist": "a"}}, "minSize": 9})
    with pytest.raises(InvalidMiniCluster) as raised:
        MiniCluster.from_object(obj)
    assert [problem.reason for problem in raised.value.problems] == ["InvalidSpec", "UnsupportedField"]
    assert raised.value.message.startswith("spec.minSize: minSize is above size; lower spec.minSize")


def test_an_error_without_problems_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least one"):
        InvalidMiniCluster([])


def test_a_problem_reads_as_a_sentence() -> None:
    assert str(Problem("spec.size", "is bad", "change it")) == "spec.size: is bad; change it"


@pytest.mark.parametrize(
    ("size", "length", "fits"),
    [(1, 61, True), (10, 61, True), (11, 61, False), (11, 60, True), (100, 60, True), (101, 60, False)],
)
def test_the_longest_host_name_has_63_characters(size: int, length: int, fits: bool) -> None:
    obj = minicluster({"size": size}, name="f" * length)
    if fits:
        assert MiniCluster.from_object(obj).spec.size == size
    else:
        with pytest.raises(InvalidMiniCluster, match="longer than 63"):
            MiniCluster.from_object(obj)
