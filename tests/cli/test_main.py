import importlib.metadata
import io
import subprocess
import sys

import pytest
import yaml

from kueue_flux.cli import main, options, terminal

MANIFEST = """
apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: hello}
spec: {size: 2, containers: [{image: ubuntu, command: hostname}]}
"""


async def test_dry_run_prints_what_would_be_submitted(invoke):
    ended = await invoke(
        *("submit", "-q", "team-a", "--size", "4", "--image", "ubuntu", "--name", "hello", "-n", "team", "--dry-run"),
        *("--", "sh", "-c", "exit 3"),
    )
    assert ended.code == 0
    assert yaml.safe_load(ended.out) == {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": {"name": "hello", "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "team-a"}},
        "spec": {
            "size": 4,
            "tasks": 4,
            "logging": {"quiet": True},
            "containers": [{"image": "ubuntu", "command": "sh -c 'exit 3'"}],
        },
    }


async def test_what_dry_run_prints_can_be_submitted(invoke, monkeypatch):
    first = await invoke("submit", "-i", "ubuntu", "-N", "2", "-e", "A=b", "--ttl", "1h30m", "--dry-run", "--", "date")
    monkeypatch.setattr(sys, "stdin", io.StringIO(first.out))
    again = await invoke("submit", "-", "--dry-run", "-o", "yaml")
    assert again.out == first.out
    assert yaml.safe_load(again.out)["spec"]["ttlSecondsAfterFinished"] == 5400


async def test_several_documents_become_a_list(invoke, tmp_path):
    file = tmp_path / "two.yaml"
    file.write_text(f"{MANIFEST}---{MANIFEST.replace('hello', 'there')}")
    ended = await invoke("submit", str(file), "--dry-run", "-o", "yaml")
    assert [item["metadata"]["name"] for item in yaml.safe_load(ended.out)["items"]] == ["hello", "there"]


