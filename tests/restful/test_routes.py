import pytest

from kueue_flux.restful.answers import Problem
from kueue_flux.restful.api import ROUTES
from kueue_flux.restful.routes import Routes, parse_form, split_target

ROUTING = Routes(ROUTES)


@pytest.mark.parametrize(
    ("method", "path", "operation", "values"),
    [
        ("GET", "/", "docs", {}),
        ("GET", "/v1", "service", {}),
        ("GET", "/v1/", "service", {}),
        ("GET", "/healthz", "health", {}),
        ("HEAD", "/healthz", "health", {}),
        ("GET", "/openapi.json", "openapi", {}),
        ("POST", "/v1/token", "token", {}),
        ("GET", "/v1/jobs", "list_jobs", {}),
        ("GET", "/v1/jobs/", "list_jobs", {}),
        ("GET", "/v1/jobs/search", "search_jobs", {}),
        ("POST", "/v1/jobs/submit", "submit_job", {}),
        ("GET", "/v1/jobs/123", "get_job", {"jobid": "123"}),
        ("GET", "/v1/jobs/%C6%92oo", "get_job", {"jobid": "ƒoo"}),
        ("GET", "/v1/jobs/..%2F..", "get_job", {"jobid": "../.."}),
        ("POST", "/v1/jobs/123/cancel", "cancel_job", {"jobid": "123"}),
        ("GET", "/v1/jobs/123/output", "job_output", {"jobid": "123"}),
        ("GET", "/v1/jobs/123/output/stream", "stream_output", {"jobid": "123"}),
        ("GET", "/v1/nodes", "list_nodes", {}),
        ("POST", "/v1/service/stop", "stop", {}),
    ],
)
def test_a_request_finds_its_operation(method, path, operation, values):
    route, found = ROUTING.match(method, path)
    assert (route.operation.__name__, found) == (operation, values)


@pytest.mark.parametrize(
    "path", ["/v2", "/jobs", "/v1/job", "/v1/jobs/1/2", "/openapixjson", "/v1/jobs//cancel", "//v1/jobs", "/../v1"]
)
def test_another_path_is_not_found(path):
    with pytest.raises(Problem) as refused:
        ROUTING.match("GET", path)
    assert refused.value.status == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v1/jobs", "GET, HEAD, OPTIONS"),
        ("GET", "/v1/jobs/submit", "OPTIONS, POST"),
        ("HEAD", "/v1/token", "OPTIONS, POST"),
        ("DELETE", "/v1/jobs/123", "GET, HEAD, OPTIONS"),
        ("PUT", "/v1/service/stop", "OPTIONS, POST"),
    ],
)
def test_another_method_is_not_allowed(method, path, allowed):
    with pytest.raises(Problem) as refused:
        ROUTING.match(method, path)
    assert refused.value.status == 405
    assert refused.value.headers == (("Allow", allowed),)


def test_every_route_is_found_as_itself():
    for route in ROUTES:
        found, values = ROUTING.match(route.method, route.path)
        assert found is route
        assert sorted(values) == sorted(route.parameters)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/v1/jobs?limit=1", "/v1/jobs", "limit=1"),
        ("/v1/jobs", "/v1/jobs", ""),
        ("/a?b?c", "/a", "b?c"),
        ("/a?b#c", "/a", "b"),
        ("http://host:5000/v1/jobs?x=1", "/v1/jobs", "x=1"),
        ("http://host", "/", ""),
        ("*", "/", ""),
        ("//host/v1", "//host/v1", ""),
    ],
)
def test_split_target(target, path, query):
    assert split_target(target) == (path, query)


def test_a_form_is_names_and_values():
    assert parse_form("a=1&b=x+y&c=%C6%92&d=", "query") == {"a": "1", "b": "x y", "c": "ƒ", "d": ""}
    assert parse_form("", "query") == {}


@pytest.mark.parametrize(
    ("form", "status", "says"),
    [
        ("a=1&a=2", 422, "a: given twice"),
        ("&".join(f"a{number}=1" for number in range(300)), 400, "more than 200 fields"),
        ("a=%ff", 400, "no text in UTF-8"),
    ],
)
def test_a_form_that_is_none(form, status, says):
    with pytest.raises(Problem, match=says) as refused:
        parse_form(form, "query")
    assert refused.value.status == status
