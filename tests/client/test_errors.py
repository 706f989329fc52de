import json

import pytest

from kueue_flux.client import errors

FLUX = "/apis/flux-framework.org/v1alpha2/namespaces/team/miniclusters"


def status(message: str, **details: object) -> bytes:
    return json.dumps({"kind": "Status", "message": message, "details": details}).encode()


@pytest.mark.parametrize(
    ("code", "body", "path", "kind", "message", "remedy"),
    [
        (401, status("Unauthorized"), FLUX, errors.Unauthorized, "does not accept these credentials", "log in"),
        (403, status("User x cannot list"), FLUX, errors.Forbidden, "User x cannot list", "permission"),
        (404, b"404 page not found\n", FLUX, errors.NotInstalled, "not installed", "README.md"),
        (404, status("the server could not find it"), FLUX, errors.NotInstalled, "not installed", "README.md"),
        (404, b"404 page not found\n", "/apis/kueue.x-k8s.io/v1", errors.NotFound, "does not serve", ""),
        (
            404,
            status("x", name="ns", kind="namespaces"),
            FLUX,
            errors.NotFound,
            "no namespace ns",
            "create namespace ns",
        ),
        (404, status('"hello" not found', name="hello", kind="miniclusters"), FLUX, errors.NotFound, "hello", ""),
        (409, status("hello already exists"), FLUX, errors.AlreadyExists, "already exists", "another name"),
        (410, status("too old"), FLUX, errors.Expired, "too old", ""),
        (429, b"slow down", FLUX, errors.Unavailable, "429: slow down", "again"),
        (503, b"", FLUX, errors.Unavailable, "503", "again"),
        (418, b"[1]", FLUX, errors.ClientError, "418", ""),
    ],
)
def test_each_refusal_says_what_to_do(code, body, path, kind, message, remedy):
    error = errors.from_response(code, body, path)
    assert type(error) is kind
    assert message in error.message
    assert remedy in error.remedy


def test_an_invalid_object_names_its_fields():
    error = errors.from_response(
        422, status("invalid", name="x", causes=[{"field": "spec.size", "message": "must be at least 1"}]), FLUX
    )
    assert isinstance(error, errors.Rejected)
    assert error.problems == [("spec.size", "must be at least 1")]
