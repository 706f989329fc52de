"""The server's files, as they come into an image that has nothing of ours."""

import ast
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kueue_flux import restful
from kueue_flux.restful import settings
from tests.restful.live import deliver

FILES = restful.files()
PATIENCE = 120


def test_all_of_it_goes_into_a_config_map():
    assert "__main__.py" in FILES
    assert sum(map(len, FILES.values())) < 200_000  # a ConfigMap holds 1 MiB, and has other things in it


@pytest.mark.parametrize("name", FILES)
def test_it_is_python_of_3_8(name):
    ast.parse(FILES[name], feature_version=(3, 8))


def test_it_calls_nothing_that_is_newer():
    pytest.importorskip("vermin", reason="vermin is not installed (pip install .[dev])")
    here = Path(restful.__file__).parent
    words = ["-t=3.8-", "--violations", "--no-tips", str(here)]
    done = subprocess.run(
        [sys.executable, "-c", "from vermin import main; main()", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", FILES)
def test_it_imports_only_itself_and_what_python_and_flux_have(name):
    for node in ast.walk(ast.parse(FILES[name])):
        if isinstance(node, ast.Import):
            imported = [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            imported = [node.module] if node.module else []
            assert all(f"{module}.py" in FILES for module in imported)
            continue
        elif isinstance(node, ast.ImportFrom):
            imported = [str(node.module).partition(".")[0]]
        else:
            continue
        for module in imported:
            assert module in sys.stdlib_module_names or (module == "flux" and name == "cluster.py")


@pytest.fixture
def run(tmp_path):
    """Runs the delivered files with this Python, which has no Flux unless a stand-in is put on its path."""
    directory = deliver(tmp_path / "any name, really")

    def start(*, modules=None, **env):
        path = {"PYTHONPATH": str(modules)} if modules else {}
        done = subprocess.run(
            [sys.executable, "-B", str(directory)],
            env={"PATH": os.environ["PATH"], **path, **env},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=tmp_path,
        )
        return done.returncode, done.stdout, done.stderr

    return start


def test_without_bindings_it_says_how_to_have_them(run):
    code, out, err = run(**{settings.ENV_REQUIRE_AUTH: "0"})
    assert (code, out) == (1, "")
    assert "cannot start: there are no Flux Python bindings" in err
    assert "run this with `flux python`" in err


def test_the_token_is_read_before_anything_else(run):
    code, _, err = run()
    assert code == 1
    assert "cannot start: there is no token" in err
    assert "Traceback" not in err


@pytest.fixture
def bindings(tmp_path):
    """A module that passes for Flux's bindings, and tells which modules it could see."""
    package = tmp_path / "modules" / "flux"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import json, sys\n"
        "class Flux:\n"
        "    def __init__(self):\n"
        "        sys.stderr.write(json.dumps(sys.path) + '\\n')\n"
        "    def attr_get(self, name):\n"
        "        return '2'\n"
    )
    (package / "job.py").write_text("")
    (package / "resource.py").write_text("SchedResourceList = None\n")
    return package.parent


def test_a_port_that_is_taken_is_said_to_be(run, bindings):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        env = {settings.ENV_REQUIRE_AUTH: "0", settings.ENV_PORT: port, settings.ENV_HOST: "127.0.0.1"}
        code, _, err = run(modules=bindings, **env)
    assert code == 1
    assert f"cannot start: cannot listen on port {port} of 127.0.0.1 (KUEUE_FLUX_RESTFUL_PORT): Address already" in err
    assert "Traceback" not in err


def test_its_modules_do_not_hide_those_of_others(run, bindings, tmp_path):
    env = {settings.ENV_REQUIRE_AUTH: "0", settings.ENV_PORT: "1", settings.ENV_HOST: "192.0.2.1"}
    _, _, err = run(modules=bindings, **env)
    path = json.loads(err.splitlines()[0])
    assert str(tmp_path / "any name, really") not in path
    assert "cannot listen on port 1 of 192.0.2.1" in err
