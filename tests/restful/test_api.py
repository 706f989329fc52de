import queue
import threading

import pytest

from kueue_flux.restful.answers import failed
from tests.restful.conftest import TOKEN
from tests.restful.fake_flux import RUNS, WAITS, data

SUBMIT = "/v1/jobs/submit"


# -- who may ask


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/healthz", "/openapi.json", "/docs", "/"])
def test_what_is_public_needs_no_token_and_tells_none(api, path):
    answer = api.anonymous().get(path)
    assert answer.status_code == 200
    assert TOKEN not in answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/jobs"),
        ("HEAD", "/v1/jobs"),
        ("GET", "/v1/jobs/search"),
        ("POST", "/v1/jobs/submit?command=app"),
        ("GET", "/v1/jobs/1"),
        ("POST", "/v1/jobs/1/cancel"),
        ("GET", "/v1/jobs/1/output"),
        ("GET", "/v1/jobs/1/output/stream"),
        ("GET", "/v1/nodes"),
        ("GET", "/v1/resources"),
        ("POST", "/v1/service/stop"),
    ],
)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic Zmx1eDp4"}])
def test_all_else_needs_the_token(api, method, path, headers):
    api.flux.add(1, **RUNS)
    answer = api.anonymous().request(method, path, headers=headers)
    assert answer.status_code == 401
    assert "Basic" in answer.headers["www-authenticate"]
    assert (api.flux.submitted, api.flux.cancelled, api.ended.is_set()) == ([], [], False)


def test_a_user_name_and_the_token_do_as_well(api):
    assert api.anonymous(auth=("fluxuser", TOKEN)).get("/v1/jobs").status_code == 200
    assert api.anonymous(auth=("fluxuser", "wrong")).get("/v1/jobs").status_code == 401
    assert api.anonymous(auth=("ada", TOKEN)).get("/v1/jobs").status_code == 501


def test_a_password_login_gives_an_access_token(api):
    form = {"grant_type": "password", "username": "fluxuser", "password": TOKEN}
    answer = api.anonymous().post("/v1/login/access-token", data=form).json()
    assert answer["token_type"] == "Bearer"
    headers = {"Authorization": f"Bearer {answer['access_token']}"}
    assert api.anonymous(headers=headers).get("/v1/jobs").status_code == 200
    wrong = api.anonymous().post("/v1/login/access-token", data={**form, "password": "wrong"})
    assert (wrong.status_code, wrong.json()) == (400, {"detail": "Incorrect user or token"})


def test_a_token_is_denied_with_400(api):
    # at 401 flux-restful-client would ask for a token, for ever
    answer = api.anonymous().post("/v1/token", headers={"Authorization": "Bearer wrong"})
    assert (answer.status_code, answer.json()) == (400, {"Message": "Denied"})


def test_without_authentication_all_may_ask(serve):
    assert serve(token=None).anonymous().get("/v1/jobs").status_code == 200


# -- submitting


@pytest.mark.parametrize(
    "request_",
    [
        {"params": {"command": "sleep 60", "num_tasks": 2, "exclusive": "true", "num_nodes": 1}},
        {"json": {"command": "sleep 60", "num_tasks": 2, "exclusive": True, "num_nodes": 1}},
        {"json": {"command": ["sleep", 60], "num_tasks": 2, "exclusive": True, "num_nodes": 1, "workdir": None}},
        {"data": {"command": "sleep 60", "num_tasks": 2, "exclusive": "on", "num_nodes": 1}},
        {"params": {"num_tasks": 2, "num_nodes": 1, "workdir": ""}, "json": {"command": "sleep 60", "exclusive": True}},
        {"content": b'{"command": "sleep 60", "num_tasks": 2, "num_nodes": 1, "exclusive": true}'},
    ],
)
def test_a_job_may_be_in_the_query_or_in_the_body(api, request_):
    answer = api.post(SUBMIT, **request_)
    assert (answer.status_code, answer.json()) == (200, {"Message": "Job submit.", "id": 101, "f58": "f2k"})
    (job,) = api.flux.submitted
    assert (job.command, job.num_tasks, job.exclusive, job.num_nodes) == (["sleep", "60"], 2, True, 1)
    assert job.env == {"PATH": "/bin", "HOME": "/"}
    assert job.options == {"cpu-affinity": "off"}


