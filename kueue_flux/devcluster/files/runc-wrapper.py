"""Docker's default runtime on a machine whose bounding set lacks CAP_SYS_RESOURCE.

runc refuses a container that asks for a capability which cannot be given ("unable to apply caps"), and
lowering oom_score_adj needs the same one. This takes both out of the OCI specification and hands over to the
real runc.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

CAPABILITY = "CAP_SYS_RESOURCE"


def option(words: list[str], *names: str) -> str | None:
    """The value of an option written `--name value` or `--name=value`; None where it is absent.

    Args:
        words: a command line.
        names: the option's spellings.
    """
    for position, word in enumerate(words):
        for name in names:
            if word == name and position + 1 < len(words):
                return words[position + 1]
            if word.startswith(name + "="):
                return word[len(name) + 1 :]
    return None


def soften(process: dict[str, Any]) -> None:
    """Take out of an OCI process what cannot be given here (runtime-spec, config.md, section Process).

    Args:
        process: changed in place.
    """
    capabilities = process.get("capabilities") or {}
    for kind, names in capabilities.items():
        capabilities[kind] = [name for name in names or [] if name != CAPABILITY]
    if (process.get("oomScoreAdj") or 0) < 0:
        del process["oomScoreAdj"]


def rewrite(path: Path, process_of: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Soften the process in a JSON file, in place.

    Args:
        path: the file.
        process_of: finds the process in it.
    """
    document = json.loads(path.read_text())
    soften(process_of(document))
    path.write_text(json.dumps(document))


def main(words: list[str]) -> None:
    """Edit the specification of `create`, `run` and `exec`, then become runc.

    Args:
        words: runc's arguments.
    """
    if "create" in words or "run" in words:
        bundle = option(words, "--bundle", "-b") or "."
        rewrite(Path(bundle) / "config.json", lambda document: document["process"])
    elif "exec" in words:
        process = option(words, "--process", "-p")
        if process:
            rewrite(Path(process), lambda document: document)
    os.execvp("runc", ["runc", *words])  # noqa: S606 - to become it is the point


if __name__ == "__main__":
    main(sys.argv[1:])
