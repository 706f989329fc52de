"""Writes a generated file, or (`--check`) fails when the one in the checkout is no longer what would be written."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def generate(file: Path, text: str, arguments: list[str] | None = None) -> None:
    """Write a generated file, or check it.

    Args:
        file: the file.
        text: what it should hold.
        arguments: of the command line; `sys.argv`'s if left out.

    Raises:
        SystemExit: with `--check`, the file differs or is missing.
    """
    parser = argparse.ArgumentParser(description=f"Generates {file.name}.")
    parser.add_argument("--check", action="store_true", help="change nothing, fail if the file is out of date")
    check = parser.parse_args(arguments).check
    current = file.read_text(encoding="utf-8") if file.exists() else None
    if current == text:
        return
    if check:
        sys.exit(f"{file.name} is out of date: run the same command without --check, and commit the result")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
