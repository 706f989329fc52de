"""The operations: flux-restful-api v1, and what there is beside it. ROUTES is the table of them all.

Where an answer differs from flux-restful-api's, it is because that says 200 to what did not work, or does not say
what is wrong: an unknown job is 404 (as flux-restful-client expects), what is no id is 400.
"""

from __future__ import annotations

from typing import Any, Generator, Iterable, Iterator, Mapping

from . import VERSION, pages
from .answers import HTML, TEXT, Abandoned, Answer, answer, failed, refused
from .call import Call
from .fields import LARGEST, Field, Schema, flag, text, whole
from .jobinfo import describe, f58, matches
from .output import Event, redirected, written
from .routes import Route
from .submission import FIELDS, submission

NO_OUTPUT = "The output does not exist yet"


# -- about the server


def service(call: Call) -> Answer:
    """What this is."""
    return answer({"name": "kueue-flux RESTful API", "api": "v1", "version": VERSION, "docs": "/docs"})


def health(call: Call) -> Answer:
    """That it serves."""
    return answer({"status": "ok"})


def openapi(call: Call) -> Answer:
    """What it can do, for programs."""
    return answer(pages.openapi(ROUTES))


def docs(call: Call) -> Answer:
    """What it can do, for people."""
    return Answer(pages.page(ROUTES).encode(), media=HTML, headers=(("Content-Security-Policy", pages.POLICY),))


def stop(call: Call) -> Answer:
    """End the server, and with it the MiniCluster."""
    call.app.stop()
    return answer({"Message": "The server stops now; the broker cancels jobs that still run."})


# -- authentication


def token(call: Call) -> Answer:
    """An access token for what flux-restful-client sends."""
    found = call.app.gate.login_by_payload(call.request.header("Authorization"))
    # not 401, which flux-restful-client would answer by asking for another token
    return answer(found) if found else answer({"Message": "Denied"}, 400)


def login(call: Call) -> Answer:
    """An access token for user name and token (OAuth2 password flow)."""
    found = call.app.gate.login(call.values.get("username", ""), call.values.get("password", ""))
    if not found:
        raise refused(400, "Incorrect user or token")
    return answer(found)


# -- jobs


def list_jobs(call: Call) -> Answer:
    """The jobs, by default their ids only."""
    limit, details = call.values.get("limit"), call.values.get("details", False)
    jobs = call.cluster.jobs(limit, details)
    if not details:
        return answer({"jobs": [{"id": job["id"]} for job in jobs]})
    described = [describe(job) for job in jobs]
    return answer(described if call.values.get("listing") else {str(job["id"]): job for job in described})


def search_jobs(call: Call) -> Answer:
    """Jobs that match, a page of them (jQuery DataTables' protocol)."""
    query, start = call.values.get("search", ""), call.values.get("start", 0)
    jobs = [describe(job) for job in call.cluster.jobs()]
    found = [job for job in jobs if matches(job, query)] if query else jobs
    page = found[start:][: call.values.get("length")]
    draw = call.values.get("draw", 1)
    return answer({"data": page, "draw": draw, "recordsTotal": len(jobs), "recordsFiltered": len(page)})


def submit_job(call: Call) -> Answer:
    """Submit a job."""
    app = call.app
    job = submission(call.values, app.job_env, app.workdir, app.options)
    if call.values.get("is_launcher"):
        app.launchers.start(job)
        return answer({"Message": "Job submit, see jobs table for spawned jobs.", "id": "MANY"})
    jobid = call.cluster.submit(job)
    return answer({"Message": "Job submit.", "id": jobid, "f58": f58(jobid)})


def get_job(call: Call) -> Answer:
    """One job."""
    return answer(describe(call.cluster.job(_job_id(call))))


def cancel_job(call: Call) -> Answer:
    """Cancel a job."""
    call.cluster.cancel(_job_id(call))
    return answer({"Message": "Job is requested to cancel.", "id": call.path["jobid"]})


def job_output(call: Call) -> Answer:
    """The output of a job that has started, when it has ended; with wait=false, as far as it has come."""
    jobid = _job_id(call)
    job = describe(call.cluster.job(jobid))
    if job["state"] in ("NEW", "DEPEND", "PRIORITY", "SCHED"):
        return answer({"Message": f"{NO_OUTPUT}: the job waits ({job['state']})."})
    if call.values.get("wait", True) and job["state"] != "INACTIVE" and call.request.method != "HEAD":
        events = list(_limited(call, _followed(call, jobid)))
    else:
        events = list(_limited(call, call.cluster.output_now(jobid)))
    lines = [line.decode("utf-8", "replace") for line in map(written, events) if line]
    if lines:
        return answer({"Output": lines})
    return answer({"Message": ". ".join(filter(None, map(redirected, events))) or _why_none(call, job)})


def _why_none(call: Call, job: Mapping[str, Any]) -> str:
    if job["state"] != "INACTIVE" and not call.values.get("wait", True):
        return f"{NO_OUTPUT}: the job runs."
    note = job["exception"]["note"]
    return f"The job has no output: {note}." if note else "The job has no output."


def stream_output(call: Call) -> Answer:
    """The output of a job as it comes, until it ends."""
    jobid = _job_id(call)
    call.cluster.job(jobid)
    return Answer(_stream(call, jobid), media=TEXT)


def _stream(call: Call, jobid: int) -> Generator[bytes, None, None]:
    for event in _followed(call, jobid):
        yield written(event)