def test_beside_a_command_in_the_query_the_body_is_the_environment(api):
    # as in flux-restful-api
    api.post(SUBMIT, params={"command": "app"}, json={"A": "b"})
    api.post(SUBMIT, params={"command": "app", "envars": "{'A': 'b'}"})
    api.post(SUBMIT, json={"command": "app", "envars": {"A": "b"}})
    assert [job.env["A"] for job in api.flux.submitted] == ["b", "b", "b"]


BAD = {
    "no command": ({"json": {}}, 400, "A 'command' is minimally required."),
    "no JSON": ({"content": b"{"}, 400, "The body is no JSON: "),
    "no text": ({"content": b'{"command": "\xff"}'}, 400, "no text in UTF-8"),
    "deep": ({"content": b"[" * 100_000}, 400, "The body is no JSON"),
    "list": ({"json": ["app"]}, 422, "The body must be an object"),
    "xml": ({"content": b"<a/>", "headers": {"Content-Type": "text/xml"}}, 415, "send application/json"),
    "unknown": ({"json": {"command": "app", "nodes": 2}}, 422, "nodes: there is no such option here; there are: "),
    "user": ({"params": {"command": "app", "user": "ada"}}, 422, "user: there is no such option here"),
    "type": ({"json": {"command": "app", "num_tasks": "many"}}, 422, "num_tasks: must be a whole number from 1"),
    "zero": ({"params": {"command": "app", "cores_per_task": 0}}, 422, "cores_per_task: must be a whole number from 1"),
    "negative": ({"json": {"command": "app", "runtime": -1}}, 422, "runtime: must be a whole number from 0"),
    "twice": ({"params": {"command": ["a", "b"]}}, 422, "command: given twice"),
    "in both": ({"params": {"command": "a"}, "json": {"command": "b"}}, 422, "command: given in the query too"),
    "environment": ({"params": {"command": "a"}, "json": {"A": 1}}, 422, "envars: the value of A must be text"),
    "quote": ({"json": {"command": "echo 'a"}}, 422, "command: cannot be split into words"),
    "workdir": ({"json": {"command": "a", "workdir": "../x"}}, 400, "workdir: '../x' must be an absolute path"),
    "missing": ({"json": {"command": "a", "workdir": "/no/such"}}, 400, "there is no directory /no/such"),
    "outside": (
        {"json": {"command": "a", "option_flags": {"output.stdout.path": "/etc/passwd"}}},
        400,
        "/etc/passwd is outside of the working directory",
    ),
    "-o": ({"json": {"command": "a", "option_flags": "-ompi=x"}}, 400, "keys without -o, -ompi is invalid"),
    "launcher": ({"json": {"command": "rm -rf /", "is_launcher": True}}, 400, "rm is not a known launcher"),
}


@pytest.mark.parametrize(("request_", "status", "says"), BAD.values(), ids=BAD)
def test_a_bad_job_is_told_what_is_wrong_with_it(api, request_, status, says):
    answer = api.post(SUBMIT, **request_)
    assert answer.status_code == status
    assert says in answer.text.replace('\\"', '"')
    assert api.flux.submitted == []
    assert api.get("/healthz").status_code == 200


def test_a_field_that_is_wrong_is_named_as_by_fastapi(api):
    (detail,) = api.post(SUBMIT, params={"command": "a", "num_tasks": "x"}).json()["detail"]
    assert detail["loc"] == ["query", "num_tasks"]


def test_what_flux_refuses_is_told(api):
    api.flux.fails = failed(400, "There was an issue submitting that job.", Error="too big")
    answer = api.post(SUBMIT, json={"command": "a"})
    assert (answer.status_code, answer.json()["Error"]) == (400, "too big")


def test_a_failure_of_the_server_tells_no_secrets(api, caplog):
    api.flux.fails = RuntimeError("hush")
    answer = api.get("/v1/jobs")
    assert answer.status_code == 500
    assert "hush" not in answer.text
    assert "hush" in caplog.text
    api.flux.fails = None
    assert api.get("/v1/jobs").status_code == 200


# -- listing


def test_jobs_are_ids_or_details(api):
    api.flux.add(1, name="one")
    api.flux.add(2, name="two", **WAITS)
    assert api.get("/v1/jobs").json() == {"jobs": [{"id": 1}, {"id": 2}]}
    details = api.get("/v1/jobs", params={"details": "true"}).json()
    assert {jobid: job["state"] for jobid, job in details.items()} == {"1": "INACTIVE", "2": "SCHED"}
    assert api.get("/v1/jobs", params={"detail": "true"}).json() == details  # flux-restful-client's name for it
    listing = api.get("/v1/jobs", params={"details": True, "listing": True, "limit": 1}).json()
    assert [job["name"] for job in listing] == ["one"]
    assert api.get("/v1/jobs", params={"details": True, "limit": 0}).json() == {}


