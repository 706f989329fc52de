"""TOML as it is written: what is read back is what was given."""

import tomllib
from datetime import date, datetime, time, timedelta, timezone

import pytest

from kueue_flux.flux import toml

DOCUMENTS = [
    {},
    {"a": {}},
    {"a": {"b": 1, "c": True, "d": False, "e": -2.5, "f": 1e300, "g": "x"}},
    {"top": 1, "list": [1, 2], "table": {"key": "value"}},
    {"table": {"key": 1}, "after": 2},  # what is no table is written first
    {"queues": {"batch": {"requires": ["batch"]}, "debug": {"policy": {"limits": {"duration": "1h"}}}}},
    {"bootstrap": {"hosts": [{"host": "a[0-3]"}, {"host": "b", "bind": "tcp://eth0:%p"}]}},
    {"tables": [{"a": 1}, {"b": [{"c": {"d": []}}]}]},
    {"a b": {"c.d": 1, 'e"f': 2, "": 3, "g\n": 4}},
    {"s": {"quote": '"', "backslash": "\\", "lines": "a\nb\r\n", "nul": "\x00\x7f", "emoji": "\u00e9\U0001f600"}},
    {"t": {"d": date(2030, 1, 2), "t": time(1, 2, 3), "dt": datetime(2030, 1, 2, 3, 4, 5, 600)}},
    {"t": {"z": datetime(2030, 1, 2, tzinfo=timezone(timedelta(hours=2)))}},
    {"big": {"int": 2**63 - 1, "inf": float("inf")}},
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_what_is_written_is_read_back(document):
    assert tomllib.loads(toml.dumps(document)) == document


def test_how_it_looks():
    document = {"bootstrap": {"port": 8050, "hosts": [{"host": "a", "bind": "b"}]}, "x": {"y": [1, 2]}}
    assert toml.dumps(document) == (
        '[bootstrap]\nport = 8050\nhosts = [\n    { host = "a", bind = "b" },\n]\n\n[x]\ny = [1, 2]\n'
    )


def test_what_toml_does_not_have():
    with pytest.raises(TypeError, match="NoneType"):
        toml.dumps({"a": {"b": None}})
