import shlex

import pytest
import yaml

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.cli.failures import InputError
from kueue_flux.cli.flags import Flags, environment, from_flags, given
from kueue_flux.cli.manifest import documents
from kueue_flux.cli.names import generated_name


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


@pytest.mark.parametrize(
    ("flags", "field", "message", "remedy"),
    [
        ({"size": 200_000}, "--size", "must be at most 100000 (it is 200000)", "from 1 to 100000, as --size 4"),
        ({"tasks": 2**31}, "--tasks", "must be at most 2147483647", "as --tasks 8"),
        ({"cpu": "two"}, "--cpu", "'two' is not a quantity", "write --cpu 2 or --cpu 500m"),
        ({"memory": "4GB"}, "--memory", "'4GB' is not a quantity", "write --memory 4Gi"),
        ({"ttl": 2**31}, "--ttl", "must be at most 2147483647", "write a shorter time"),
        ({"name": "My_Run"}, "--name", "becomes the host names of the pods", "as --name my-run"),
        ({"name": "x" * 62}, "--name", "longer than 63 characters", "at most 57"),
        ({"queue": "a b"}, "--queue", "'a b' is not a label's value", "the name of a LocalQueue"),
        ({"queue": "a", "priority": "a/b"}, "--priority", "'a/b' is not a label's value", "a WorkloadPriorityClass"),
        ({"image": "a b"}, "--image", "'a b' is not an image reference", "as --image ubuntu:noble"),
        ({"flux_image": "a b"}, "--flux-image", "'a b' is not an image reference", "the name of an image"),
        ({"workdir": "data"}, "--workdir", "'data' is not an absolute path", "as --workdir /data"),
        ({"env": ["1A=x"]}, "--env '1A'", "no digit first", "rename it"),
        ({"env": ["KUEUE_FLUX_A=x"]}, "--env KUEUE_FLUX_A", "are reserved", "rename it"),
    ],
)
def test_a_problem_names_the_flag_and_says_what_to_write(flags, field, message, remedy):
    (problem,) = given(Flags(**{"image": "app", **flags}), ["hostname"]).problems()
    assert problem.field == field
    assert message in problem.message
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"size": 2, "min_size": 3, "queue": "a"}, "--min-size 3 is above --size 2"),
        ({"flux_view": False, "flux_image": "view"}, "--flux-image says where .*--no-flux-view"),
        ({"flux_view": False, "flux_volume": True}, "--flux-volume says where .*--no-flux-view"),
    ],
)
def test_flags_that_would_be_ignored_are_refused(flags, message):
    with pytest.raises(InputError, match=message) as caught:
        given(Flags(image="app", **flags), ["hostname"])
    assert caught.value.remedy


def test_an_empty_command_is_refused():
    with pytest.raises(InputError, match="the command is empty"):
        given(Flags(image="app"), [""])


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


def test_quoting_survives_yaml():
    command = ["sh", "-c", "echo 'a: b' # c\n"]
    mc = from_flags(Flags(image="app", name="x"), command)
    (again,) = documents(yaml.safe_dump(mc), "file")
    assert shlex.split(again.object["spec"]["containers"][0]["command"]) == command