def test_search_finds_and_pages(api):
    for jobid in range(1, 6):
        api.flux.add(jobid, name=f"app-{jobid % 2}")
    everything = api.get("/v1/jobs/search").json()
    assert (everything["recordsTotal"], everything["recordsFiltered"], everything["draw"]) == (5, 5, 1)
    page = api.get("/v1/jobs/search", params={"start": 1, "length": 3, "draw": 7}).json()
    assert ([job["id"] for job in page["data"]], page["recordsFiltered"], page["draw"]) == ([2, 3, 4], 3, 7)
    for name in ("search", "query", "search[value]"):
        found = api.get("/v1/jobs/search", params={name: "app-1", "columns[0][data]": "id", "_": "1"}).json()
        assert [job["id"] for job in found["data"]] == [1, 3, 5]
        assert found["recordsTotal"] == 5
    assert api.get("/v1/jobs/search", params={"start": 99}).json()["data"] == []
    # words, not a pattern: nobody's regular expression keeps the server busy
    assert api.get("/v1/jobs/search", params={"search": "(a+)+$"}).json()["data"] == []


@pytest.mark.parametrize(
    "path", ["/v1/jobs?limit=x", "/v1/jobs?limit=-1", "/v1/jobs?colour=red", "/v1/jobs/search?start=x"]
)
def test_a_bad_query_is_refused(api, path):
    assert api.get(path).status_code == 422


# -- one job


def test_a_job_is_described(api):
    api.flux.add(4369, name="app")
    job = api.get("/v1/jobs/4369").json()
    assert (job["id"], job["f58"], job["name"], job["state"], job["result"]) == (
        4369,
        "f2JL",
        "app",
        "INACTIVE",
        "COMPLETED",
    )
    assert (job["returncode"], job["runtime"]) == (0, 2.5)


@pytest.mark.parametrize(("path", "status"), [("/v1/jobs/7", 404), ("/v1/jobs/x", 400), ("/v1/jobs/..%2Fx", 400)])
@pytest.mark.parametrize("more", ["", "/output", "/output/stream"])
def test_no_job_and_no_id(api, path, status, more):
    assert api.get(path + more).status_code == status


def test_a_job_is_cancelled_while_it_can_be(api):
    api.flux.add(1, **RUNS)
    api.flux.add(2)
    answer = api.post("/v1/jobs/1/cancel")
    assert (answer.status_code, answer.json()) == (200, {"Message": "Job is requested to cancel.", "id": "1"})
    assert api.flux.cancelled == [1]
    late = api.post("/v1/jobs/2/cancel")
    assert late.status_code == 400
    assert "cannot be cancelled" in late.json()["Message"]


# -- output


def test_the_output_of_a_job_that_ended(api):
    api.flux.add(1)
    api.flux.events[1] = [data("a\n"), {"name": "header", "context": {}}, data("/3g=", encoding="base64")]
    assert api.get("/v1/jobs/1/output").json() == {"Output": ["a\n", "\ufffdx"]}
    assert api.get("/v1/jobs/1/output/stream").content == b"a\n\xffx"


@pytest.mark.parametrize(
    ("state", "events", "query", "says"),
    [
        (WAITS, [], "", "The output does not exist yet: the job waits (SCHED)."),
        (RUNS, [], "?wait=false", "The output does not exist yet: the job runs."),
        ({}, [], "", "The job has no output."),
        ({"state": 64, "result": 2, "exception_note": "too big"}, [], "", "The job has no output: too big."),
        (
            {},
            [{"name": "redirect", "context": {"stream": "stdout", "rank": "0", "path": "x"}}],
            "",
            "stdout of task 0 goes to x",
        ),
    ],
)
def test_no_output_says_why(api, state, events, query, says):
    api.flux.add(1, **state)
    api.flux.events[1] = events
    answer = api.get("/v1/jobs/1/output" + query)
    assert (answer.status_code, answer.json()) == (200, {"Message": says})


