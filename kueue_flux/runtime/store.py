"""What the API server holds, as last seen: the only thing that a reconcile reads.

Two write here: the reflector, and whoever just wrote an object and puts the server's answer here at once, so
that the next reconcile does not act on the past (and, say, create a thing twice). The two race. What settles
every race is `position`, the resourceVersion up to which the reflector has seen everything: an answer at or
below it is no news (the object has been seen since, or has been deleted since), an answer above it is. So
nothing goes back to an older version, and nothing that was deleted comes back; there are no tombstones to
keep and none to expire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import structlog

from kueue_flux.runtime.resource import Key, Object, key_of, version_of

log = structlog.get_logger(__name__)

Index = Callable[[Object], Iterable[str]]
"""The values under which an object is found in an index."""
Subscriber = Callable[[Object | None, Object | None], None]
"""Called with (old, new): old is None for a new object, new is None for a deleted one."""
Transform = Callable[[Object], Object]


def owners(obj: Object) -> Iterable[str]:
    """uids of all owners of an object: the index "owner"."""
    return (reference["uid"] for reference in obj["metadata"].get("ownerReferences", ()))


def strip(obj: Object) -> Object:
    """The least transform: drop what only kubectl and server-side apply read, often half of an object."""
    metadata = obj["metadata"]
    metadata.pop("managedFields", None)
    if annotations := metadata.get("annotations"):
        annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    return obj


class Store:
    """Objects of one resource type by (namespace, name), with indexes.

    The objects are shared, not copied: read only.

    Args:
        indexes: further index functions by name; "owner" (all ownerReferences' uids) is always there.
        transform: applied to every object before it is kept; drop what is not used here. It may change its
            argument, and must keep metadata's name, namespace, uid, resourceVersion and ownerReferences.
    """

    def __init__(self, indexes: Mapping[str, Index] | None = None, transform: Transform = strip) -> None:
        self._indexes: dict[str, Index] = {"owner": owners, **(indexes or {})}
        self._transform = transform
        self._objects: dict[Key, Object] = {}
        self._indexed: dict[str, dict[str, set[Key]]] = {name: {} for name in self._indexes}
        self._subscribers: list[Subscriber] = []
        self._position = 0

    @property
    def position(self) -> int:
        """resourceVersion up to which everything has been seen here."""
        return self._position

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def get(self, namespace: str, name: str) -> Object | None:
        """The object, or None."""
        return self._objects.get((namespace, name))

    def by_index(self, index: str, value: str) -> list[Object]:
        """Objects found under a value of an index, ordered by (namespace, name).

        Raises:
            KeyError: there is no such index.
        """
        return [self._objects[key] for key in sorted(self._indexed[index].get(value, ()))]

    def owned_by(self, uid: str) -> list[Object]:
        """Objects that have the object with this uid among their owners."""
        return self.by_index("owner", uid)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber(old, new)` after every change; it must not block."""
        self._subscribers.append(subscriber)

    def put(self, obj: Object) -> bool:
        """Keep the server's answer to an own write, ahead of the watch.

        Args:
            obj: as answered; it must match the reflector's selectors, or nobody will ever delete it here.

        Returns:
            Whether it was news; False when this version has been seen, was overtaken, or is deleted by now.
        """
        return version_of(obj) > self._position and self._keep(key_of(obj), obj)

    def observe(self, obj: Object) -> bool:
        """Keep an added or modified object from a watch. Returns whether it was news."""
        news = self._keep(key_of(obj), obj)
        self.advance(version_of(obj))
        return news

    def delete(self, obj: Object) -> bool:
        """Drop an object of which a watch says that it is gone; its resourceVersion is that of the deletion.

        Returns:
            Whether it was news; False when a newer incarnation already lives under the same name.
        """
        key, version = key_of(obj), version_of(obj)
        self.advance(version)
        current = self._objects.get(key)
        if current is None or version_of(current) > version:
            return False
        self._set(key, current, None)
        return True

    def advance(self, version: int) -> None:
        """Everything up to this resourceVersion has been seen (a bookmark says so)."""
        self._position = max(self._position, version)

    def page(self, objects: Iterable[Object], version: int) -> list[Key]:
        """Keep a page of a consistent list; `complete` must follow the last one.

        Args:
            objects: the page's objects.
            version: the list's resourceVersion. One below our own position means that the server went back in
                time (restored from a backup): then the list wins, even over higher versions.

        Returns:
            The objects' keys.
        """
        restored = version < self._position
        keys = []
        for obj in objects:
            keys.append(key_of(obj))
            self._keep(keys[-1], obj, even_older=restored)
        return keys

    def complete(self, listed: set[Key], version: int) -> None:
        """A list is complete: delete what it lacks.

        Objects above the list's version stay: they were written while the list was on its way.

        Args:
            listed: keys of all objects of all pages.
            version: the list's resourceVersion.
        """
        restored = version < self._position
        for key, obj in list(self._objects.items()):
            if key not in listed and (restored or version_of(obj) <= version):
                self._set(key, obj, None)
        self._position = version

    def clear(self) -> None:
        """Everything is gone, and so is the server's count of versions (the resource type itself was removed)."""
        for key, obj in list(self._objects.items()):
            self._set(key, obj, None)
        self._position = 0

    def _keep(self, key: Key, obj: Object, even_older: bool = False) -> bool:
        current = self._objects.get(key)
        if current is not None:
            have, got = version_of(current), version_of(obj)
            if have == got or (have > got and not even_older):
                return False
        self._set(key, current, self._transform(obj))
        return True

    def _set(self, key: Key, old: Object | None, new: Object | None) -> None:
        changes = [
            (self._indexed[name], set(index(old)) if old else set(), set(index(new)) if new else set())
            for name, index in self._indexes.items()
        ]  # first, so that an index function that fails leaves everything as it was
        if new is None:
            del self._objects[key]
        else:
            self._objects[key] = new
        for entries, before, after in changes:
            if before != after:
                _reindex(entries, key, before, after)
        for subscriber in self._subscribers:
            try:
                subscriber(old, new)
            except Exception:  # one subscriber's bug must not cost the others their event, nor stop the watch
                log.exception("a store's subscriber failed", key=key)


def _reindex(entries: dict[str, set[Key]], key: Key, before: set[str], after: set[str]) -> None:
    for value in before - after:
        keys = entries[value]
        keys.discard(key)
        if not keys:
            del entries[value]
    for value in after - before:
        entries.setdefault(value, set()).add(key)
