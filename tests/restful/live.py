"""The server as it is delivered, as the initial program of a real Flux instance on this machine."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from kueue_flux import restful
from kueue_flux.restful import settings
from tests.restful.conftest import TOKEN, client

PATIENCE = 120.0
"""Seconds that anything may take on a machine that is busy with other things."""


def deliver(directory: Path) -> Path:
    """Put the server's files where a MiniCluster would."""
    directory.mkdir()
    for name, text in restful.files().items():
        (directory / name).write_text(text)
    return directory


def until(true: Callable[[], Any], what: Callable[[], str] = str) -> Any:
    """Wait for something to become true; what it then is."""
    end = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < end, f"it did not happen: {what()}"
        time.sleep(0.02)
    return found


class Live:
    """Two brokers, and the server.

    Args:
        path: A PATH with Flux.
        token: The token; None turns authentication off.
        env: Further environment of the server.
    """

    def __init__(self, path: str, token: str | None = TOKEN, **env: str) -> None:
        # not pytest's own directory: a socket's path may have 107 bytes at most
        self.directory = Path(tempfile.mkdtemp(prefix="kf-"))
        self.workdir = self.directory / "work"
        self.workdir.mkdir()
        self.files = deliver(self.directory / "restful")
        token_file = self.directory / "token"
        token_file.write_text(f"{token}\n")
        self.env = {
            "PATH": path,
            "HOME": "/",
            "TMPDIR": str(self.directory),
            settings.ENV_HOST: "127.0.0.1",
            settings.ENV_PORT: "0",
            settings.ENV_TOKEN_FILE: str(token_file),
            settings.ENV_REQUIRE_AUTH: "0" if token is None else "1",
            **env,
        }

    def __enter__(self) -> "Live":
        note = 'echo $$ >"$1"; echo "$FLUX_URI" >"$2"; shift 2; exec "$@"'
        words = ["sh", "-c", note, "sh", str(self.directory / "pid"), str(self.directory / "uri")]
        with (self.directory / "stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                ["flux", "start", "-s2", *words, "flux", "python", str(self.files)],
                env=self.env,
                cwd=self.workdir,
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
        try:
            port = until(lambda: self.process.poll() is not None or self._port(), self.stderr)
            assert isinstance(port, str), self.stderr()
            self.url = f"http://127.0.0.1:{port}"
            self.http = client(self.url, headers={"Authorization": f"Bearer {TOKEN}"})
            self.get, self.post = self.http.get, self.http.post
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is not None:
            error.add_note(self.stderr()[-3000:])
        self.http.close()
        self._end()

    def _end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pid in self.leftovers():  # initial program and jobs are in process groups of their own
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _port(self) -> str | None:
        found = re.search(r"serving on port (\d+)", self.stderr())
        return found and found[1]

    @property
    def pid(self) -> int:
        """Of the server."""
        return int((self.directory / "pid").read_text())

    def leftovers(self) -> list[int]:
        """Processes that were started by this instance, zombies aside."""
        mine, found = f"TMPDIR={self.directory}".encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):  # it ended meanwhile, or is not ours
                    if mine in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    def stderr(self) -> str:
        return (self.directory / "stderr").read_text(errors="replace")

    def flux(self, *words: str) -> str:
        """What a flux command prints that is run against the instance."""
        env = {**self.env, "FLUX_URI": (self.directory / "uri").read_text().strip()}
        done = subprocess.run(["flux", *words], env=env, capture_output=True, text=True, timeout=PATIENCE, check=True)
        return done.stdout

    def submit(self, *command: str, **fields: Any) -> int:
        """Submit a job; its id."""
        answer = self.post("/v1/jobs/submit", json={"command": list(command), **fields})
        assert answer.status_code == 200, answer.text
        return int(answer.json()["id"])

    def info(self, jobid: int | str) -> dict[str, Any]:
        return dict(self.get(f"/v1/jobs/{jobid}").json())

    def ended(self, jobid: int) -> dict[str, Any]:
        """The job, once it has ended."""
        until(lambda: self.info(jobid)["state"] == "INACTIVE", lambda: str(self.info(jobid)))
        return self.info(jobid)

    def output(self, jobid: int) -> list[str]:
        """The output of a job, when it has ended."""
        self.ended(jobid)
        answer: httpx.Response = self.get(f"/v1/jobs/{jobid}/output")
        return list(answer.json()["Output"])