def test_the_output_of_a_job_that_runs_is_waited_for_unless_one_does_not_want_to(api):
    api.flux.add(1, **RUNS)
    api.flux.events[1] = [data("a\n")]
    api.flux.coming[1] = queue.Queue()
    assert api.get("/v1/jobs/1/output?wait=false").json() == {"Output": ["a\n"]}
    assert api.http.head("/v1/jobs/1/output").status_code == 200
    for event in (data("b\n"), None):
        api.flux.coming[1].put(event)
    assert api.get("/v1/jobs/1/output").json() == {"Output": ["a\n", "b\n"]}


def test_output_that_is_too_long_for_one_piece_can_be_streamed(serve):
    api = serve(output=10)
    api.flux.add(1)
    api.flux.events[1] = [data("0123456789"), data("x")]
    answer = api.get("/v1/jobs/1/output")
    assert (answer.status_code, "ask for output/stream" in answer.text) == (400, True)
    assert api.get("/v1/jobs/1/output/stream").text == "0123456789x"


def test_output_is_streamed_as_it_comes(api):
    api.flux.add(1, **RUNS)
    api.flux.coming[1] = queue.Queue()
    with api.http.stream("GET", "/v1/jobs/1/output/stream") as answer:
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        pieces = answer.iter_raw()
        for piece in (b"a\n", b"b", b"c\n"):
            api.flux.coming[1].put(data(piece.decode()))
            assert next(pieces) == piece  # before the next is there
        api.flux.coming[1].put(None)
        assert list(pieces) == []
    assert api.flux.closed.wait(60)


def test_a_stream_may_be_asked_about(api):
    api.flux.add(1, **RUNS)
    api.flux.coming[1] = queue.Queue()
    assert api.http.head("/v1/jobs/1/output/stream").headers["content-type"].startswith("text/plain")
    assert api.get("/v1/jobs").status_code == 200


def test_too_many_that_follow_are_refused_until_one_ends(serve):
    api = serve(followers=1)
    api.flux.add(1, **RUNS)
    api.flux.coming[1] = queue.Queue()
    with api.http.stream("GET", "/v1/jobs/1/output/stream") as first:
        assert first.status_code == 200
        second = api.get("/v1/jobs/1/output/stream")
        assert (second.status_code, second.headers["retry-after"]) == (503, "5")
        assert api.get("/v1/jobs").status_code == 200
        api.flux.coming[1].put(None)
        first.read()
    api.flux.coming[1].put(None)
    until(lambda: api.get("/v1/jobs/1/output/stream").status_code == 200)


def until(true):
    for _ in range(3000):
        if true():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen")


# -- about the server


def test_nodes_and_resources(api):
    assert api.get("/v1/nodes").json() == {"nodes": ["flux-sample-0", "flux-sample-1"]}
    assert api.get("/v1/resources").json()["all"]["ncores"] == 4


def test_it_can_be_told_to_stop(api):
    answer = api.post("/v1/service/stop")
    assert answer.status_code == 200
    assert "stops" in answer.json()["Message"]
    assert api.ended.is_set()


def test_a_body_that_nobody_asked_for_is_ignored(api):
    api.flux.add(1, **RUNS)
    assert api.post("/v1/jobs/1/cancel", json={}).status_code == 200
    assert api.http.request("GET", "/v1/jobs", json={"a": 1}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("OPTIONS", "/v1/jobs", 204, "GET, HEAD, OPTIONS"),
        ("OPTIONS", "/v1/jobs/submit", 204, "OPTIONS, POST"),
        ("OPTIONS", "/none", 404, None),
        ("DELETE", "/v1/jobs/1", 405, "GET, HEAD, OPTIONS"),
        ("PUT", "/v1/jobs", 405, "GET, HEAD, OPTIONS"),
        ("PATCH", "/none", 404, None),
    ],
)
def test_methods(api, method, path, status, allow):
    answer = api.anonymous().request(method, path)
    assert (answer.status_code, answer.headers.get("allow")) == (status, allow)


def test_head_is_get_without_a_body(api):
    head, get = api.http.head("/v1/nodes"), api.get("/v1/nodes")
    assert head.content == b""
    assert head.headers["content-length"] == get.headers["content-length"]


def test_no_answer_is_kept_or_guessed_at(api):
    for path in ("/v1/jobs", "/docs"):
        headers = api.get(path).headers
        assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
    assert "default-src 'none'" in api.get("/docs").headers["content-security-policy"]
