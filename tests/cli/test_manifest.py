import pytest
import yaml

from kueue_flux.cli.failures import InputError
from kueue_flux.cli.manifest import documents

ONE = """
apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: one}
spec: {containers: [{image: ubuntu, command: hostname}]}
"""


def named(name):
    return ONE.replace("name: one", f"name: {name}")


def test_several_documents_and_lists_are_read():
    items = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(named(name)) for name in ("two", "three")]}
    found = documents(f"---\n{ONE}---\n# only a comment\n---\n{yaml.safe_dump(items)}", "file")
    assert [given.object["metadata"]["name"] for given in found] == ["one", "two", "three"]


def test_a_generated_name_is_asked_for_in_the_file():
    (given,) = documents(ONE.replace("{name: one}", "{generateName: one-, labels: {a: b}}"), "file")
    obj = given.object
    stem, _, suffix = obj["metadata"]["name"].rpartition("-")
    assert (stem, len(suffix)) == ("one", 5)
    assert obj["metadata"]["labels"] == {"a": "b"}
    assert "generateName" not in obj["metadata"]


HEADER = "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {name: one}\n"


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("", "^f.yaml holds no MiniCluster$", "kueue-flux submit --image IMAGE --dry-run"),
        ("# only a comment\n---\n", "^f.yaml holds no MiniCluster$", "to begin with"),
        ("just text", "^f.yaml is text, no MiniCluster$", "to begin with"),
        ("- a\n- b\n", "^f.yaml is a list, no MiniCluster$", "to begin with"),
        ("3", "^f.yaml is a value, no MiniCluster$", "to begin with"),
        ("{}", "is an object without a kind", "has apiVersion: flux-framework.org/v1alpha2 and kind: MiniCluster"),
        (
            f"{ONE}---\nkind: ConfigMap\napiVersion: v1\n",
            r"^f.yaml, line 7, is a ConfigMap \(v1\)",
            "kubectl apply -f f.yaml",
        ),
        ("kind: Minicluster\napiVersion: flux-framework.org/v1alpha2\n", "is a Minicluster", "and kind: MiniCluster"),
        ("kind: MiniCluster\n", r"is a MiniCluster \(without an apiVersion\)", "has apiVersion: flux-framework.org"),
        (
            HEADER.replace("alpha2", "alpha1"),
            "is a MiniCluster .*v1alpha1",
            "has apiVersion: flux-framework.org/v1alpha2",
        ),
        ("kind: MiniCluster\napiVersion: other.org/v1\n", "nothing was submitted", "has apiVersion"),
        ("kind: List\nitems: 3\n", "^f.yaml, line 2: the items of a List must be a list", "to begin with"),
        ("kind: List\nitems:\n", "^f.yaml holds no MiniCluster$", "to begin with"),
    ],
)
def test_what_is_no_minicluster_is_refused(text, message, remedy):
    with pytest.raises(InputError, match=message) as caught:
        documents(text, "f.yaml")
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        (
            f"{HEADER}spec:\n  size: 2\n   tasks: 3\n",
            "f.yaml, line 6: no YAML: mapping values are not allowed in this context",
            "tasks: 3",
        ),
        (
            f"{HEADER}spec:\n  containers:\n  - image: a\n   command: b\n",
            "f.yaml, line 7: no YAML: did not find expected key, while parsing a block mapping that begins in line 5",
            "command: b",
        ),
        (f"{HEADER}spec:\n\tsize: 2\n", "f.yaml, line 5: no YAML: found character", "YAML takes no tabs"),
        (f"{HEADER}spec: {{size: [}}\n", "f.yaml, line 4: no YAML: did not find", "spec: {size: [}"),
        (f"{HEADER}spec: *nothing\n", "f.yaml, line 4: no YAML: found undefined alias", "spec: *nothing"),
        ("ä: b\nc: \x07\n", "f.yaml, line 2: no YAML: control characters are not allowed", "c: ?"),
        (f"{{{'x' * 200}: [", "f.yaml, line 1: no YAML", f"{{{'x' * 79}..."),
        (f"{HEADER}spec: !!python/none x\n", "f.yaml, line 4: no YAML: could not determine", "spec: !!python/none x"),
        ("a: [", "f.yaml, line 1: no YAML", "a: ["),
        ("a: 0b_", "f.yaml is no YAML: invalid literal", ""),
    ],
)
def test_an_error_of_yaml_names_the_file_the_line_and_what_stands_there(text, message, remedy):
    with pytest.raises(InputError) as caught:
        documents(text, "f.yaml")
    assert caught.value.message.startswith(message)
    assert remedy in caught.value.remedy
    assert "unicode string" not in caught.value.message


