from typing import Any

import pytest

from kueue_flux.api.problems import InvalidMiniCluster
from kueue_flux.controller import parsed
from kueue_flux.controller.parsed import Parsed
from kueue_flux.runtime.resource import Object


def minicluster(uid: str = "u", **metadata: Any) -> Object:
    return {
        "metadata": {"name": "mc", "namespace": "ns", "uid": uid, "generation": 1, **metadata},
        "spec": {"size": 2, "containers": [{"image": "i", "command": "hostname"}]},
    }


def test_the_same_specification_is_parsed_once():
    known = Parsed()
    assert known.get(minicluster(resourceVersion="1")) is known.get(minicluster(resourceVersion="2"))


def test_another_generation_another_label_or_another_minicluster_is_parsed_anew():
    known = Parsed()
    first = known.get(minicluster())
    edited = minicluster(generation=2)
    edited["spec"]["size"] = 3
    assert known.get(edited).spec.size == 3
    assert known.get(minicluster(generation=3, labels={"kueue.x-k8s.io/queue-name": "q"})).queue == "q"
    assert known.get(minicluster(uid="v")) is not first


def test_what_cannot_be_run_is_refused_each_time():
    known = Parsed()
    bad = minicluster()
    bad["spec"]["size"] = 0
    for _ in range(2):
        with pytest.raises(InvalidMiniCluster):
            known.get(bad)


def test_only_the_last_ones_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parsed, "KEPT", 2)
    parses: list[str] = []
    parse = parsed.MiniCluster.from_object
    monkeypatch.setattr(
        parsed.MiniCluster, "from_object", lambda obj: parses.append(obj["metadata"]["uid"]) or parse(obj)
    )
    known = Parsed()
    for uid in ("a", "b", "a", "c", "a", "b"):
        known.get(minicluster(uid))
    assert parses == ["a", "b", "c", "b"]
