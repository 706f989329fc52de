"""From the one line that a user writes to the words that a program receives.

The text is data: it is split here, once, and is never part of a shell's own text. A command that only a shell
understands (a pipe, a redirection, a variable) becomes one word of a shell that runs in the job; handed on in words,
`echo a > file` would print "a > file". Where no command is meant, such text is refused.
Quoting rules: POSIX.1-2017, Shell Command Language, section 2.2.
"""

from __future__ import annotations

import re

_SHELL_SYNTAX = re.compile(r"&&|\|\||>>|<<|[;&|<>`]|\$[A-Za-z_{(@*#?0-9]|\n")
_BLANKS = " \t\r\n"
_PIECE = re.compile(  # blanks, what stands in quotes, what a backslash escapes, and all else
    r"""[ \t\r\n]+|'[^']*'|"[^"\\]*(?:\\.[^"\\]*)*"|\\.|[^ \t\r\n'"\\]+""", re.DOTALL
)
_PATTERN = re.compile(r"[*?[]|(?:^|(?<=\s))~")  # of file names: without a shell, they are taken as they are


class CommandError(ValueError):
    """A command line cannot be split into words.

    Args:
        message: what is wrong with it.
        remedy: what to do about it.
    """

    def __init__(self, message: str, remedy: str) -> None:
        self.message, self.remedy = message, remedy
        super().__init__(f"{message}; {remedy}")


class ShellSyntaxError(CommandError):
    """A command line has what only a shell understands, outside of quotes."""


def split(text: str) -> list[str]:
    """Return the words of a text that no shell will read.

    Args:
        text: words, quoted as for a shell; a backslash at a line's end continues it.

    Raises:
        CommandError: a quote is left open, or a backslash stands at the very end.
        ShellSyntaxError: a pipe, redirection, variable or second command stands outside of quotes.
    """
    line, bare = _scan(text.strip())
    if found := _SHELL_SYNTAX.search(bare):
        shown = "a second line" if found[0] == "\n" else repr(found[0])
        raise ShellSyntaxError(
            f"has {shown} outside of quotes, and no shell reads it",
            "put the text into quotes as one word of a shell: sh -c '...'",
        )
    return _words(line)


def argv(text: str) -> list[str]:
    """Return a command's words: its own, or those of a shell where it has what only a shell understands.

    Args:
        text: one command line, its words quoted as for a shell; a backslash at a line's end continues it.

    Raises:
        CommandError: a quote is left open, or a backslash stands at the very end.
        ShellSyntaxError: it has a second line, which may be meant to continue the first one or to follow it.
    """
    line, bare = _scan(text.strip())
    if "\n" in bare:
        raise ShellSyntaxError(
            "has a second line outside of quotes, and may be one command or several",
            "end the first line with a backslash, or write a script: commands.script, or batch: true for several jobs",
        )
    if _SHELL_SYNTAX.search(bare) or _PATTERN.search(bare):
        return ["/bin/sh", "-c", line]
    return _words(line)


def _words(line: str) -> list[str]:
    """Split what `_scan` returns, as `shlex.split` does, whose time grows with the square of a word's length."""
    words: list[list[str]] = []
    between = True
    for piece in _PIECE.findall(line):
        if piece[0] in _BLANKS:
            between = True
            continue
        if between:
            words.append([])
            between = False
        words[-1].append(_unquoted(piece))
    return ["".join(word) for word in words]


def _unquoted(piece: str) -> str:
    if piece[0] == '"':
        return re.sub(r'\\(["\\])', r"\1", piece[1:-1])
    return piece[1:-1] if piece[0] == "'" else piece.removeprefix("\\")


def _scan(text: str) -> tuple[str, str]:
    """Return the text without line continuations, and what of it stands outside of quotes."""
    line: list[str] = []
    bare: list[str] = []
    quote, opened, position = "", 0, 0
    while position < len(text):
        char, pair = text[position], text[position : position + 2]
        if char == "\\" and quote != "'":
            if len(pair) == 1:
                raise CommandError("ends with a backslash that escapes nothing", "remove it, or write it twice")
            line.append("" if pair == "\\\n" else pair)
            bare.append(" ")
            position += 2
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote, opened = char, position
        else:
            bare.append(char)
        line.append(char)
        position += 1
    if quote:
        kind = "single" if quote == "'" else "double"
        start = _excerpt(text[opened : opened + 30])
        raise CommandError(
            f"the {kind} quote before {start} (character {opened + 1}) is never closed",
            f"close it with {quote} or, if it is meant as it is, write \\{quote}",
        )
    return "".join(line), "".join(bare)


def _excerpt(text: str) -> str:
    return repr(text[1:21] + ("..." if len(text) > 21 else ""))
