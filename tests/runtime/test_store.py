"""The store: nothing goes back in time, nothing deleted comes back, indexes follow."""

from typing import Any

import pytest

from kueue_flux.runtime.resource import Object
from kueue_flux.runtime.store import Store, strip


def obj(name: str, version: int, uid: str = "", **metadata: Any) -> Object:
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "resourceVersion": str(version),
            "uid": uid or f"uid-{name}",
            **metadata,
        }
    }


def owned(name: str, version: int, *owners: str) -> Object:
    return obj(name, version, ownerReferences=[{"uid": owner} for owner in owners])


def names(objects: list[Object]) -> list[str]:
    return [o["metadata"]["name"] for o in objects]


@pytest.fixture
def store() -> Store:
    """Synced at version 100 with a@50 and b@60."""
    store = Store()
    store.complete(set(store.page([obj("a", 50), obj("b", 60)], 100)), 100)
    return store


def version(store: Store, name: str) -> int | None:
    found = store.get("ns", name)
    return int(found["metadata"]["resourceVersion"]) if found else None


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        pytest.param([("put", 110)], 110, id="an own write is there at once"),
        pytest.param([("put", 110), ("observe", 110)], 110, id="its echo changes nothing"),
        pytest.param([("put", 110), ("observe", 105)], 110, id="an event from before the own write"),
        pytest.param([("observe", 120), ("put", 110)], 120, id="an answer that comes after a newer event"),
        pytest.param([("put", 110), ("put", 105)], 110, id="two answers in the wrong order"),
        pytest.param([("delete", 120), ("put", 110)], None, id="an answer that comes after the deletion"),
        pytest.param([("put", 110), ("delete", 120)], None, id="deleted after an own write"),
        pytest.param([("delete", 120), ("put", 130)], 130, id="made anew by an own write"),
        pytest.param([("put", 130), ("delete", 120)], 130, id="deletion of the incarnation before"),
        pytest.param([("delete", 120), ("observe", 130)], 130, id="made anew by somebody else"),
        pytest.param([("observe", 110), ("observe", 110)], 110, id="an event twice"),
    ],
)
def test_races(store: Store, writes: list[tuple[str, int]], expected: int | None) -> None:
    for how, at in writes:
        getattr(store, how)(obj("a", at))
    assert version(store, "a") == expected


def test_versions_compare_as_numbers(store: Store) -> None:
    store.observe(obj("a", 999))
    assert store.observe(obj("a", 1000))
    assert version(store, "a") == 1000


def test_a_version_that_is_no_number_is_refused(store: Store) -> None:
    odd = obj("a", 1)
    odd["metadata"]["resourceVersion"] = "opaque"
    with pytest.raises(ValueError, match="opaque"):
        store.observe(odd)
    assert version(store, "a") == 50


def test_put_of_what_was_made_and_deleted_between_two_lists(store: Store) -> None:
    """No event ever told of it, so only the position can know."""
    store.complete(set(store.page([obj("a", 50)], 200)), 200)
    assert not store.put(obj("new", 150))
    assert store.get("ns", "new") is None


def test_a_bookmark_counts_as_seen(store: Store) -> None:
    store.advance(300)
    assert not store.put(obj("new", 290))
    assert store.put(obj("new", 310))


def test_a_list_deletes_what_it_lacks_but_not_what_is_newer(store: Store) -> None:
    store.put(obj("mine", 250))
    gone = []
    store.subscribe(lambda old, new: gone.append(old["metadata"]["name"]) if old and not new else None)
    store.complete(set(store.page([obj("b", 60)], 200)), 200)
    assert sorted(names(list(store))) == ["b", "mine"]
    assert gone == ["a"]
    assert store.position == 200


def test_a_list_behind_us_means_a_restored_server(store: Store) -> None:
    store.observe(obj("a", 150))
    store.observe(obj("c", 160))
    store.complete(set(store.page([obj("a", 40), obj("b", 60)], 90)), 90)
    assert sorted(names(list(store))) == ["a", "b"]
    assert version(store, "a") == 40
    assert store.put(obj("c", 91)), "versions count from the restored server's"


def test_owner_index_follows() -> None:
    store = Store()
    store.observe(owned("p", 1, "job-1"))
    store.observe(owned("q", 2, "job-1", "other"))
    assert names(store.owned_by("job-1")) == ["p", "q"]
    store.observe(owned("p", 3, "job-2"))
    assert names(store.owned_by("job-1")) == ["q"]
    assert names(store.owned_by("job-2")) == ["p"]
    store.delete(owned("q", 4))
    assert store.owned_by("job-1") == store.owned_by("other") == []
    assert store._indexed["owner"].keys() == {"job-2"}, "empty entries must not pile up"


def test_own_indexes() -> None:
    store = Store(indexes={"node": lambda o: [o["spec"]["node"]] if "spec" in o else []})
    store.observe({**obj("p", 1), "spec": {"node": "n1"}})
    assert names(store.by_index("node", "n1")) == ["p"]
    with pytest.raises(KeyError):
        store.by_index("colour", "red")


def test_an_index_that_fails_changes_nothing() -> None:
    store = Store(indexes={"node": lambda o: [o["spec"]["node"]]})
    store.observe({**obj("p", 1), "spec": {"node": "n1"}})
    with pytest.raises(KeyError):
        store.observe(obj("p", 2))
    assert version(store, "p") == 1
    assert names(store.by_index("node", "n1")) == ["p"]


def test_subscribers_hear_old_and_new_and_one_cannot_harm_the_other(store: Store) -> None:
    heard: list[tuple[Any, Any]] = []

    def broken(old: Object | None, new: Object | None) -> None:
        raise RuntimeError("bug")

    store.subscribe(broken)
    store.subscribe(lambda old, new: heard.append((old, new)))
    store.observe(obj("c", 110))
    store.observe(obj("c", 111))
    store.observe(obj("c", 111))
    store.delete(obj("c", 112))
    assert [(bool(old), bool(new)) for old, new in heard] == [(False, True), (True, True), (True, False)]


def test_transform_strips_what_is_written_and_what_is_seen() -> None:
    def noisy(name: str, version: int) -> Object:
        annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"}
        return obj(name, version, managedFields=[{"manager": "x"}], annotations=annotations)

    store = Store()
    store.observe(noisy("a", 1))
    store.put(noisy("b", 2))
    for kept in store:
        assert "managedFields" not in kept["metadata"]
        assert kept["metadata"]["annotations"] == {"kept": "yes"}
    assert strip(obj("c", 3)) == obj("c", 3)


def test_clear(store: Store) -> None:
    store.clear()
    assert len(store) == 0
    assert store.position == 0
