import shlex

import pytest
import yaml

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.cli.failures import InputError
from kueue_flux.cli.manifest import Flags, documents, environment, from_flags, generated_name

ONE = """
apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: one}
spec: {containers: [{image: ubuntu, command: hostname}]}
"""


def test_the_least_that_is_asked_for():
    assert from_flags(Flags(image="ubuntu", name="hello"), ["hostname"]) == {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": {"name": "hello"},
        "spec": {
            "size": 1,
            "tasks": 1,
            "logging": {"quiet": True},
            "containers": [{"image": "ubuntu", "command": "hostname"}],
        },
    }


def test_all_that_can_be_asked_for():
    flags = Flags(
        image="app",
        name="hello",
        namespace="team",
        queue="team-a",
        priority="high",
        size=4,
        min_size=2,
        tasks=8,
        cpu="2",
        memory="4Gi",
        env=["A=b=c", "EMPTY=", "HOME"],
        workdir="/data",
        quiet=False,
        flux_image="view",
        flux_volume=True,
        ttl=60,
    )
    mc = from_flags(flags, ["lmp", "-in", "in file"], {"HOME": "/home/me"})
    assert mc["metadata"] == {
        "name": "hello",
        "namespace": "team",
        "labels": {"kueue.x-k8s.io/queue-name": "team-a", "kueue.x-k8s.io/priority-class": "high"},
    }
    assert mc["spec"] == {
        "size": 4,
        "minSize": 2,
        "tasks": 8,
        "ttlSecondsAfterFinished": 60,
        "logging": {"quiet": False},
        "flux": {"container": {"image": "view", "imageVolume": True}},
        "containers": [
            {
                "image": "app",
                "command": "lmp -in 'in file'",
                "workingDir": "/data",
                "environment": {"A": "b=c", "EMPTY": "", "HOME": "/home/me"},
                "resources": {
                    "requests": {"cpu": "2", "memory": "4Gi"},
                    "limits": {"cpu": "2", "memory": "4Gi"},
                },
            }
        ],
    }
    parsed = MiniCluster.from_object(mc)
    assert parsed.command == ["lmp", "-in", "in file"]
    assert (parsed.queue, parsed.priority_class) == ("team-a", "high")


def test_flux_in_the_image():
    mc = from_flags(Flags(image="app", flux_view=False), ["hostname"])
    assert mc["spec"]["flux"] == {"container": {"disable": True}}


def test_one_task_a_node_unless_said_otherwise():
    assert from_flags(Flags(image="app", size=3), ["hostname"])["spec"]["tasks"] == 3


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "exit 3"],
        ["echo", "$HOME", "`id`", '"', "'", "\\", "a\nb", "", "*"],
        ["--flag", "--", "-x"],
    ],
)
def test_a_command_arrives_as_the_words_that_were_typed(command):
    mc = from_flags(Flags(image="app", name="hello"), command)
    assert MiniCluster.from_object(mc).command == command


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        ("hostname", "hostname"),
        ("/usr/bin/lmp_mpi", "lmp-mpi"),
        ("./run.sh", "run-sh"),
        ("3proxy", "proxy"),
        ("-", "minicluster"),
        ("日本", "minicluster"),
        ("UPPER", "upper"),
        ("a" * 100, "a" * 40),
    ],
)
def test_a_name_is_made_of_the_command(command, stem):
    name = generated_name(command, 4)
    assert name.rpartition("-")[0] == stem
    assert name != generated_name(command, 4)


@pytest.mark.parametrize("size", [1, 10, 11, 100_000])
def test_a_generated_name_is_always_valid(size):
    mc = from_flags(Flags(image="app", size=size), ["x" * 300 + "-"])
    assert MiniCluster.from_object(mc).name == mc["metadata"]["name"]


def test_an_environment_variable_without_a_value_or_name():
    with pytest.raises(InputError, match="--env NO_SUCH: it has no value here"):
        environment(["NO_SUCH"], {})
    with pytest.raises(InputError, match="a name is missing"):
        environment(["=x"], {})


def test_several_documents_and_lists_are_read():
    items = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(ONE), yaml.safe_load(ONE)]}
    found = documents(f"---\n{ONE}---\n# only a comment\n---\n{yaml.safe_dump(items)}", "file")
    assert [obj["metadata"]["name"] for obj in found] == ["one"] * 3


def test_a_generated_name_is_asked_for_in_the_file():
    (obj,) = documents(ONE.replace("{name: one}", "{generateName: one-, labels: {a: b}}"), "file")
    stem, _, suffix = obj["metadata"]["name"].rpartition("-")
    assert (stem, len(suffix)) == ("one", 5)
    assert obj["metadata"]["labels"] == {"a": "b"}
    assert "generateName" not in obj["metadata"]


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("", "holds no MiniCluster", "examples/"),
        ("a: [", "is no YAML", ""),
        ("just text", "is no Kubernetes object but str", ""),
        (f"{ONE}---\nkind: ConfigMap\napiVersion: v1\n", r"document 2, is a ConfigMap \(v1\)", "kubectl apply -f file"),
        (
            "kind: MiniCluster\napiVersion: other.org/v1\n",
            r"is a MiniCluster \(other.org/v1\)",
            "nothing was submitted",
        ),
        ("{}", "object without a kind", ""),
    ],
)
def test_what_is_no_minicluster_is_refused(text, message, remedy):
    with pytest.raises(InputError, match=message) as caught:
        documents(text, "file")
    assert remedy in caught.value.remedy


def test_quoting_survives_yaml():
    command = ["sh", "-c", "echo 'a: b' # c\n"]
    mc = from_flags(Flags(image="app", name="x"), command)
    (again,) = documents(yaml.safe_dump(mc), "file")
    assert shlex.split(again["spec"]["containers"][0]["command"]) == command
