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


def test_the_readme_speaks_of_every_example():
    text = (EXAMPLES / "README.md").read_text()
    for path in FILES:
        assert f"({path.parent.name})" in text, name(path)
        assert f"`{path.parent.name}`" in text or f"`{name(path)}`" in text, name(path)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_an_example_can_be_run_with_one_image_that_has_flux(path, monkeypatch, capsys):
    """As the README says, on a cluster without a registry."""
    monkeypatch.chdir(EXAMPLES.parent)
    line = next(line for line in (EXAMPLES / "README.md").read_text().splitlines() if "$ kueue-flux submit" in line)
    words = shlex.split(line.replace("single-command/minicluster.yaml", name(path)).replace("$IMAGE", "with-flux:1"))
    assert run([*words[2:], "--dry-run"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    for obj in printed["items"] if printed["kind"] == "List" else [printed]:
        minicluster = MiniCluster.from_object(obj)
        assert minicluster.flux_container.image == "with-flux:1"
        assert minicluster.spec.flux.container.disable
