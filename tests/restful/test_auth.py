import base64
import json

import pytest

from kueue_flux.restful.answers import Problem
from kueue_flux.restful.auth import LIFETIME, Gate, sign, verify

TOKEN = "sesame-0123456789"


def basic(user, token):
    return "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()


def payload(key=TOKEN, **claims):
    return "Bearer " + sign({"user": "fluxuser", "pass": TOKEN, "scope": "token", **claims}, key.encode())


class Clock:
    now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def gate(clock):
    return Gate(TOKEN, "fluxuser", clock)


@pytest.mark.parametrize(
    "header",
    [
        basic("fluxuser", TOKEN),
        f"Bearer {TOKEN}",
        f"bearer  {TOKEN} ",
        basic("fluxuser", TOKEN).lower()[:5] + basic("fluxuser", TOKEN)[5:],
    ],
)
def test_the_token_opens(gate, header):
    gate.check(header)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Token {TOKEN}",
        TOKEN,
        "Basic !!!",
        "Basic " + base64.b64encode(TOKEN.encode()).decode(),
        basic("fluxuser", "wrong"),
        basic("fluxuser", ""),
        basic("root", "wrong"),
        "Bearer \xff\xfe",
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Bearer a.b.c",
        "Bearer e30.e30.e30",
    ],
)
def test_nothing_else_does(gate, header):
    with pytest.raises(Problem) as refused:
        gate.check(header)
    assert refused.value.status == 401
    assert [name for name, _ in refused.value.headers] == ["WWW-Authenticate", "WWW-Authenticate"]
    assert TOKEN not in json.dumps(refused.value.content)


def test_another_user_with_the_token_is_told_that_there_is_one(gate):
    for ask in (lambda: gate.check(basic("ada", TOKEN)), lambda: gate.login("ada", TOKEN)):
        with pytest.raises(Problem) as refused:
            ask()
        assert refused.value.status == 501
        assert "multi-user mode (PAM) is not supported" in refused.value.content["detail"]
        assert "fluxuser" in refused.value.content["detail"]


def test_a_payload_that_is_signed_with_the_token_gets_an_access_token(gate):
    answer = gate.login_by_payload(payload())
    assert answer["token_type"] == "Bearer"
    gate.check(f"Bearer {answer['access_token']}")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "Bearer x",
        payload(key="guess"),
        payload(scope="jobs"),
        payload(user=None),
        payload(user=7),
        "Bearer " + sign({"user": "fluxuser", "scope": "token"}, TOKEN.encode()),
        "Bearer " + sign({"user": "fluxuser", "pass": "wrong", "scope": "token"}, TOKEN.encode()),
    ],
)
def test_another_payload_gets_none(gate, header):
    assert gate.login_by_payload(header) is None


def test_a_payload_is_no_access_token(gate):
    with pytest.raises(Problem):
        gate.check(payload(exp=9_999_999_999))


def test_a_token_may_have_any_letters(clock):
    # http.server gives a header's bytes as Latin-1
    Gate("sésame", "fluxuser", clock).check("Bearer " + "sésame".encode().decode("latin-1"))


def test_an_access_token_expires(gate, clock):
    token = gate.login("fluxuser", TOKEN)["access_token"]
    clock.now += LIFETIME - 1
    gate.check(f"Bearer {token}")
    clock.now += 1
    with pytest.raises(Problem) as refused:
        gate.check(f"Bearer {token}")
    assert refused.value.status == 401


def test_an_access_token_of_another_server_is_none(gate, clock):
    other = Gate(TOKEN, "fluxuser", clock).login("fluxuser", TOKEN)["access_token"]
    with pytest.raises(Problem):
        gate.check(f"Bearer {other}")


def test_without_a_token_all_may_enter():
    gate = Gate(None, "fluxuser")
    assert gate.open
    gate.check(None)
    gate.check("Bearer anything")
    assert gate.login_by_payload("Bearer anything")["token_type"] == "Bearer"
    assert gate.login("ada", "x")["access_token"]


def part(content):
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def test_signed_and_verified():
    assert verify(sign({"sub": "ada"}, b"key"), b"key") == {"sub": "ada"}
    # RFC 7515, appendix A.1
    key = base64.urlsafe_b64decode(
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow=="
    )
    token = (
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9."
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    )
    assert verify(token, key)["iss"] == "joe"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "..",
        "a.b.c",
        "é.é.é",
        f"{part({'alg': 'none'})}.{part({'sub': 'ada'})}.",
        f"{part({'alg': 'HS512'})}.{part({'sub': 'ada'})}.{part({})}",
        f"{part([])}.{part({})}.{part({})}",
        sign({"sub": "ada"}, b"other"),
        sign({"sub": "ada"}, b"key")[:-2],
        sign({"sub": "ada"}, b"key") + ".x",
        "[" * 5000,
    ],
)
def test_not_verified(token):
    assert verify(token, b"key") is None
