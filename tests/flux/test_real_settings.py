"""Settings of the brokers, with real Flux: its state in an archive, the order of jobs, workers that leave."""

import os
import re
import shutil
from pathlib import Path

import pytest

from kueue_flux.api.mode import Mode
from kueue_flux.flux import layout, script
from kueue_flux.flux.termination import Reason, Termination
from tests.flux.test_real_flux import QUIET, ended

pytestmark = [pytest.mark.real_flux, pytest.mark.flaky(reruns=1)]

LOST = script.WORKER_LOST
JOBS = ("flux", "jobs", "-a", "--no-header", "--format={name} {status_abbrev}")


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "state" / "archive.tar.gz"


@pytest.fixture(scope="session")
def has_fluxion(flux_path):
    prefix = Path(shutil.which("flux", path=flux_path)).parent.parent
    return bool(list(prefix.glob("lib*/**/flux/modules/sched-fluxion-qmanager.so")))


def archived(archive, **env):
    archive.parent.mkdir(exist_ok=True)
    return {layout.ENV_ARCHIVE: str(archive), **env}


# -- archive


def test_jobs_and_kvs_outlive_the_instance(boot, shell, archive):
    leave = "flux run --job-name=done true; flux kvs put a.b=7; flux queue stop; flux submit --job-name=left true"
    with boot("--", "sh", "-c", leave, mode=Mode.LAUNCHER, size=2, shell=shell, env=archived(archive)) as instance:
        assert ended(instance) == [0, 0]
        assert f"Flux's state is saved in {archive}" in instance.stderr()
    assert [path.name for path in archive.parent.iterdir()] == ["archive.tar.gz"]
    take_up = f"{' '.join(map(repr, JOBS))}; flux kvs get a.b; flux queue start; flux queue drain; {' '.join(JOBS[:3])}"
    # of another size, and on other hosts than at first
    with boot("--", "sh", "-c", take_up, mode=Mode.LAUNCHER, size=1, shell=shell, env=archived(archive)) as instance:
        assert ended(instance) == [0]
        lines = instance.stdout().splitlines()
        assert lines[:3] == ["left S", "done CD", "7"]
        assert re.search(r"left +CD", instance.stdout())


@pytest.mark.parametrize("env", [{}, QUIET], ids=["verbose", "quiet"])
def test_an_exit_code_is_that_of_the_command_not_of_an_archived_job(boot, archive, env):
    for command, code in (("exit 3", 3), ("exit 0", 0), ("exit 4", 4)):
        with boot("--", "sh", "-c", command, size=1, env=archived(archive, **env)) as instance:
            assert ended(instance) == [code]
    with boot("-N9", "--", "true", size=1, env=archived(archive, **env)) as instance:
        assert ended(instance) != [0]
        assert instance.termination().reason == Reason.JOB_REJECTED


def test_a_worker_that_is_lost_counts_as_lost_although_the_archived_instance_ended_well(boot, archive):
    with boot("--", "true", size=2, env=archived(archive)) as instance:
        assert ended(instance) == [0, 0]
    with boot("--", "sh", "-c", "echo begun; sleep 600", size=3, env=archived(archive)) as instance:
        instance.until(lambda: instance.stdout().count("begun") == 3)
        instance.kill_broker(2)
        assert instance.wait() == [LOST, LOST, LOST]


def test_an_instance_that_is_stopped_is_saved(boot, archive):
    with boot(mode=Mode.INTERACTIVE, size=1, env=archived(archive)) as instance:
        instance.until(instance.all_ready)
        instance.stop()
        assert ended(instance) == [0]
    assert archive.exists()


def test_an_instance_that_is_evicted_is_saved(boot, archive):
    with boot("--", "sh", "-c", "echo begun; exec sleep 600", size=1, env=archived(archive)) as instance:
        instance.until(lambda: "begun" in instance.stdout())
        instance.signal(0)
        assert ended(instance) == [143]
    assert archive.exists()


