"""Workflow managers that submit jobs themselves: they run beside the server, not as a job that would take up cores."""

from __future__ import annotations

import logging
import subprocess
import threading
from contextlib import suppress

from .answers import failed
from .submission import Submission

log = logging.getLogger(__name__)

KNOWN = ("nextflow", "snakemake")
AT_ONCE = 16
STDERR = 2


class Launchers:
    """The workflow managers that run.

    Args:
        known: Names of programs that may be run so.
    """

    def __init__(self, known: tuple[str, ...] = KNOWN) -> None:
        self._known = known
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()

    def start(self, job: Submission) -> None:
        """Start one; its output goes to the server's stderr.

        Raises:
            Problem: 400 for a program that is not known or cannot be run, 503 when too many run already.
        """
        program = job.command[0]
        if program not in self._known:
            raise failed(400, f"{program} is not a known launcher. The launchers are: {', '.join(self._known)}")
        with self._lock:
            if len(self._running) >= AT_ONCE:
                raise failed(503, f"{AT_ONCE} launchers run already: wait for one to end")
            try:
                process = subprocess.Popen(
                    job.command,
                    cwd=job.workdir,
                    env=dict(job.env),
                    stdin=subprocess.DEVNULL,
                    stdout=STDERR,
                )
            except OSError as error:
                raise failed(400, f"{program} cannot be run on the lead node: {error.strerror}") from None
            self._running.add(process)
        threading.Thread(target=self._see_off, args=(process, program), daemon=True).start()

    def stop(self) -> None:
        """Tell all that run to end."""
        with self._lock:
            for process in self._running:
                with suppress(ProcessLookupError):  # it has just ended
                    process.terminate()

    def _see_off(self, process: subprocess.Popen[bytes], program: str) -> None:
        code = process.wait()
        with self._lock:
            self._running.discard(process)
        log.info("launcher %s ended with code %d", program, code)
