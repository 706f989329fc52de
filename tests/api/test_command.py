"""From a command line to the words that a program receives."""

from __future__ import annotations

import shlex

import pytest

from kueue_flux.api.command import CommandError, ShellSyntaxError, argv, split


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("hostname", ["hostname"]),
        ("  echo  hello\t world \n", ["echo", "hello", "world"]),
        ("sh -c 'echo $HOME | wc; exit 3'", ["sh", "-c", "echo $HOME | wc; exit 3"]),
        ('sh -c "echo $FLUX_TASK_RANK"', ["sh", "-c", "echo $FLUX_TASK_RANK"]),
        (r"echo \$HOME \; a\ b", ["echo", "$HOME", ";", "a b"]),
        (r'echo "say \"hi\""', ["echo", 'say "hi"']),
        ("echo 'it'\\''s'", ["echo", "it's"]),
        ("app \\\n  --one \\\n  --two", ["app", "--one", "--two"]),
        ('echo "a\\\nb"', ["echo", "ab"]),
        ("echo 'a\\\nb'", ["echo", "a\\\nb"]),
        ("awk '{print $1}' file", ["awk", "{print $1}", "file"]),
        ("app --hosts node[1-3] --cost 5$ a=b *.txt", ["app", "--hosts", "node[1-3]", "--cost", "5$", "a=b", "*.txt"]),
        ("echo ''", ["echo", ""]),
        ("echo 'quoted\nlines'", ["echo", "quoted\nlines"]),
    ],
)  # fmt: skip
def test_words(text: str, words: list[str]) -> None:
    assert split(text) == words


@pytest.mark.parametrize("words", [["sh", "-c", "a | b > c; d && $e `f`"], ["a b", "it's", '"', "\\", "x\ny", ""]])
def test_what_the_command_line_quotes_comes_back(words: list[str]) -> None:
    assert split(shlex.join(words)) == words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo 'a b", "the single quote before 'a b' (character 6) is never closed"),
        ('"', "the double quote before '' (character 1) is never closed"),
        ("echo \"it's", 'the double quote before "it\'s" (character 6) is never closed'),
        ("echo 'done' 'not", "the single quote before 'not' (character 13) is never closed"),
        (f"echo '{'x' * 30}", f"the single quote before '{'x' * 20}...' (character 6) is never closed"),
        ("echo \\", "ends with a backslash that escapes nothing"),
    ],
)
def test_what_cannot_be_split(text: str, message: str) -> None:
    with pytest.raises(CommandError) as raised:
        split(text)
    assert raised.value.message == message
    assert not isinstance(raised.value, ShellSyntaxError)


SHELL_SYNTAX = {
    "a | b": "'|'",
    "a || b": "'||'",
    "a && b": "'&&'",
    "a;b": "';'",
    "a > b": "'>'",
    "a 2>&1": "'>'",
    "a < b": "'<'",
    "a << EOF": "'<<'",
    "a &": "'&'",
    "echo $HOME": "'$H'",
    "echo ${a}": "'${'",
    "echo $(date)": "'$('",
    "echo `date`": "'`'",
}


@pytest.mark.parametrize(("text", "shown"), [*SHELL_SYNTAX.items(), ("one\ntwo", "a second line")])
def test_what_only_a_shell_understands_is_no_words(text: str, shown: str) -> None:
    with pytest.raises(ShellSyntaxError) as raised:
        split(text)
    assert raised.value.message == f"has {shown} outside of quotes, and no shell reads it"
    assert "sh -c" in raised.value.remedy


@pytest.mark.parametrize(
    "text", [*SHELL_SYNTAX, "ls *.txt", "ls ?", "app node[1-3]", "~/app", "app ~/in", "a 'b c' | d"]
)
def test_a_command_that_only_a_shell_understands_is_a_shell_s(text: str) -> None:
    assert argv(f" {text}\n") == ["/bin/sh", "-c", text]


def test_a_shell_s_command_keeps_its_quotes_and_joins_its_lines() -> None:
    assert argv("app 'a b' \\\n  \"$c\" > out") == ["/bin/sh", "-c", "app 'a b'   \"$c\" > out"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("hostname", ["hostname"]),
        ("app \\\n  --one", ["app", "--one"]),
        ("echo '*' \"$HOME\" a~b 5$ \\*", ["echo", "*", "$HOME", "a~b", "5$", "*"]),
        ("sh -c 'a | b'", ["sh", "-c", "a | b"]),
    ],
)
def test_any_other_command_is_words(text: str, words: list[str]) -> None:
    assert argv(text) == words


@pytest.mark.parametrize("text", ["one\ntwo", "one \\\n two\nthree", "a | b\nc"])
def test_several_lines_may_mean_two_things(text: str) -> None:
    with pytest.raises(ShellSyntaxError, match=r"one command or several.*commands\.script"):
        argv(text)


@pytest.mark.parametrize("words", [["a", "*", "~", "$b", "[c]", "d?"], ["it's", "x\ny", ""]])
def test_what_the_command_line_quotes_is_never_a_shell_s(words: list[str]) -> None:
    assert argv(shlex.join(words)) == words
