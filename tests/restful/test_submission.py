import pytest

from kueue_flux.restful.answers import Problem
from kueue_flux.restful.fields import read_fields
from kueue_flux.restful.submission import FIELDS, submission

ENV = {"PATH": "/bin"}


def submitted(home, /, **given):
    return submission(read_fields(FIELDS, {"command": "app", **given}, "body"), ENV, str(home))


@pytest.fixture
def inside(tmp_path):
    """A working directory with a directory in it, and a link that leads out of it."""
    workdir = tmp_path / "work"
    (workdir / "results").mkdir(parents=True)
    (workdir / "out").symlink_to(tmp_path)
    (workdir / "here").symlink_to(workdir / "results")
    return workdir


def test_a_command_is_enough(tmp_path):
    job = submitted(tmp_path)
    assert (job.command, job.workdir, job.env) == (["app"], str(tmp_path), ENV)
    assert (job.num_tasks, job.cores_per_task, job.gpus_per_task, job.num_nodes) == (1, 1, None, None)
    assert (job.exclusive, job.runtime, job.options) == (False, 0, {})


def test_everything_can_be_asked_for(inside):
    job = submitted(
        "/",
        command=["mpi app", 3],
        num_tasks=4,
        cores_per_task=2,
        gpus_per_task=1,
        num_nodes=2,
        exclusive=True,
        runtime=60,
        workdir=str(inside),
        envars={"A": "b", "PATH": "/opt"},
        option_flags="ompi=openmpi@5,verbose=2",
    )
    assert job.command == ["mpi app", "3"]
    assert (job.num_tasks, job.cores_per_task, job.gpus_per_task, job.num_nodes) == (4, 2, 1, 2)
    assert (job.exclusive, job.runtime, job.workdir) == (True, 60, str(inside))
    assert job.env == {"PATH": "/opt", "A": "b"}
    assert job.options == {"ompi": "openmpi@5", "verbose": 2}


def test_nodes_without_tasks_get_one_each(tmp_path):
    assert submitted(tmp_path, num_nodes=3).num_tasks == 3


def test_the_environment_does_not_show(tmp_path):
    assert "hush" not in repr(submitted(tmp_path, envars={"KEY": "hush"}))


@pytest.mark.parametrize(
    "path", ["results/x", "x-{{id}}.txt", "{{id.f58}}/{{node.name}}/{{task.id}}", "./a/../b", "here/x", "new/x"]
)
def test_output_goes_to_a_file_inside_the_working_directory(inside, path):
    options = submitted(inside, option_flags={"output.stdout.path": path}).options
    assert options == {"output.stdout.path": path, "output.stdout.type": "file"}


def test_an_absolute_path_may_be_inside_too(inside):
    assert submitted(inside, option_flags={"output.stderr.path": f"{inside}/x"}).options


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "..",
        "a/../../x",
        "out/x",
        "results/../../x",
        "{{tmpdir}}/x",
        "{{name}}/x",
        "{{id}}/../../x",
    ],
)
@pytest.mark.parametrize("name", ["output.stdout.path", "output.stderr.path", "input.stdin.path", "userrc", "initrc"])
def test_no_path_leads_out_of_it(inside, name, path):
    with pytest.raises(Problem) as refused:
        submitted(inside, option_flags={name: path})
    (error,) = refused.value.content["Errors"]
    assert refused.value.status == 400
    assert error.startswith(f"option_flags: {name}: ")
    assert "outside of the working directory" in error or "of templates" in error


def test_a_path_next_to_the_working_directory_is_outside(inside):
    with pytest.raises(Problem, match="outside"):
        submitted(inside, option_flags={"output.stdout.path": f"{inside}-too/x"})


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"workdir": "results"}, "workdir: 'results' must be an absolute path, one that begins with '/'"),
        ({"workdir": "../.."}, "workdir: '../..' must be an absolute path"),
        ({"workdir": "/no/such"}, "workdir: there is no directory /no/such on the lead node; create it first"),
        ({"workdir": "/etc/passwd"}, "workdir: there is no directory /etc/passwd"),
        ({"workdir": "/" + "x" * 5000}, "workdir: there is no directory"),
        ({"exclusive": True}, "exclusive: needs num_nodes"),
        ({"num_nodes": 3, "num_tasks": 2}, "num_nodes: 2 tasks cannot be spread over 3 nodes; raise num_tasks"),
        ({"option_flags": {"-ompi": "x"}}, "Please provide keys without -o, -ompi is invalid."),
        ({"option_flags": {"a..b": "x"}}, "option_flags: 'a..b' cannot be the name of an option"),
        ({"option_flags": {"a b": "x"}}, "option_flags: 'a b' cannot be the name of an option"),
        ({"option_flags": "=x"}, "option_flags: '' cannot be the name of an option"),
        ({"option_flags": {"output.stdout.path": 7}}, "option_flags: output.stdout.path must be a path, as text"),
        ({"option_flags": "output.stdout.path"}, "option_flags: output.stdout.path must be a path, as text"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, given, error):
    with pytest.raises(Problem) as refused:
        submitted(tmp_path, **given)
    assert refused.value.status == 400
    assert refused.value.content["Message"] == "Invalid submit request"
    assert any(error in each for each in refused.value.content["Errors"])


def test_all_that_is_wrong_is_named(tmp_path):
    with pytest.raises(Problem) as refused:
        submitted(tmp_path, workdir="x", exclusive=True, option_flags="-o=1")
    assert [each.partition(":")[0] for each in refused.value.content["Errors"]] == [
        "exclusive",
        "workdir",
        "option_flags",
    ]


def test_options_of_all_jobs_give_way_to_a_jobs_own_and_may_name_any_path(tmp_path):
    defaults = {"userrc": "/opt/site.lua", "verbose": 1}
    values = {"command": ["app"], "option_flags": {"verbose": 2}}
    assert submission(values, ENV, str(tmp_path), defaults).options == {"userrc": "/opt/site.lua", "verbose": 2}


def test_without_a_command_there_is_no_job(tmp_path):
    with pytest.raises(Problem, match="A 'command' is minimally required"):
        submission({"num_tasks": 1}, ENV, str(tmp_path))
