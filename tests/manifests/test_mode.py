"""What the lead is told to do, for each mode and each field that has a say in it."""

from typing import Any

import pytest

from kueue_flux.api.mode import Mode
from kueue_flux.manifests.mode import arguments, joined, settings, unescaped, user_files
from tests.builders import MiniClusterBuilder, minicluster

BATCH = ["/bin/sh", "/etc/flux/config/batch.sh", "submit"]
SCRIPT = ["/bin/sh", "-c", 'exec "$(command -v bash || echo /bin/sh)" "$0"', "/etc/flux/config/script"]


def commands(**fields: str) -> dict[str, Any]:
    return {"commands": fields}


@pytest.mark.parametrize(
    ("mc", "mode"),
    [
        (minicluster(), Mode.RUN),
        (minicluster().container(command="", **commands(script="date")), Mode.RUN),
        (minicluster().container(launcher=True), Mode.LAUNCHER),
        (minicluster().container(batch=True), Mode.BATCH),
        (minicluster().container(batch=True, batchRaw=True), Mode.BATCH),
        (minicluster().spec(interactive=True), Mode.INTERACTIVE),
        (minicluster().spec(interactive=True).container(command=""), Mode.INTERACTIVE),
        (minicluster().spec(interactive=True).container(batch=True), Mode.INTERACTIVE),
        (minicluster().container(command=""), Mode.RESTFUL),
    ],
)
def test_the_mode(mc: MiniClusterBuilder, mode: Mode) -> None:
    built = mc.build()
    assert (built.mode, built.mode.is_persistent) == (mode, mode in (Mode.INTERACTIVE, Mode.RESTFUL))
    assert settings(built)["KUEUE_FLUX_MODE"] == mode


@pytest.mark.parametrize(
    ("mc", "words", "counts_at"),
    [
        (minicluster(), ["flux", "run", "--", "hostname"], 2),
        (minicluster().command("-x --y"), ["flux", "run", "--", "-x", "--y"], 2),
        (minicluster().command("a | b"), ["flux", "run", "--", "/bin/sh", "-c", "a | b"], 2),
        (minicluster().flux(optionFlags="-o a=b -c 2"), ["flux", "run", "-o", "a=b", "-c", "2", "--", "hostname"], 2),
        (minicluster().logging(quiet=True), ["flux", "run", "--wait-event=start", "--", "hostname"], 2),
        (minicluster().logging(debug=True), ["flux", "run", "-vvv", "--", "hostname"], 2),
        (minicluster().container(command="", **commands(script="date")), ["flux", "run", "--", *SCRIPT], 2),
        (minicluster().container(**commands(prefix="time -p")), ["time", "-p", "flux", "run", "--", "hostname"], 4),
        (
            minicluster().flux(submitCommand="flux mini submit", optionFlags="-c 2").logging(quiet=True, debug=True),
            ["flux", "mini", "submit", "-vvv", "--quiet", "--watch", "-c", "2", "--", "hostname"],
            3,
        ),
        (minicluster().flux(submitCommand="my-run"), ["my-run", "--", "hostname"], 1),
        (minicluster().container(launcher=True, command="app 1"), ["app", "1"], None),
        (minicluster().container(launcher=True).flux(optionFlags="-c 2"), ["hostname"], None),
        (minicluster().container(launcher=True, **commands(prefix="time")), ["time", "hostname"], None),
        (minicluster().container(launcher=True, command="", **commands(script="date")), SCRIPT, None),
        (minicluster().container(batch=True), BATCH, 3),
        (minicluster().container(batch=True, **commands(prefix="time")), ["time", *BATCH], 4),
        (minicluster().container(batch=True).flux(optionFlags="-t 5m"), [*BATCH, "-t", "5m"], 3),
        (minicluster().spec(interactive=True), [], None),
        (minicluster().spec(interactive=True).command("a\nb"), [], None),
    ],
)
def test_the_arguments(mc: MiniClusterBuilder, words: list[str], counts_at: int | None) -> None:
    built = mc.build()
    found = arguments(built)
    assert (list(found.words), found.counts_at) == (words, counts_at)
    assert settings(built).get("KUEUE_FLUX_COUNTS_AT") == (None if counts_at is None else str(counts_at))