def test_a_directory_that_is_not_there_is_told_before_anything_runs(boot, archive):
    with boot("--", "echo", "begun", size=1, env={layout.ENV_ARCHIVE: str(archive), **QUIET}) as instance:
        assert ended(instance) == [1]
        assert instance.stdout() == ""
        told = f"Flux's state cannot be saved to {archive}: its directory must exist, and be one to write to"
        assert told in instance.stderr()
        assert instance.termination() == Termination(1, Reason.FLUX_FAILED, told)


def test_an_archive_that_is_none_is_left_as_it_is(boot, archive):
    env = archived(archive)
    archive.write_text("no archive")
    with boot("--", "echo", "begun", size=1, env=env) as instance:
        assert ended(instance) == [1]
        assert instance.stdout() == ""
        assert f"it was to begin with the state in {archive}" in instance.stderr()
    assert archive.read_text() == "no archive"


def test_a_state_that_cannot_be_saved_is_a_failure_and_spares_the_former_one(boot, archive):
    env = archived(archive)
    with boot("--", "true", size=1, env=env) as instance:
        assert ended(instance) == [0]
    before = archive.read_bytes()
    new = archive.parent / ".new-archive.tar.gz"
    with boot("--", "sh", "-c", f"mkdir {new}", size=1, env=env) as instance:
        assert ended(instance) == [1]
        assert instance.termination() == Termination(
            1, Reason.FLUX_FAILED, f"Flux's state cannot be saved to {archive}"
        )
    assert archive.read_bytes() == before


# -- the queue's order

BACKFILL = """
flux module list | grep -o 'sched-[a-z]*'
first=$(flux submit -n1 -t 1h sleep 600)
flux job wait-event --quiet $first start
wide=$(flux submit -n2 -t 1m true)
small=$(flux submit -n1 -t 5s true)
flux job wait-event --quiet $small clean
flux jobs --no-header --format='{status_abbrev}' $wide
flux cancel $first
flux job wait-event --quiet $wide clean
"""


@pytest.mark.parametrize("policy", ["", "fcfs"])
def test_without_a_policy_jobs_start_in_turn(boot, policy):
    command = ("flux", "module", "list")
    with boot("--", *command, mode=Mode.LAUNCHER, size=1, env={layout.ENV_QUEUE_POLICY: policy}) as instance:
        assert ended(instance) == [0]
        assert re.search("sched-simple|sched-fluxion-qmanager", instance.stdout())


def test_a_small_job_may_start_before_one_that_waits(boot):
    env = {layout.ENV_QUEUE_POLICY: "easy"}
    with boot("--", "sh", "-c", BACKFILL, mode=Mode.LAUNCHER, size=1, cores=2, env=env) as instance:
        assert ended(instance) == [0]
        *schedulers, wide = instance.stdout().split()
        assert set(schedulers) in ({"sched-backfill"}, {"sched-fluxion"})
        assert wide == "S"


@pytest.mark.parametrize("env", [{}, QUIET], ids=["verbose", "quiet"])
def test_a_policy_that_this_flux_does_not_know(boot, has_fluxion, env):
    if has_fluxion:
        pytest.skip("this Flux has Fluxion, which knows it")
    settings = {layout.ENV_QUEUE_POLICY: "conservative", **env}
    with boot("--", "echo", "begun", size=2, env=settings) as instance:
        assert ended(instance) == [1, 0]
        note = "spec.flux.scheduler.queuePolicy: this Flux has no scheduler that knows conservative"
        assert instance.termination() == Termination(1, Reason.FLUX_FAILED, note)
        assert note in instance.stderr()
        assert instance.stdout() == ""


@pytest.mark.parametrize("simple", [True, False])
def test_sched_simple_is_there_where_it_is_asked_for(boot, simple):
    command = ("flux", "module", "list")
    with boot(
        "--", *command, mode=Mode.LAUNCHER, size=1, broker={"sched_simple": simple, "queue_policy": "fcfs"}
    ) as instance:
        assert ended(instance) == [0]
        assert "sched-simple" in instance.stdout() or not simple


# -- workers


