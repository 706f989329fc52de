"""Text that makes a parser stumble, or work for ever, is a refusal like any other."""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from kueue_flux.api import checks, hostlist, record, validation
from kueue_flux.api.broker_config import entries, read
from kueue_flux.api.command import CommandError, split
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.problems import InvalidMiniCluster, Problem
from kueue_flux.api.quantity import MAXIMUM, parse
from tests.api.bad_inputs import Object, minicluster, with_container


def refusal(obj: Any) -> list[Problem]:
    with pytest.raises(InvalidMiniCluster) as raised:
        MiniCluster.from_object(obj)
    assert raised.value.reason == "InvalidSpec"
    return raised.value.problems


def test_the_largest_quantity_is_exact() -> None:
    assert parse(str(MAXIMUM)) == parse(MAXIMUM) == Decimal(2**63 - 1)


@pytest.mark.parametrize("number", [10**5000, -(10**5000), 2**63], ids=["long", "negative", "64 bits"])
def test_whole_numbers_of_any_length(number: int) -> None:
    (problem,) = refusal(with_container(resources={"limits": {"cpu": number}}))
    assert problem.field == "spec.containers[0].resources.limits.cpu"
    (problem,) = refusal(minicluster({"size": number}))
    assert problem.field == "spec.size"


NESTED = 30_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"a = {'[' * NESTED}{']' * NESTED}", "is nested too deeply"),
        (f"a = {'[' * 90}{']' * 90}", "is nested too deeply"),  # Python could read it, and not write it again
        (f"a = {'{a=' * 15000}1{'}' * 15000}", "is nested too deeply"),
        (f"{'a.' * NESTED}a = 1", "has a key of more than 64 parts"),
        (f"[{'a.' * NESTED}a]", "has a key of more than 64 parts"),
        ('"a". ' * 10000 + "a = 1", "has a key of more than 64 parts"),
        (f"a = {'9' * 5000}", "cannot be read: Exceeds the limit"),
        (f"a = 0x{'f' * 5000}", "'a' is a number of more than 64 bits"),
        (f"[a]\nb = [{2**63}]", "'a.b' is a number of more than 64 bits"),
    ],
    ids=map(str, range(9)),
)
def test_a_broker_configuration_that_cannot_be_read(text: str, words: str) -> None:
    (problem,) = refusal(minicluster({"flux": {"brokerConfig": text}}))
    assert problem.field == "spec.flux.brokerConfig"
    assert words in problem.message


@pytest.mark.parametrize(
    "text",
    [
        f"# {'.' * 1000}\na = 1",
        f"a = '{'.' * 1000}'",
        f'a = "{"." * 1000}"',
        'a = """\n' + "1.2 " * 80 + '\n"""',
        "a = '''\n" + "1.2 " * 80 + "\n'''",
        f"a = [{', '.join(['1.5'] * 100)}]",
        f"a = {2**63 - 1}",
    ],
    ids=map(str, range(7)),
)
def test_a_broker_configuration_that_can(text: str) -> None:
    assert MiniCluster.from_object(minicluster({"flux": {"brokerConfig": text}})).spec.flux.broker_config == text
    assert "a" in read(text)


@pytest.mark.parametrize("value", ["5", "'sched'", "[1]", "true"])
def test_alternatives_that_are_no_table(value: str) -> None:
    config = {"brokerConfig": f"[modules]\nalternatives = {value}\n", "scheduler": {"simple": True}}
    (problem,) = refusal(minicluster({"flux": config}))
    assert problem.field == "spec.flux.brokerConfig"
    assert "modules.alternatives must be a table" in problem.message