@pytest.mark.parametrize(
    ("mc", "more"),
    [
        (minicluster(), {}),
        (minicluster().flux(logLevel=0), {"LOG_LEVEL": "0"}),
        (minicluster().logging(quiet=True), {"QUIET": "1"}),
        (minicluster().logging(debug=True), {"DEBUG": "1"}),
        (minicluster().logging(strict=True), {"STRICT": "on"}),
        (minicluster().logging(strict=False), {"STRICT": "off"}),
        (minicluster().logging(timed=True), {"TIMED": "1"}),
        (minicluster().logging(zeromq=True), {"ZEROMQ": "1"}),
        (minicluster().flux(wrap="strace,-f"), {"WRAP": "strace,-f"}),
        (minicluster().container(logs="/data/out"), {"LOGS": "/data/out"}),
        (minicluster().view(mountPath="/opt/flux"), {"MOUNT": "/opt/flux"}),
        (minicluster().view(pythonPath="/opt/python"), {"PYTHON_PATH": "/opt/python"}),
        (minicluster().spec(archive={"path": "/data/a.tar.gz"}), {"ARCHIVE": "/data/a.tar.gz"}),
        (minicluster().flux(scheduler={"queuePolicy": "easy"}), {"QUEUE_POLICY": "easy"}),
        (minicluster().flux(completeWorkers=True), {"COMPLETE_WORKERS": "1"}),
        (minicluster().flux(rejoin=True), {"REJOIN": "1"}),
        (minicluster().flux(mungeSecret="key"), {"MUNGE": "/etc/flux/munge/munge.key"}),
        (
            minicluster().flux(scheduler={"simple": True}),
            {"FLUXION_RESOURCE_RC_NOOP": "1", "FLUXION_QMANAGER_RC_NOOP": "1"},
        ),
    ],
)
def test_the_settings(mc: MiniClusterBuilder, more: dict[str, str]) -> None:
    usual = {"MODE": "run", "COUNTS_AT": "2", "LOG_LEVEL": "6", "MOUNT": "/mnt/flux"}
    found = {name.removeprefix("KUEUE_FLUX_"): value for name, value in settings(mc.build()).items()}
    assert found == {**usual, **more}


NASTY = "echo $(id) `id`; exit 3 # it's\n"


@pytest.mark.parametrize(
    ("mc", "files"),
    [
        (minicluster(), {}),
        (minicluster().container(**commands(pre=" \n", post="")), {}),
        (
            minicluster().container(**commands(init="a", pre=NASTY, brokerPre="b", workerPre="c", post="d")),
            {"init": "a", "pre": NASTY, "broker-pre": "b", "worker-pre": "c", "post": "d"},
        ),
        (minicluster().container(batch=True, command="a \\\n  b\n\n# c\n"), {"batch-lines": "a    b\n\n# c\n"}),
        (minicluster().container(batch=True, batchRaw=True, command="a \\\n b"), {"batch-raw": "a \\\n b"}),
        (minicluster().container(command="", **commands(script="echo \\$A $B")), {"script": "echo $A $B"}),
        # a batch that is not run
        (minicluster().spec(interactive=True).container(batch=True, **commands(pre="a")), {"pre": "a"}),
    ],
)
def test_what_the_user_wrote_is_files(mc: MiniClusterBuilder, files: dict[str, str]) -> None:
    assert user_files(mc.build()) == files


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('echo "rank \\${FLUX_TASK_RANK}"', 'echo "rank ${FLUX_TASK_RANK}"'),
        ("echo ${FLUX_TASK_RANK}", "echo ${FLUX_TASK_RANK}"),
        ("\\`date\\`", "`date`"),
        (r"\\n \n \\\$a", r"\n \n \$a"),
        ("a \\\n b", "a  b"),
    ],
)
def test_a_script_is_read_as_the_flux_operator_s_here_document(text: str, read: str) -> None:
    assert unescaped(text) == read


def test_continued_lines_are_one() -> None:
    assert joined("a \\\n b\nc") == "a   b\nc"
