"""The termination log, read back."""

import pytest

from kueue_flux.flux.termination import Reason, Termination, parse_termination


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("code", [0, 1, 3, 126, 127, 255])
def test_what_start_sh_writes(code, reason):
    assert parse_termination(f"exit-code={code}\nreason={reason}\n") == Termination(code, reason)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exit-code=3", Termination(3, None)),
        ("reason=CommandFailed\nexit-code=3\n", Termination(3, Reason.COMMAND_FAILED)),
        ("exit-code=3\nreason=SomethingNew\n", Termination(3, None)),
        ("exit-code=3\nlater=addition\nreason=CommandFailed\n", Termination(3, Reason.COMMAND_FAILED)),
        ("exit-code=3\nreason=PreFailed\nnote= a = b \n", Termination(3, Reason.PRE_FAILED, "a = b")),
        ("exit-code= 3 \r\nreason=CommandFailed \r\n", Termination(3, Reason.COMMAND_FAILED)),
        ("a line of the image's own\nexit-code=0\n", Termination(0, None)),
    ],
)
def test_what_else_can_be_read(text, expected):
    assert parse_termination(text) == expected


@pytest.mark.parametrize(
    "text", ["", "\n", "exit-code=", "exit-code=-1", "exit-code=256", "exit-code=x", "reason=CommandFailed", "\u00b2"]
)
def test_what_tells_of_no_end(text):
    assert parse_termination(text) is None


@pytest.mark.parametrize("digits", ["\u00b3", "\u0663", "3.0", "+3", "0x3"])
def test_only_plain_numbers_are_exit_codes(digits):
    assert parse_termination(f"exit-code={digits}") is None