@pytest.mark.parametrize("text", ["a: [", "echo hello"])
def test_a_script_is_not_taken_for_bad_yaml(text):
    with pytest.raises(InputError) as caught:
        documents(text, "./run.sh")
    assert caught.value.remedy == (
        "to run a command, put it after two dashes: kueue-flux submit --image IMAGE -- ./run.sh"
    )


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        (
            f"{HEADER}spec: {{}}\n{HEADER}spec: {{}}\n",
            "line 5: apiVersion is here for the second time, after line 1",
            "---",
        ),
        (f"{HEADER}spec:\n  size: 1\n  size: 2\n", "line 6: size is here for the second time, after line 5", "remove"),
        ("{a: 1, a: 2}", "line 1: a is here for the second time, after line 1", "remove"),
    ],
)
def test_a_key_that_stands_twice_is_refused(text, message, remedy):
    with pytest.raises(InputError, match=message) as caught:
        documents(text, "f.yaml")
    assert remedy in caught.value.remedy


def test_two_of_one_name_are_refused_before_the_first_is_submitted():
    with pytest.raises(InputError, match=r"^f\.yaml, line 8: one is also the name of the MiniCluster of line 2$"):
        documents(f"{ONE}---\n{ONE}", "f.yaml")
    elsewhere = ONE.replace("{name: one}", "{name: one, namespace: there}")
    assert len(documents(f"{ONE}---\n{elsewhere}", "f.yaml")) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{HEADER}spec:\n  containers:\n  - image: a\n    command: b\n  size: 0\n", ["f.yaml:8: spec.size"]),
        (f"{HEADER}spec:\n  size: 2\n", ["f.yaml:4: spec.containers"]),
        (HEADER, ["f.yaml:1: spec"]),
        (HEADER + "spec: {containers: [\n{image: a, command: b,\nsz: 2}]}", ["f.yaml:6: spec.containers[0].sz"]),
        (
            HEADER
            + "spec:\n  containers:\n  - image: a\n    command: b\n    environment:\n      a.b: c\n      1.x: d\n",
            ["f.yaml:10: spec.containers[0].environment.'1.x'"],
        ),
        (
            HEADER + "x: &c\n  image: a\n  command: b\n  pin: 3\nspec:\n  containers:\n  - <<: *c\n    size: 2\n",
            ["f.yaml:4: x", "f.yaml:7: spec.containers[0].pin", "f.yaml:11: spec.containers[0].size"],
        ),
        (HEADER + "spec: {'': {'': 1}, containers: []}\n", ["f.yaml:4: spec.", "f.yaml:4: spec.containers"]),
        (HEADER.replace("{name: one}", "one") + "spec: 3\n", ["f.yaml:3: metadata", "f.yaml:4: spec"]),
        (HEADER.replace("name: one", "generateName: one-") + "spec: 3\n", ["f.yaml:4: spec"]),
        (
            HEADER + "spec:\n  size: 2024-01-01\n  containers: []\n",
            ["f.yaml:5: spec.size", "f.yaml:6: spec.containers"],
        ),
    ],
)
def test_a_problem_names_the_file_and_the_line(text, told):
    (given,) = documents(text, "f.yaml")
    problems = given.problems()
    assert sorted(problem.field for problem in problems) == sorted(told)
    assert "datetime" not in str(problems)


def test_of_several_each_is_told_by_its_line_and_name():
    text = f"{ONE}---\n{ONE.replace('name: one', 'name: two')}---\n{ONE.replace('name: one', 'labels: {}')}"
    titles = [given.title for given in documents(text, "f.yaml")]
    assert titles == ["f.yaml, line 2 (MiniCluster one)", "f.yaml, line 8 (MiniCluster two)", "f.yaml, line 14"]
    assert documents(ONE, "f.yaml")[0].title == "f.yaml (MiniCluster one)"


def test_an_alias_of_itself_ends():
    (given,) = documents(ONE + "x: &a [*a]\n", "f.yaml")
    assert [problem.field for problem in given.problems()] == ["f.yaml:6: x"]
