"""How a kind of object is addressed, and the few fields of any object that the runtime itself reads.

Objects are plain dicts as they came off the wire: parsing them into models costs more than everything else on
the hot path together, and the runtime needs four fields of metadata.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Object = dict[str, Any]
"""One Kubernetes object as JSON. Objects from a store are shared: never change them."""

Key = tuple[str, str]
"""(namespace, name); the namespace is "" for a cluster-scoped object."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource type of the API.

    Args:
        group: API group; "" for the core group.
        version: API version, such as "v1".
        plural: name in the URL, such as "jobs".
        kind: name in the object, such as "Job".
        namespaced: False for cluster-scoped types.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The object's apiVersion, such as "batch/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of the collection, of one object, or of one object's subresource.

        Args:
            namespace: None or "" addresses all namespaces (or a cluster-scoped type).
            name: object name; None addresses the collection.
            subresource: such as "status"; needs a name.

        Raises:
            ValueError: a namespaced object without namespace, or a subresource without name.
        """
        if name is not None and self.namespaced and not namespace:
            raise ValueError(f"{self.kind} {name} needs a namespace")
        if subresource is not None and name is None:
            raise ValueError(f"subresource {subresource} of {self.plural} needs a name")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource is not None:
            parts.append(subresource)
        return "/" + "/".join(quote(part, safe="") for part in parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def key_of(obj: Object) -> Key:
    """(namespace, name) of an object."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def text_of(key: Key) -> str:
    """A key as people write it, and as logs have it: `namespace/name`, or the name of a cluster-scoped object."""
    return "/".join(filter(None, key))


def version_of(obj: Object) -> int:
    """resourceVersion as a number, comparable within one resource type.

    Raises:
        ValueError: it is not a decimal number (some aggregated API servers; those cannot be cached here).

    Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
    """
    return int(obj["metadata"]["resourceVersion"])


def uid_of(obj: Object) -> str:
    """uid of an object; "" when the server did not give one."""
    uid: str = obj["metadata"].get("uid", "")
    return uid
