import re

import pytest

from kueue_flux.restful import fields
from kueue_flux.restful.answers import Problem
from kueue_flux.restful.fields import LARGEST, Field, read_fields

STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("read", "given", "value"),
    [
        (fields.text, "ƒoo", "ƒoo"),
        (fields.whole(1), "1", 1),
        (fields.whole(1), 2, 2),
        (fields.whole(1), 2.0, 2),
        (fields.whole(1), "2.0", 2),
        (fields.whole(0), 0, 0),
        (fields.whole(0), LARGEST, LARGEST),
        (fields.flag, True, True),
        (fields.flag, "true", True),
        (fields.flag, "True", True),
        (fields.flag, "on", True),
        (fields.flag, 1, True),
        (fields.flag, "0", False),
        (fields.flag, False, False),
        (fields.words, "echo 'a b' \"c\"", ["echo", "a b", "c"]),
        (fields.words, "echo $HOME; ls > x", ["echo", "$HOME;", "ls", ">", "x"]),
        (fields.words, "echo pancakes 🥞", ["echo", "pancakes", "🥞"]),
        (fields.words, ["sleep", 60, 1.5, "a b"], ["sleep", "60", "1.5", "a b"]),
        (fields.words, ["echo", ""], ["echo", ""]),
        (fields.environment, {"A": "b=c", "E": ""}, {"A": "b=c", "E": ""}),
        (fields.environment, '{"A": "b"}', {"A": "b"}),
        (fields.environment, "{'A': 'b'}", {"A": "b"}),
        (fields.environment, {}, {}),
        (fields.options, "ompi=openmpi@5", {"ompi": "openmpi@5"}),
        (fields.options, "verbose=2,cpu-affinity=off", {"verbose": 2, "cpu-affinity": "off"}),
        (fields.options, "verbose", {"verbose": 1}),
        (fields.options, " a=1 , ,b=x=y", {"a": 1, "b": "x=y"}),
        (fields.options, {"a": "1", "b": 2, "c": "x,y", "d": True}, {"a": 1, "b": 2, "c": "x,y", "d": True}),
        (fields.options, {"a": '{"stdout": 1}'}, {"a": '{"stdout": 1}'}),
    ],
)
def test_read(read, given, value):
    found = read(given)
    assert found == value
    assert type(found) is type(value)


WHOLE = "must be a whole number from 1 to 2147483647"


@pytest.mark.parametrize(
    ("read", "given", "says"),
    [
        (fields.text, 7, "must be text, not a number"),
        (fields.text, ["a"], "must be text, not a list"),
        (fields.text, "a\0b", "must not contain NUL"),
        (fields.text, "\ud800", "half of a surrogate pair"),
        (fields.whole(1), "0", WHOLE),
        (fields.whole(1), -1, WHOLE),
        (fields.whole(1), "many", WHOLE),
        (fields.whole(1), 1.5, WHOLE),
        (fields.whole(1), "1.5", WHOLE),
        (fields.whole(1), True, WHOLE),
        (fields.whole(1), "nan", WHOLE),
        (fields.whole(1), "inf", WHOLE),
        (fields.whole(1), 1e300, WHOLE),
        (fields.whole(1), 2**31, WHOLE),
        (fields.whole(1), "9" * 400, WHOLE),
        (fields.whole(1), [1], WHOLE),
        (fields.whole(1), {}, WHOLE),
        (fields.flag, "maybe", "must be true or false"),
        (fields.flag, 2, "must be true or false"),
        (fields.flag, [], "must be true or false"),
        (fields.words, [], "names no program"),
        (fields.words, [""], "names no program"),
        (fields.words, " ", "names no program"),
        (fields.words, "''", "names no program"),
        (fields.words, "echo 'a", "close the quote"),
        (fields.words, "echo \\", "write it as a list"),
        (fields.words, ["echo", None], "must be text, not null"),
        (fields.words, ["echo", ["a"]], "must be text, not a list"),
        (fields.words, ["echo", "a\0"], "NUL"),
        (fields.words, {"a": "b"}, "must be text, not an object"),
        (fields.words, 7, "must be text, not a number"),
        (fields.environment, "A=b", "must be names and values"),
        (fields.environment, "{", "must be names and values"),
        (fields.environment, "(" * 5000, "must be names and values"),
        (fields.environment, "__import__('os').getcwd()", "must be names and values"),
        (fields.environment, ["A"], "must be names and values"),
        (fields.environment, {"A": 1}, "the value of A must be text, not a number: put it in quotes"),
        (fields.environment, {"A=B": "x"}, "'A=B' cannot be the name of a variable"),
        (fields.environment, {"": "x"}, "'' cannot be the name of a variable"),
        (fields.environment, {"A\0": "x"}, "NUL"),
        (fields.environment, {"A": "\0"}, "NUL"),
        (fields.environment, "{1: 'x'}", "1 cannot be the name of a variable"),
        (fields.options, 7, "must be names and values"),
        (fields.options, {"a": {"b": 1}}, "the value of a must be text or a number, not an object"),
        (fields.options, {"a": None}, "not null"),
        (fields.options, {"a": "\0"}, "NUL"),
    ],
)
def test_refused(read, given, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        read(given)


KNOWN = (Field("size", fields.whole(1), {}, "", ("n", "number")), Field("name", fields.text, STRING, ""))


def test_what_was_given_is_read_under_its_own_name():
    assert read_fields(KNOWN, {"n": "3", "name": "x"}, "query") == {"size": 3, "name": "x"}


def test_nothing_is_as_good_as_absent():
    assert read_fields(KNOWN, {"size": None, "name": ""}, "body") == {}


@pytest.mark.parametrize(
    ("given", "name", "says"),
    [
        ({"colour": "red"}, "colour", "there is no such option here; there are: name, size"),
        ({"size": "x"}, "size", "must be a whole number"),
        ({"size": 1, "n": 2}, "n", "given twice, as size too"),
    ],
)
def test_the_field_that_is_wrong_is_named(given, name, says):
    with pytest.raises(Problem) as refused:
        read_fields(KNOWN, given, "body")
    (detail,) = refused.value.content["detail"]
    assert refused.value.status == 422
    assert detail["loc"] == ["body", name]
    assert detail["msg"].startswith(f"{name}: ")
    assert says in detail["msg"]