async def test_options_of_the_command_after_the_dashes_are_its_own(invoke):
    ended = await invoke("submit", "-i", "ubuntu", "--dry-run", "--", "ls", "--size", "-N", "--", "--help")
    assert yaml.safe_load(ended.out)["spec"]["containers"][0]["command"] == "ls --size -N -- --help"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["submit"], "an image and a command are needed, or a FILE, and no image and no command was given"),
        (["submit", "-i", "ubuntu"], "an image and a command are needed, or a FILE, and no command was given"),
        (["submit", "--interactive"], "an image and a command are needed, or a FILE, and no image was given"),
        (["submit", "--", "hostname"], "an image and a command are needed, or a FILE, and no image was given"),
        (["submit", "-i", "ubuntu", "--"], "an image and a command are needed, or a FILE, and no command was given"),
        (["submit", "hostname"], "put it after two dashes: kueue-flux submit --image IMAGE -- hostname"),
        (["submit", "-i", "ubuntu", "hostname"], "put it after two dashes"),
        (["submit", "-i", "ubuntu", "sh", "-c", "x"], "No such option: -c"),
        (["submit", "-i", "ubuntu", "echo", "hi"], "goes after two dashes"),
        (["submit", "FILE", "--", "hostname"], "either a FILE"),
        (["submit", "FILE", "-N", "4"], "--size / -N describes a MiniCluster"),
        (["submit", "FILE", "--verbose"], "--quiet / --verbose describes a MiniCluster"),
        (["submit", "FILE", "--flux-volume", "--no-flux-view"], "--flux-volume says where Flux is brought from"),
        (["submit", ""], "'FILE': it is empty"),
        (["submit", "FILE", "--wait", "-o", "yaml"], "leave one out"),
        (["submit", "FILE", "--timeout", "soon"], "'soon' is no length of time"),
        (["submit", "FILE", "--timeout", "0"], "Invalid value for '--timeout': no time at all"),
        (["submit", "FILE", "--timeout", "5m"], "--timeout says how long to wait: add --wait"),
        (["submit", "FILE", "--no-logs"], "--no-logs goes with --wait"),
        (["submit", "-i", "ubuntu", "-e", "=1", "--", "x"], "--env =1: a name is missing"),
        (["submit", "-i", "ubuntu", "-e", "NO_SUCH_1", "--", "x"], "--env NO_SUCH_1: it has no value here"),
        (["submit", "-i", "ubuntu", "--ttl", "-5", "--", "x"], "'--ttl': '-5' is no length of time: write 90s, 10m"),
        (["submit", "-i", "ubuntu", "-N", "0", "--", "x"], "'--size' / '-N': '0' does not say how many: write a whole"),
        (["submit", "-i", "ubuntu", "-N", "abc", "--", "x"], "'--size' / '-N': 'abc' does not say how many"),
        (["submit", "-i", "ubuntu", "-N", "-3", "--", "x"], "'--size' / '-N': '-3' does not say how many"),
        (["submit", "-i", "ubuntu", "-N", "1.5", "--", "x"], "'--size' / '-N': '1.5' does not say how many"),
        (["submit", "-i", "ubuntu", "--tasks", "0", "--", "x"], "'--tasks': '0' does not say how many"),
        (["submit", "-i", "ubuntu", "--min-size", "", "--", "x"], "'--min-size': '' does not say how many"),
        (["submit", "-i", "ubuntu", "-q", "", "--", "x"], "'--queue' / '-q': it is empty"),
        (["submit", "-i", "", "--", "x"], "'--image' / '-i': it is empty"),
        (["submit", "-i", "ubuntu", "--name", " ", "--", "x"], "'--name': it is empty"),
        (["submit", "-i", "ubuntu", "--cpu", "", "--", "x"], "'--cpu': it is empty"),
        (["submit", "-i", "ubuntu", "--cpu", "two", "--", "x"], "  --cpu: 'two' is not a quantity"),
        (["submit", "-i", "ubuntu", "-n", "", "--", "x"], "'--namespace' / '-n': it is empty"),
        (["submit", "-i", "ubuntu", "--", ""], "the command is empty"),
        (["list", "-A", "-n", "team"], "--all-namespaces and --namespace contradict each other"),
        (["-n", "team", "list", "-A"], "--all-namespaces and --namespace contradict each other"),
        (["delete", "x", "--no-wait", "--timeout", "5m"], "--timeout says how long to wait, --no-wait not to"),
        (["delete", "x", ""], "a NAME is empty"),
        (["logs", ""], "'NAME': it is empty"),
        (["status", "x", "--watch", "-o", "json"], "leave one out"),
        (["status"], "Missing argument 'NAME'"),
        (["list", "-o", "xml"], "'--output' / '-o': 'xml' is not one of"),
        (["wait", "x", "--for", "christmas"], "'christmas' is not one of"),
        (["lst"], "Did you mean 'list'?"),
    ],
)
async def test_misuse_is_told_with_exit_code_2(invoke, tmp_path, monkeypatch, args, message):
    file = tmp_path / "mc.yaml"
    file.write_text(MANIFEST)
    ended = await invoke(*(str(file) if arg == "FILE" else arg for arg in args))
    assert ended.code == 2
    assert message in ended.err
    assert ended.out == ""


async def test_each_problem_is_told_with_its_remedy(invoke, tmp_path):
    file = tmp_path / "mc.yaml"
    second = MANIFEST.replace("hello", "there").replace("size: 2", "size: 0, minSize: 3, intractive: true")
    file.write_text(f"{MANIFEST}---{second}")
    ended = await invoke("submit", str(file))
    assert ended.code == 2
    assert ended.err.startswith(f"Error: {file}, line 7 (MiniCluster there) cannot be run: 2 problems\n")
    assert f"  {file}:10: spec.size: must be at least 1 (it is 0)\n    change it\n" in ended.err
    assert f"  {file}:10: spec.intractive: is not a field\n    did you mean interactive?\n" in ended.err


@pytest.mark.parametrize(
    ("content", "message", "remedy"),
    [
        (None, "No such file or directory", ""),
        (b"\xff\xfe\x00", "FILE is no text", ""),
        (b"a: [", "FILE, line 1: no YAML", "a: ["),
    ],
)
@pytest.mark.parametrize("name", ["mc.yaml", "run.sh"])
async def test_a_file_that_cannot_be_read(invoke, tmp_path, name, content, message, remedy):
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    ended = await invoke("submit", str(file))
    assert ended.code == 2
    assert message.replace("FILE", str(file)) in ended.err
    as_command = f"to run a command, put it after two dashes: kueue-flux submit --image IMAGE -- {file}"
    assert (as_command in ended.err) is (name == "run.sh")
    assert remedy in ended.err or name == "run.sh"


