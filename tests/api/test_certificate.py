"""A certificate in the specification: taken as Flux takes it, told what is wrong with it, and shown by nobody."""

from __future__ import annotations

import json

import pytest

from kueue_flux.api import certificate
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.problems import InvalidMiniCluster
from tests.api.bad_inputs import minicluster
from tests.api.certificates import BAD, PUBLIC, SECRET, TEXT, curve


def test_what_it_says() -> None:
    given = certificate.read(TEXT)
    assert given.metadata == {"name": "flux-cert-generator", "keygen.hostname": "flux-sample-0"}
    assert (given.public_key, given.secret_key) == (PUBLIC, SECRET)


@pytest.mark.parametrize(
    "text",
    [
        curve(),
        curve().replace("    ", "\t"),
        curve().replace(" = ", "="),
        f"# one\n\n  # two\n{curve()}\n \n",
        curve() + "metadata\n",
        curve().rstrip("\n"),
        curve().replace("\n", "\r\n"),
    ],
)
def test_other_ways_to_write_it(text: str) -> None:
    assert certificate.read(text).secret_key == SECRET


@pytest.mark.parametrize("text", BAD)
def test_a_certificate_that_is_none(text: str) -> None:
    with pytest.raises(InvalidMiniCluster) as raised:
        MiniCluster.from_object(minicluster({"flux": {"curveCert": text}}))
    (problem,) = raised.value.problems
    assert problem.field == "spec.flux.curveCert"
    assert problem.message.startswith("is no CURVE certificate: ")
    assert BAD[text] in problem.message
    assert "flux keygen" in problem.remedy


SECRETS = [text for text in BAD if SECRET[:30] in text]


@pytest.mark.parametrize(
    "settings",
    [
        *({"curveCert": text} for text in SECRETS),
        {"curveCert": TEXT * 20},
        {"curveCert": [TEXT]},
        {"curveCert": {"text": TEXT}},
        {"curveCertSecret": curve(secret=PUBLIC, public=SECRET)},  # the key comes first
        {"mungeSecret": TEXT},
        {"curveCert": TEXT, "curveCertSecret": "a"},
        [TEXT],
    ],
    ids=lambda value: f"{type(value).__name__} {str(value)[:20]}",
)
def test_no_error_shows_the_key(settings: object) -> None:
    with pytest.raises(InvalidMiniCluster) as raised:
        MiniCluster.from_object(minicluster({"flux": settings}))
    told = str(raised.value) + repr(raised.value.problems) + raised.value.message
    assert SECRET[:20] not in told
    assert PUBLIC[:20] not in told


def test_the_minicluster_does_not_show_it_either() -> None:
    mc = MiniCluster.from_object(minicluster({"flux": {"curveCert": TEXT}}))
    assert SECRET not in repr(mc) + str(mc)
    assert SECRET in json.dumps(mc.to_object())  # what is submitted is what was given
