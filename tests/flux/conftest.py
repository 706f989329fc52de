"""Which shells and which Flux the tests find."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.flux.instance import PATIENCE, Instance


@pytest.fixture(params=["dash", "busybox", "bash"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each shell that a container's /bin/sh may be, under the name `sh`: that makes it a POSIX shell."""
    program = shutil.which(request.param)
    if not program:
        pytest.skip(f"no {request.param} on this machine")
    (tmp_path / "sh").symlink_to(program)
    return str(tmp_path / "sh")


@pytest.fixture(scope="session")
def flux_path() -> str:
    """A PATH on which real Flux is found: in FLUX_PREFIX, else as it is."""
    prefix = os.environ.get("FLUX_PREFIX")
    if not shutil.which("flux", path=f"{prefix}/bin" if prefix else None):
        where = f"in {prefix}/bin (FLUX_PREFIX)" if prefix else "on PATH, and FLUX_PREFIX is not set"
        pytest.skip(f"no real Flux: there is no 'flux' {where}")
    return f"{prefix}/bin:{os.environ['PATH']}" if prefix else os.environ["PATH"]


@pytest.fixture
def flux(flux_path: str) -> Callable[..., str]:
    """Runs a flux command that needs no instance; gives what it prints."""

    def run(*words: str, text: str | None = None) -> str:
        env = {"PATH": flux_path, "HOME": "/"}
        done = subprocess.run(["flux", *words], env=env, input=text, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def boot(flux_path: str) -> Callable[..., Instance]:
    """Makes instances of real brokers; see Instance."""

    def make(*args: str, **fields: Any) -> Instance:
        fields["broker"] = {"allow_root_owner": os.getuid() == 0, **fields.get("broker", {})}
        return Instance(*args, path=flux_path, **fields)

    return make


@pytest.fixture
def stand_in() -> str:
    """A PATH whose `flux` is the stand-in: enough of Flux to run start.sh, without forming an instance."""
    return f"{Path(__file__).parent / 'stand_in'}:{os.environ['PATH']}"
