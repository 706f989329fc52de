import re
from html.parser import HTMLParser

import pytest

from kueue_flux.restful import pages
from kueue_flux.restful.api import ROUTES
from kueue_flux.restful.fields import Field, text
from kueue_flux.restful.routes import Route

DOCUMENT = pages.openapi(ROUTES)


def test_it_is_a_valid_openapi_document():
    validator = pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is not installed")
    validator.validate(DOCUMENT)


def test_it_has_the_routes_that_are_served():
    served = {(route.path, route.method.lower()) for route in ROUTES}
    told = {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert told == served


def test_every_operation_has_an_id_of_its_own():
    ids = [operation["operationId"] for methods in DOCUMENT["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids)) == len(ROUTES)


def test_every_parameter_is_told():
    for route in ROUTES:
        operation = DOCUMENT["paths"][route.path][route.method.lower()]
        named = {(parameter["in"], parameter["name"]) for parameter in operation["parameters"]}
        assert {name for where, name in named if where == "path"} == set(route.parameters)
        secrets = {each.name for each in route.fields if each.schema.get("format") == "password"}
        assert {name for where, name in named if where == "query"} == {each.name for each in route.fields} - secrets
        if route.body:
            for content in operation["requestBody"]["content"].values():
                assert set(content["schema"]["properties"]) == {each.name for each in route.fields}


def test_what_needs_the_token_says_so():
    public = {route.path for route in ROUTES if route.public}
    assert public == {"/", "/v1", "/healthz", "/openapi.json", "/docs", "/v1/token", "/v1/login/access-token"}
    for route in ROUTES:
        operation = DOCUMENT["paths"][route.path][route.method.lower()]
        assert bool(operation["security"]) is not route.public
        assert ("401" in operation["responses"]) is not route.public


class Tags(HTMLParser):
    """Counts what is open, and notes what is asked of the network."""

    def __init__(self):
        super().__init__()
        self.open, self.links = [], []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_lists_all_and_needs_nothing():
    page = pages.page(ROUTES)
    for route in ROUTES:
        assert f"<code>{route.method} {route.path}</code>" in page
        for each in route.fields:
            assert f"<code>{each.name}</code>" in page
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.links == ["/openapi.json"]
    assert not re.search(r"<script|@import|url\(", page)


def test_what_is_shown_is_text():
    field = Field("a<b", text, {"type": "string"}, "x & <y>")
    page = pages.page((Route("GET", "/<p>", lambda call: None, "<script>", (field,)),))
    assert "<script>" not in page
    assert "a&lt;b" in page
    assert "x &amp; &lt;y&gt;" in page