@pytest.mark.parametrize(
    "host", ["a[0-999999]", ",".join(["a[0-99999]"] * 2000), f"a[{','.join(['0-99999'] * 2000)}]", "[0-9]" * 9]
)
def test_hosts_are_counted_before_they_are_listed(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    expand = hostlist._expand

    def counted(expression: str) -> Iterator[str]:
        for name in expand(expression):
            listed.append(name)
            yield name

    monkeypatch.setattr(hostlist, "_expand", counted)
    text = f"[bootstrap]\nhosts = [{{ host = '{host}' }}, {{ host = '{host}' }}]\n"
    (problem,) = refusal(minicluster({"flux": {"brokerConfig": text}}))
    assert problem.field == "spec.flux.brokerConfig"
    assert "[bootstrap] hosts: " in problem.message
    assert len(listed) <= 1001


def test_all_entries_together_have_a_bound() -> None:
    table = {"hosts": [{"host": "a[0-3]"}, {"host": "a[0-3]"}]}
    assert len(entries(table, 8)) == 2
    with pytest.raises(ValueError, match="has more than 3 hosts"):
        entries(table, 7)


def test_a_name_that_no_host_has_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="a name of more than 253 characters"):
        hostlist.decode(f"{'a' * 60_000}[0-99999]")


@pytest.mark.parametrize(
    "obj",
    [
        None,
        [],
        "a",
        {},
        {"spec": None},
        {"spec": []},
        {"metadata": {"name": 1}},
        {"metadata": {"name": "a"}, "spec": {"containers": [{1: 2}]}},
        {**minicluster(), "metadata": {"name": "a", "labels": []}},
        minicluster(name="\ud800"),
        with_container(environment={"\ud800": "\ud800"}),
        with_container(**{"\x1b": 1}),
    ],
    ids=map(str, range(12)),
)
def test_whatever_it_is_it_is_refused(obj: Any) -> None:
    for problem in refusal(obj):
        assert str(problem).isprintable()


@pytest.mark.parametrize("error", [RecursionError(), TypeError("no len"), OverflowError("inf"), MemoryError()])
def test_a_check_that_stumbles_is_a_refusal(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumbles(mc: MiniCluster) -> Iterator[Problem]:
        yield Problem("spec.size", "is found before", "change it")
        raise error

    monkeypatch.setattr(validation, "CHECKS", {stumbles: "spec.flux.brokerConfig"})
    (problem,) = refusal(minicluster())
    assert problem.field == "spec.flux.brokerConfig"
    told = "it is nested too deeply" if isinstance(error, RecursionError) else type(error).__name__
    assert problem.message.startswith(f"cannot be read: {told}")


def test_a_parser_that_stumbles_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumbles(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr(MiniCluster, "model_validate", stumbles)
    assert "nested too deeply" in str(refusal(minicluster())[0])


def test_problems_are_safe_to_print_and_short() -> None:
    problem = Problem("spec.\x1b[31m" + "a" * 1000, "b\n\u009b" * 1000, "change it")
    assert str(problem).isprintable()
    assert problem.field.startswith("spec.\\x1b[31m")
    assert len(problem.field) < 400
    assert len(problem.message) < 4000


def test_words_are_those_of_a_shell() -> None:
    chance = random.Random(1)
    tried = 0
    for _ in range(20_000):
        text = "".join(chance.choices("ab '\"\\\t", k=chance.randint(0, 12))).strip()
        try:
            words = split(text)
        except CommandError:
            continue
        assert words == shlex.split(text), text
        tried += 1
    assert tried > 5_000


def test_a_command_is_split_once(monkeypatch: pytest.MonkeyPatch) -> None:
    mc = MiniCluster.from_object(with_container(command="app --one"))
    monkeypatch.setattr("kueue_flux.api.command.argv", None)
    assert mc.command is mc.command


@pytest.mark.parametrize("obj", [minicluster(), minicluster({"flux": {"optionFlags": "-o a=é"}})])
def test_what_a_job_can_keep_is_counted_in_bytes(obj: Object) -> None:
    size = len(record.written(obj["spec"]).encode())
    script = {"script": "é" * ((record.MAX_BYTES - size) // 2)}
    obj["spec"]["containers"][0] |= {"command": "", "commands": script}
    (problem,) = record.problems(obj["spec"])
    assert problem.field == "spec"
    assert problem in refusal(obj)
    script["script"] = script["script"][100:]
    assert list(record.problems(obj["spec"])) == []


def test_every_check_names_a_field() -> None:
    assert all(field.startswith(("spec", "metadata")) for field in checks.CHECKS.values())