async def test_stdin_that_is_no_yaml(invoke, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a: b\na: c\n"))
    ended = await invoke("submit", "-")
    assert (ended.code, ended.err.splitlines()[0]) == (
        2,
        "Error: stdin, line 2: a is here for the second time, after line 1",
    )


async def test_a_ttl_is_never_rounded_down_to_nothing(invoke):
    ended = await invoke("submit", "-i", "ubuntu", "--ttl", "0.2s", "--dry-run", "--", "x")
    assert yaml.safe_load(ended.out)["spec"]["ttlSecondsAfterFinished"] == 1


async def test_a_namespace_that_contradicts_the_file(invoke, tmp_path):
    file = tmp_path / "mc.yaml"
    file.write_text(MANIFEST.replace("name: hello", "name: hello, namespace: there"))
    ended = await invoke("submit", str(file), "-n", "here")
    assert ended.code == 2
    assert f"{file} (MiniCluster hello) is for namespace there, and --namespace says here" in ended.err


async def test_without_a_command_the_help_is_shown(invoke):
    ended = await invoke()
    assert ended.code == 2
    assert "Usage:" in ended.err + ended.out


@pytest.mark.parametrize("args", [["--version"], ["version"], ["--version", "list"]])
async def test_the_version(invoke, args):
    number = importlib.metadata.version("kueue-flux")
    assert await invoke(*args) == (0, f"kueue-flux {number}, for MiniClusters of flux-framework.org/v1alpha2\n", "")


@pytest.mark.parametrize(
    ("argv0", "program"),
    [
        ("/usr/bin/kueue-flux", "kueue-flux"),
        ("/usr/local/bin/kubectl-kueue_flux", "kubectl kueue-flux"),
        ("main.py", "kueue-flux"),
    ],
)
def test_the_program_has_the_name_under_which_it_was_called(argv0, program):
    assert main.program_name(argv0) == program


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["list", "--help"], "Usage: kubectl kueue-flux list"),
        (["submit", "--help"], " kubectl kueue-flux submit minicluster.yaml"),
        (["list"], "or start a cluster: kubectl kueue-flux dev up"),
        (["submit", "hostname"], "after two dashes: kubectl kueue-flux submit --image IMAGE -- hostname"),
        (["submit", "-i", "x", "a", "b"], "after two dashes: kubectl kueue-flux submit --image IMAGE -- COMMAND..."),
    ],
)
def test_hints_name_the_command_as_it_was_run(capsys, args, said):
    main.run(args, "kubectl kueue-flux")
    told = "".join(capsys.readouterr())
    assert said in told
    main.run(args)
    assert said.replace("kubectl kueue-flux", "kueue-flux") in "".join(capsys.readouterr())


def test_only_what_one_types_is_renamed():
    with terminal.run_as("kubectl kueue-flux"):
        told = terminal.as_run("is kueue-flux running? see kueue-flux list; app.kubernetes.io/name=kueue-flux")
    assert told == "is kueue-flux running? see kubectl kueue-flux list; app.kubernetes.io/name=kueue-flux"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("0.5", 0.5), ("10m", 600), ("1h30m", 5400), ("2h5s", 7205), ("2d", 172_800)],
)
def test_lengths_of_time(text, seconds):
    assert options.seconds(text) == seconds


def test_a_target_is_what_one_types_to_reach_it():
    assert options.Cluster().target("hello") == "hello"
    assert options.Cluster("team", None, "/a b").target("hello") == "hello -n team --kubeconfig '/a b'"
    assert options.Cluster("team", "c").target("hello", "there") == "hello -n there --context c"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "coloured"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colour_goes_to_terminals_that_want_it(stream, environ, coloured):
    assert terminal.coloured(stream, environ) is coloured


def loaded(*args):
    code = (
        "import sys\n"
        "from kueue_flux.cli.main import run\n"
        f"run({list(args)!r})\n"
        "print(*sorted(set(sys.modules) & {'kr8s', 'httpx', 'yaml', 'kueue_flux.api', 'kueue_flux.devcluster'}))"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")[
        -2
    ]


@pytest.mark.parametrize(
    ("args", "modules"),
    [
        (["--help"], []),
        (["version"], ["kueue_flux.api"]),
        (["submit", "--help"], []),
        (["submit", "-i", "x", "--dry-run", "--", "hostname"], ["kueue_flux.api", "yaml"]),
    ],
)
def test_it_starts_fast_because_it_loads_only_what_it_uses(args, modules):
    assert loaded(*args).split() == modules


def test_the_dev_clusters_own_commands_are_found(capsys):
    assert main.run(["dev", "--help"]) == 0
    out = capsys.readouterr().out
    assert "Usage: kueue-flux dev" in out
    assert "up" in out
    assert "down" in out
