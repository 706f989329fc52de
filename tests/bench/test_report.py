from bench import report
from tests.bench import records


def test_everything_is_shown():
    text = report.text(records.results(scale=records.scale(), pods=records.pods(0.5, 2.0)))
    words = [line.split() for line in text.splitlines()]
    for line in (
        "admitted /s 11.0 9.00 0.82 10.0 12.0 9.00 9.00",
        "PUT endpoints 0.00 5.00",
        "one at a time in etcd 10.0 10.0 10.0 10.0",
        "200 finished MiniClusters 60 none 0.00 0.00 0.05",
        "1000 waiting 90.0 95.0 10.0 170",
        "containers up to Flux RUN 2 1.25 0.50 2.00 1.50",
        "admitted a second >= 0.95 of plain Jobs, quota for all 0.82 NOT MET",
    ):
        assert line.split() in words, text
    assert text.splitlines()[0] == "2026-01-02T03:04:05+00:00: 2 cores, 8 GiB, Linux 6.1, load 0.1 at the start"
    assert text.rstrip().endswith("NOT MET")


def test_a_part_that_was_not_run_is_left_out():
    text = report.text(records.results(pods=records.pods(0.5)))
    assert "Stages of 1 runs of 4 brokers" in text
    assert "plain Jobs" not in text