def test_a_worker_that_is_told_to_stop_has_not_completed(boot):
    """It is as when Kueue evicts, and the worker is to come again."""
    with boot(
        "--", "sh", "-c", "echo begun; sleep 600", mode=Mode.LAUNCHER, size=2, env={layout.ENV_COMPLETE_WORKERS: "1"}
    ) as i:
        i.until(lambda: "begun" in i.stdout())
        for rank in (0, 1):
            i.signal(rank)
        assert i.wait() == [143, 143]


@pytest.mark.parametrize("env", [{}, QUIET], ids=["verbose", "quiet"])
@pytest.mark.parametrize("how", ["kill_broker", "kill_container"])
def test_a_worker_that_was_lost_may_rejoin_and_the_command_runs_again(boot, tmp_path, how, env):
    go = tmp_path / "go"
    command = f"echo begun; while [ ! -e {go} ]; do sleep 0.1; done; exit 3"
    with boot("--", "sh", "-c", command, size=3, env={layout.ENV_REJOIN: "1", **env}) as instance:
        instance.until(lambda: instance.stdout().count("begun") == 3)
        getattr(instance, how)(2)
        instance.processes[2].wait()
        instance.start([2])
        instance.until(lambda: instance.stdout().count("begun") == 6)
        go.touch()
        assert ended(instance) == [3, 0, 0]
        assert instance.termination() == Termination(3, Reason.COMMAND_FAILED)


def test_one_waits_for_a_worker_and_is_told_to_stop(boot):
    with boot("--", "sh", "-c", "echo begun; sleep 600", size=3, env={layout.ENV_REJOIN: "1"}) as instance:
        instance.until(lambda: instance.stdout().count("begun") == 3)
        instance.kill_container(2)
        instance.until(lambda: "runs again when all brokers are up" in instance.stderr())
        for rank in (0, 1):
            instance.signal(rank)
        assert instance.wait()[:2] == [143, 143]


# -- what is put in place before the broker starts


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to another user")
def test_the_munge_key_is_put_where_munge_looks_for_it(boot, tmp_path):
    key, directory = tmp_path / "key", tmp_path / "munge"
    key.write_bytes(bytes(range(256)))
    directory.mkdir(mode=0o700)
    os.chown(directory, 65534, 65533)
    env = {layout.ENV_MUNGE: str(key), layout.ENV_MUNGE_KEY: f"{directory}/munge.key"}
    with boot("--", "true", size=1, env=env) as instance:
        assert ended(instance) == [0]
    placed = directory / "munge.key"
    assert placed.read_bytes() == key.read_bytes()
    found = placed.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (65534, 65533, 0o400)
    assert [path.name for path in directory.iterdir()] == ["munge.key"]


def test_a_munge_key_that_cannot_be_put_there(boot, tmp_path):
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    env = {layout.ENV_MUNGE: str(key), layout.ENV_MUNGE_KEY: "/proc/munge/munge.key", **QUIET}
    with boot("--", "true", size=1, env=env) as instance:
        assert ended(instance) == [1]
        assert "the key of spec.flux.mungeSecret cannot be put at /proc/munge/munge.key" in instance.stderr()
        assert instance.termination().reason == Reason.FLUX_FAILED


# -- the node's network


def test_brokers_have_their_pods_names_where_hostname_prints_another(boot, shell):
    env = {layout.ENV_HOSTNAME: "", layout.ENV_HOST_PREFIX: "mc-"}
    command = "hostname; flux getattr hostlist; flux resource list -no {nodelist}; flux run -N2 hostname"
    instance = boot("--", "sh", "-c", command, mode=Mode.LAUNCHER, size=2, shell=shell, env=env)
    for rank in range(2):
        file = instance.directory / f"config-{rank}" / layout.BROKER_FILE
        file.write_text(file.read_text().replace("tcp://lo:", "tcp://*:"))  # whatever the node's interface is called
    with instance:
        assert ended(instance) == [0, 0]
        node, brokers, *lines = instance.stdout().splitlines()
        assert brokers == "mc-[0-1]"
        assert "mc-[0-1]" in lines
        assert lines[-2:] == [node] * 2
