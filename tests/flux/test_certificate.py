"""The CURVE certificate: a key pair that fits, the metadata that Flux wants, and a secret that does not show."""

import copy
import pickle
import traceback
from datetime import datetime

import pytest
import zmq

from kueue_flux.flux.certificate import given_certificate, new_certificate
from tests.api.certificates import PUBLIC, SECRET, TEXT, curve

NOW = datetime(2026, 3, 4, 5, 6, 7, 890)


def sections(text: str) -> dict[str, dict[str, str]]:
    """Read ZPL as flux-core does: unindented section names, indented `key = "value"`."""
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line.startswith(" "):
            section = found.setdefault(line, {})
        else:
            key, value = line.split("=", 1)
            section[key.strip()] = value.strip()[1:-1]
            assert value.strip() == f'"{value.strip()[1:-1]}"'
    return found


def test_the_keys_are_a_pair():
    certificate = new_certificate("mc-0", now=NOW)
    curve = sections(certificate.reveal())["curve"]
    assert set(curve) == {"public-key", "secret-key"}
    assert curve["public-key"] == certificate.public_key
    assert zmq.curve_public(curve["secret-key"].encode()).decode() == curve["public-key"]


def test_the_metadata():
    metadata = sections(new_certificate("mc-0", now=NOW, userid=1000).reveal())["metadata"]
    assert metadata == {
        "name": "mc-0",
        "keygen.hostname": "mc-0",
        "keygen.time": "2026-03-04T05:06:07",
        "keygen.userid": "1000",
        "keygen.zmq-version": zmq.zmq_version(),
    }


def test_each_one_is_different():
    keys = {new_certificate("mc-0", now=NOW).public_key for _ in range(50)}
    assert len(keys) == 50


def test_lines_fit_the_reader_s_buffer():
    # flux-core reads lines of up to 255 bytes
    assert max(map(len, new_certificate("a" * 63, now=NOW).reveal().splitlines())) < 255


@pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r}".format, lambda c: repr([c]), lambda c: f"{(c,)}"])
def test_the_secret_does_not_show(show):
    certificate = new_certificate("mc-0", now=NOW)
    secret = sections(certificate.reveal())["curve"]["secret-key"]
    assert secret not in show(certificate)
    assert "secret-key" not in show(certificate)
    assert "mc-0" in show(certificate)


def test_the_secret_does_not_show_in_a_traceback():
    certificate = new_certificate("mc-0", now=NOW)
    try:
        raise RuntimeError(certificate)
    except RuntimeError as error:
        shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert sections(certificate.reveal())["curve"]["secret-key"] not in shown


def test_copies_are_still_certificates():
    certificate = new_certificate("mc-0", now=NOW)
    assert copy.copy(certificate).reveal() == certificate.reveal()
    assert pickle.loads(pickle.dumps(certificate)) == certificate


@pytest.mark.parametrize("hostname", ["", " ", "a_b", 'a"b', "a\nb", "a,b", "n\u00f6", "a" * 201, " a"])
def test_a_hostname_that_flux_would_not_read_back_is_refused(hostname):
    with pytest.raises(ValueError, match="host name"):
        new_certificate(hostname, now=NOW)


def test_a_given_certificate_is_taken_over():
    certificate = given_certificate(TEXT, "mc-0")
    found = sections(certificate.reveal())
    assert found["curve"] == {"public-key": PUBLIC, "secret-key": SECRET}
    assert found["metadata"] == {"name": "flux-cert-generator", "keygen.hostname": "flux-sample-0"}
    assert (certificate.hostname, certificate.public_key) == ("flux-sample-0", PUBLIC)


def test_a_given_certificate_without_a_host_name_gets_one():
    certificate = given_certificate(curve(), "mc-0")
    assert sections(certificate.reveal())["metadata"] == {"name": "mc-0", "keygen.hostname": "mc-0"}


def test_a_given_certificate_does_not_show():
    certificate = given_certificate(TEXT, "mc-0")
    assert SECRET not in repr(certificate) + str(certificate)