def _followed(call: Call, jobid: int) -> Iterator[Event]:
    """The events of the output, for as long as somebody waits for them."""
    for event in call.cluster.follow(jobid):
        if event is not None:
            yield event
        elif call.request.abandoned():
            raise Abandoned


def _limited(call: Call, events: Iterable[Event]) -> Iterator[Event]:
    limit = call.app.limits.output
    for event in events:
        limit -= len(written(event))
        if limit < 0:
            raise failed(400, f"The output is larger than {call.app.limits.output} bytes: ask for output/stream.")
        yield event


def _job_id(call: Call) -> int:
    return int(call.cluster.job_id(call.path["jobid"]))


# -- resources


def list_nodes(call: Call) -> Answer:
    """The nodes that are up."""
    return answer({"nodes": call.cluster.nodes()})


def list_resources(call: Call) -> Answer:
    """Nodes, cores and GPUs by state."""
    return answer(call.cluster.resources())


# -- the table

TEXTUAL: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
SIZE: Schema = {"type": "integer", "minimum": 0, "maximum": LARGEST}
NO_ID, NO_JOB = (400, "The id is none."), (404, "There is no such job.")
EXAMPLE = {"id": 1552869294080, "f58": "f2kFMxEs", "name": "hostname", "state": "INACTIVE", "result": "COMPLETED"}

LISTING = (
    Field("details", flag, BOOLEAN, "Whether to say all about each job, not only its id.", aliases=("detail",)),
    Field("listing", flag, BOOLEAN, "With details: whether as a list, not as an object by id."),
    Field("limit", whole(0), SIZE, "Number of jobs at most: all if absent."),
)
SEARCH = (
    Field("search", text, TEXTUAL, "What to look for in all that is said about a job.", ("search[value]", "query")),
    Field("start", whole(0), SIZE, "Number of jobs to skip."),
    Field("length", whole(0), SIZE, "Number of jobs at most."),
    Field("draw", whole(0), SIZE, "A number that is answered as it is."),
)
WAIT = (Field("wait", flag, BOOLEAN, "false: do not wait for the end of a job that runs, answer what there is."),)
PASSWORD: Schema = {"type": "string", "format": "password"}
LOGIN = (
    Field("username", text, TEXTUAL, "The one user's name."),
    Field("password", text, PASSWORD, "The token."),
)

ROUTES = (
    Route("GET", "/v1", service, "What this is, and its version", public=True),
    Route("GET", "/healthz", health, "That it serves", public=True, example={"status": "ok"}),
    Route("GET", "/openapi.json", openapi, "This document", public=True),
    Route("GET", "/docs", docs, "This document, to read", public=True, media=HTML),
    Route("GET", "/", docs, "The same", public=True, media=HTML),
    Route(
        "POST",
        "/v1/token",
        token,
        "Get an access token for the signed payload that flux-restful-client sends",
        public=True,
        errors=((400, "Denied."),),
        example={"access_token": "...", "token_type": "Bearer"},
    ),
    Route(
        "POST",
        "/v1/login/access-token",
        login,
        "Get an access token for user name and token",
        LOGIN,
        body=True,
        public=True,
        lenient=True,
        errors=((400, "Incorrect user or token."),),
        example={"access_token": "...", "token_type": "Bearer"},
    ),
    Route("GET", "/v1/jobs", list_jobs, "List jobs", LISTING, example={"jobs": [{"id": EXAMPLE["id"]}]}),
    Route(
        "GET",
        "/v1/jobs/search",
        search_jobs,
        "Search jobs, and get them page by page",
        SEARCH,
        lenient=True,
        example={"data": [EXAMPLE], "draw": 1, "recordsTotal": 1, "recordsFiltered": 1},
    ),
    Route(
        "POST",
        "/v1/jobs/submit",
        submit_job,
        "Submit a job",
        FIELDS,
        body=True,
        errors=((400, "Flux cannot be asked for such a job: Errors says why."),),
        example={"Message": "Job submit.", "id": EXAMPLE["id"], "f58": EXAMPLE["f58"]},
    ),
    Route("GET", "/v1/jobs/{jobid}", get_job, "Get a job", errors=(NO_ID, NO_JOB), example=EXAMPLE),
    Route(
        "POST",
        "/v1/jobs/{jobid}/cancel",
        cancel_job,
        "Cancel a job",
        errors=((400, "It cannot be cancelled: there is no such job, or it has ended."),),
        example={"Message": "Job is requested to cancel.", "id": str(EXAMPLE["id"])},
    ),
    Route(
        "GET",
        "/v1/jobs/{jobid}/output",
        job_output,
        "Get a job's output, when it has ended",
        WAIT,
        follows=True,
        errors=(NO_ID, NO_JOB),
        example={"Output": ["a line\n", "another\n"]},
    ),
    Route(
        "GET",
        "/v1/jobs/{jobid}/output/stream",
        stream_output,
        "Follow a job's output until the job ends",
        follows=True,
        media=TEXT,
        errors=(NO_ID, NO_JOB),
    ),
    Route("GET", "/v1/nodes", list_nodes, "List the nodes that are up", example={"nodes": ["flux-sample-0"]}),
    Route("GET", "/v1/resources", list_resources, "Count nodes, cores and GPUs by state"),
    Route("POST", "/v1/service/stop", stop, "End the server, and with it the MiniCluster"),
)
