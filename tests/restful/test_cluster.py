"""What Flux's bindings answer that a Flux which works does not: errors, nothing at all, and what older ones say."""

import errno
import importlib
import os
import sys
from types import SimpleNamespace

import pytest

from kueue_flux.restful.answers import Problem
from kueue_flux.restful.submission import Submission

JOB = Submission(command=["app"], workdir="/", env={})


class Future:
    """An answer that is there, or an error."""

    def __init__(self, answer):
        self.answer = answer

    def wait_for(self, seconds):
        if isinstance(self.answer, Exception):
            raise self.answer

    def get(self):
        return self.answer

    get_id = get_jobs = get_job = get


class Bindings:
    """Flux's bindings, which answer by script and count what they are asked."""

    def __init__(self):
        self.asked = []
        self.answers = {}
        self.job = SimpleNamespace(
            job_list=lambda handle, **fields: self.ask("list", **fields),
            job_list_id=lambda handle, jobid, **fields: self.ask("list-id"),
            submit_async=lambda handle, spec: self.ask("submit"),
            cancel_async=lambda handle, jobid: self.ask("cancel"),
            JobspecV1=SimpleNamespace(from_command=self.from_command),
        )
        self.Flux = lambda: self
        self.rpc = lambda topic, *args, **fields: self.ask(topic)
        self.attr_get = lambda name: "4"

    def ask(self, topic, **fields):
        self.asked.append((topic, fields))
        answer = self.answers[topic]
        return Future(answer)

    def from_command(self, command, **fields):
        if isinstance(self.answers.get("jobspec"), Exception):
            raise self.answers["jobspec"]
        return SimpleNamespace(setattr_shell_option=lambda name, value: None)


@pytest.fixture
def flux(monkeypatch):
    bindings = Bindings()
    monkeypatch.setitem(sys.modules, "flux", bindings)
    monkeypatch.setitem(sys.modules, "flux.job", bindings.job)
    monkeypatch.setitem(sys.modules, "flux.resource", SimpleNamespace(SchedResourceList=lambda found: found))
    monkeypatch.delitem(sys.modules, "kueue_flux.restful.cluster", raising=False)
    yield bindings
    sys.modules.pop("kueue_flux.restful.cluster", None)


@pytest.fixture
def cluster(flux):
    return importlib.import_module("kueue_flux.restful.cluster").Cluster()


def failure(number, text=None):
    return OSError(number, text or os.strerror(number))


def test_ten_thousand_jobs_are_one_request(flux, cluster):
    flux.answers["list"] = [{"id": number} for number in range(10_000)]
    assert len(cluster.jobs()) == 10_000
    assert flux.asked == [("list", {"max_entries": 0, "attrs": ["all"]})]  # 0: all there are


@pytest.mark.parametrize(
    ("limit", "details", "fields"),
    [(7, True, {"max_entries": 7, "attrs": ["all"]}), (None, False, {"max_entries": 0, "attrs": []})],
)
def test_a_list_asks_for_no_more_than_is_wanted(flux, cluster, limit, details, fields):
    flux.answers["list"] = []
    cluster.jobs(limit, details)
    assert flux.asked == [("list", fields)]


def test_no_jobs_are_asked_for_as_none(flux, cluster):
    assert cluster.jobs(0) == []
    assert flux.asked == []


CALLS = {
    "list": lambda cluster: cluster.jobs(),
    "list-id": lambda cluster: cluster.job(1),
    "submit": lambda cluster: cluster.submit(JOB),
    "cancel": lambda cluster: cluster.cancel(1),
    "job-info.lookup": lambda cluster: cluster.output_now(1),
    "resource.sched-status": lambda cluster: cluster.nodes(),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_answer_is_504(flux, cluster, call):
    flux.answers[call] = failure(errno.ETIMEDOUT)
    with pytest.raises(Problem, match="did not answer within 30 s") as problem:
        CALLS[call](cluster)
    assert problem.value.status == 504


@pytest.mark.parametrize("number", [errno.ECONNRESET, errno.EPIPE])
@pytest.mark.parametrize("call", CALLS)
def test_a_broker_that_has_gone_is_503(flux, cluster, call, number):
    flux.answers[call] = failure(number)
    with pytest.raises(Problem, match="Flux cannot answer") as problem:
        CALLS[call](cluster)
    assert problem.value.status == 503


@pytest.mark.parametrize("call", [call for call in CALLS if call != "resource.sched-status"])
def test_a_service_that_is_not_loaded_is_503(flux, cluster, call):
    flux.answers[call] = failure(errno.ENOSYS, "No service matching job-x is registered")
    with pytest.raises(Problem, match="lacks a service: No service matching job-x") as problem:
        CALLS[call](cluster)
    assert problem.value.status == 503


@pytest.mark.parametrize("answers", [failure(errno.EINVAL, "too big"), ValueError("too big")])
def test_what_flux_says_of_a_job_is_told(flux, cluster, answers):
    flux.answers = {"submit": answers, "jobspec": answers}
    with pytest.raises(Problem) as problem:
        cluster.submit(JOB)
    assert (problem.value.status, "too big" in problem.value.content["Error"]) == (400, True)


def test_the_resources_of_an_older_flux(flux, cluster):
    flux.answers = {
        "resource.sched-status": failure(errno.ENOSYS),
        "sched.resource-status": SimpleNamespace(up=SimpleNamespace(nodelist=["a", "b", "a"])),
    }
    assert cluster.nodes() == ["a", "b"]
    flux.answers["sched.resource-status"] = failure(errno.ENOSYS)
    with pytest.raises(Problem, match="no scheduler"):
        cluster.nodes()
