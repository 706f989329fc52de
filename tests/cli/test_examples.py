"""Each example is what it says: its MiniClusters are valid, and so are the command lines in its comments."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.cli.main import run
from kueue_flux.cli.manifest import documents

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(path for path in EXAMPLES.glob("*/*.yaml") if "kind: MiniCluster" in path.read_text())
SAME = "The same without a file:\n"


def command_lines(text):
    """The kueue-flux command lines in the comments, as words."""
    comments = "\n".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    lines = re.findall(r"^kueue-flux .*$", comments.replace("\\\n", " "), re.MULTILINE)
    return [shlex.split(line.split(";", 1)[0] if ".yaml" in line else line)[1:] for line in lines]


def name(path):
    return str(path.relative_to(EXAMPLES))


def test_there_are_examples():
    assert "single-command/minicluster.yaml" in map(name, FILES)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_an_example_is_valid(path):
    for given in documents(path.read_text(), name(path)):
        assert given.problems() == []
        assert MiniCluster.from_object(given.object).queue == "user-queue"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_an_example_says_how_to_submit_it(path, monkeypatch, capsys):
    monkeypatch.chdir(EXAMPLES.parent)
    lines = command_lines(path.read_text())
    assert [f"examples/{name(path)}" in line for line in lines].count(True) == 1
    names = {given.object["metadata"]["name"] for given in documents(path.read_text(), name(path))}
    for line in lines:
        dashes = line.index("--") if "--" in line else len(line)
        if line[0] == "submit":
            assert run([*line[:dashes], "--dry-run", *line[dashes:]]) == 0, line
        else:  # something that is done with it then
            assert run([line[0], "--help"]) == 0
            assert line[1] in names
        capsys.readouterr()


@pytest.mark.parametrize("path", [path for path in FILES if SAME in path.read_text()], ids=name)
def test_the_same_without_a_file_is_the_same(path, monkeypatch, capsys):
    (line,) = [line for line in command_lines(path.read_text()) if line[0] == "submit" and "--" in line]
    dashes = line.index("--")
    assert run([*line[:dashes], "--dry-run", *line[dashes:]]) == 0
    typed = MiniCluster.from_object(yaml.safe_load(capsys.readouterr().out))
    (written,) = (MiniCluster.from_object(given.object) for given in documents(path.read_text(), name(path)))
    assert typed.command == written.command
    if "IMAGE" not in line:
        assert typed.spec.model_dump(exclude={"containers"}) == written.spec.model_dump(exclude={"containers"})
    assert typed.flux_container.resources == written.flux_container.resources
    assert typed.flux_container.environment == written.flux_container.environment
    assert typed.queue == written.queue
