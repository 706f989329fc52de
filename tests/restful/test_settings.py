import logging

import pytest

from kueue_flux.restful import settings
from kueue_flux.restful.settings import CannotStart, job_environment, read_settings


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text("sesame\n")
    return str(path)


def test_only_a_token_has_to_be_given(token_file):
    found = read_settings({settings.ENV_TOKEN_FILE: token_file})
    assert (found.port, found.host, found.user, found.token) == (5000, "", "fluxuser", "sesame")
    assert found.log_level == logging.INFO


def test_everything_can_be_said(token_file):
    env = {
        settings.ENV_TOKEN_FILE: token_file,
        settings.ENV_PORT: "8080",
        settings.ENV_HOST: "127.0.0.1",
        settings.ENV_USER: "ada",
        settings.ENV_LOG_LEVEL: "error",
        settings.ENV_REQUIRE_AUTH: "1",
        settings.ENV_SERVER_MODE: "single-user",
    }
    found = read_settings(env)
    assert (found.port, found.host, found.user, found.log_level) == (8080, "127.0.0.1", "ada", logging.ERROR)


def test_authentication_can_only_be_turned_off_in_so_many_words():
    assert read_settings({settings.ENV_REQUIRE_AUTH: "0"}).token is None


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({}, "there is no token: KUEUE_FLUX_RESTFUL_TOKEN_FILE names no file"),
        ({settings.ENV_TOKEN_FILE: "/no/such"}, "cannot read the token from /no/such .*: No such file"),
        ({settings.ENV_REQUIRE_AUTH: "no"}, "REQUIRE_AUTH is 'no': it can be 1, 0"),
        ({settings.ENV_REQUIRE_AUTH: "0", settings.ENV_PORT: "http"}, "a port is a number from 0 to 65535"),
        ({settings.ENV_REQUIRE_AUTH: "0", settings.ENV_PORT: "65536"}, "a port is a number"),
        ({settings.ENV_REQUIRE_AUTH: "0", settings.ENV_PORT: "-1"}, "a port is a number"),
        ({settings.ENV_REQUIRE_AUTH: "0", settings.ENV_LOG_LEVEL: "loud"}, "it can be debug, info, warning, error"),
        ({settings.ENV_SERVER_MODE: "multi-user"}, r"multi-user mode \(PAM\), which is not supported"),
    ],
)
def test_what_makes_no_sense_says_what_would(env, says):
    with pytest.raises(CannotStart, match=says):
        read_settings(env)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--"], {}),
        (["-ompi=openmpi@5"], {"mpi": "openmpi@5"}),
        (
            ["-o", "verbose=2", "--setopt=cpu-affinity=off", "-o", "x=a,b=c", "-oy"],
            {"verbose": 2, "cpu-affinity": "off", "x": "a,b=c", "y": 1},
        ),
    ],
)
def test_options_of_all_jobs_are_given_as_to_flux_run(arguments, options):
    assert read_settings({settings.ENV_REQUIRE_AUTH: "0"}, arguments).options == options


@pytest.mark.parametrize(
    ("argument", "says"), [("-N2", "unrecognized arguments: -N2"), ("-o", "expected one argument")]
)
def test_other_options_of_flux_run_are_refused(argument, says):
    with pytest.raises(CannotStart, match=f"{says}.*the only option for all of them is -o NAME=VALUE"):
        read_settings({settings.ENV_REQUIRE_AUTH: "0"}, [argument])


@pytest.mark.parametrize(("content", "says"), [(b" \n", "is empty"), (b"\xff\xfe", "no text in UTF-8")])
def test_a_file_without_a_token_is_none(tmp_path, content, says):
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(CannotStart, match=says):
        read_settings({settings.ENV_TOKEN_FILE: str(path)})


def test_the_token_does_not_show(token_file):
    assert "sesame" not in repr(read_settings({settings.ENV_TOKEN_FILE: token_file}))


def test_jobs_inherit_all_but_the_settings():
    env = {"PATH": "/bin", settings.ENV_TOKEN_FILE: "/secret/token", "FLUX_URI": "local:///run"}
    assert job_environment(env) == {"PATH": "/bin", "FLUX_URI": "local:///run"}
