"""A few calls to a Kubernetes API server, with manifests as plain dicts.

What brings a cluster up, the tests and the benchmark apply manifests of any kind, some of which the cluster
did not know a moment before. No generated model serves for that, and a discovery cache on disk (as the
dynamic client of `kubernetes` keeps) would outlive a cluster that lives for one test run.
"""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from pathlib import Path
from typing import Any

import httpx
import yaml

from kueue_flux.devcluster.pki import KeyPair, write_private

Manifest = dict[str, Any]

JSON = "application/json"
APPLY = "application/apply-patch+yaml"  # JSON is YAML
MERGE = "application/merge-patch+json"
FIELD_MANAGER = "kueue-flux-dev"


class ApiError(Exception):
    """The API server refused a request.

    Args:
        request: method and path.
        status: HTTP status code.
        body: what it answered, as text.
    """

    def __init__(self, request: str, status: int, body: str) -> None:
        self.status = status
        self.body = body
        try:
            answer = json.loads(body)
            self.reason: str = answer.get("reason", "")
            self.message: str = answer.get("message", body)
        except (ValueError, AttributeError):
            self.reason, self.message = "", body
        super().__init__(f"{request}: {status} {self.reason}: {self.message.strip()}")


class KubernetesApi:
    """An API server as seen by one user. Safe to use from several threads.

    Every method raises `ApiError` where the server refuses, `httpx.TransportError` where it does not answer.

    Args:
        kubeconfig: how to reach it, and as whom; its certificates embedded.
        timeout: seconds for a request.
    """

    def __init__(self, kubeconfig: Path, *, timeout: float = 30) -> None:
        server, context = _connection(yaml.safe_load(kubeconfig.read_text()))
        self.server = server
        self._http = httpx.Client(base_url=server, verify=context, timeout=timeout, trust_env=False)
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        body: Manifest | list[Any] | None = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = JSON,
    ) -> Manifest:
        """One request for JSON.

        Args:
            method: HTTP method.
            path: from `/api` or `/apis` on.
            body: sent as JSON.
            params: query parameters.
            content_type: of the body; the kind of patch for PATCH.
        """
        answer: Manifest = json.loads(self.text(method, path, body, params=params, content_type=content_type))
        return answer

    def text(
        self,
        method: str,
        path: str,
        body: Manifest | list[Any] | None = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = JSON,
    ) -> str:
        """One request for text, such as `/metrics` or `/readyz`; see `request`."""
        response = self._http.request(
            method,
            path,
            content=None if body is None else json.dumps(body),
            params=params,
            headers={"Content-Type": content_type, "Accept": f"{JSON}, */*;q=0.5"},
        )
        if response.is_error:
            raise ApiError(f"{method} {path}", response.status_code, response.text)
        return response.text

    def answers(self, path: str) -> bool:
        """Whether a GET of this path succeeds, for instance `/readyz`; False while nothing listens."""
        try:
            self.text("GET", path)
        except (ApiError, httpx.TransportError):
            return False
        return True

    def path(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
    ) -> str:
        """The path of an object or a collection.

        Args:
            api_version: `v1` or `group/version`.
            kind: for example `Job`.
            namespace: of a namespaced kind; None for a collection means all namespaces.
            name: of one object.
            subresource: for example `status`.

        Raises:
            LookupError: the server does not know the kind (yet: a new CRD takes a moment).
        """
        plural, namespaced = self._resource(api_version, kind)
        words = ["api" if api_version == "v1" else "apis", api_version]
        if namespaced and namespace:
            words += ["namespaces", namespace]
        words += [word for word in (plural, name, subresource) if word]
        return "/" + "/".join(words)

    def path_of(self, manifest: Manifest, subresource: str | None = None) -> str:
        """The path of the object that a manifest describes."""
        metadata = manifest["metadata"]
        return self.path(
            manifest["apiVersion"],
            manifest["kind"],
            metadata.get("namespace"),
            metadata["name"],
            subresource,
        )

    def apply(self, manifest: Manifest, *, manager: str = FIELD_MANAGER, subresource: str | None = None) -> Manifest:
        """Server-side apply, taking over fields that others own.

        Args:
            manifest: what to apply.
            manager: the field manager.
            subresource: for example `status`.

        Returns:
            The object as the server has it now.
        """
        params = {"fieldManager": manager, "force": "true"}
        path = self.path_of(manifest, subresource)
        return self.request("PATCH", path, manifest, params=params, content_type=APPLY)

    def create(self, manifest: Manifest) -> Manifest:
        """Create an object (`metadata.generateName` works) and return it."""
        namespace = manifest["metadata"].get("namespace")
        path = self.path(manifest["apiVersion"], manifest["kind"], namespace)
        return self.request("POST", path, manifest, params={"fieldManager": FIELD_MANAGER})

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Manifest:
        """Read one object."""
        return self.request("GET", self.path(api_version, kind, namespace, name))

    def find(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Manifest | None:
        """Read one object; None where there is none."""
        try:
            return self.get(api_version, kind, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, api_version: str, kind: str, namespace: str | None = None, *, labels: str = "") -> list[Manifest]:
        """Read all objects of a kind, of one namespace or of all.

        Args:
            api_version: `v1` or `group/version`.
            kind: for example `Pod`.
            namespace: None for all.
            labels: a label selector.
        """
        params = {"labelSelector": labels} if labels else None
        items: list[Manifest] = self.request("GET", self.path(api_version, kind, namespace), params=params)["items"]
        return [{"apiVersion": api_version, "kind": kind, **item} for item in items]

    def patch(self, manifest: Manifest, change: Manifest, *, subresource: str | None = None) -> Manifest:
        """Merge a change into an object (RFC 7396: null deletes, lists are replaced) and return it."""
        return self.request("PATCH", self.path_of(manifest, subresource), change, content_type=MERGE)

    def delete(self, manifest: Manifest, *, propagation: str = "Background") -> None:
        """Delete an object; one that is gone already is no error.

        Args:
            manifest: it, or as much of it as names it.
            propagation: `Background`, `Foreground` or `Orphan`.
        """
        try:
            self.request("DELETE", self.path_of(manifest), {"propagationPolicy": propagation})
        except ApiError as error:
            if error.status != 404:
                raise

    def _resource(self, api_version: str, kind: str) -> tuple[str, bool]:
        if (api_version, kind) not in self._resources:
            root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
            try:
                found = self.request("GET", root)["resources"]
            except ApiError as error:
                if error.status != 404:
                    raise
                found = []
            for item in found:
                if "/" not in item["name"]:  # else a subresource
                    self._resources[api_version, item["kind"]] = (item["name"], item["namespaced"])
        try:
            return self._resources[api_version, kind]
        except KeyError:
            raise LookupError(f"the API server has no {kind} in {api_version}") from None


def load_yaml(text: str) -> Manifest:
    """One YAML document, read by libyaml where PyYAML has it: large CRDs take a second without."""
    loaded: Manifest = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe
    return loaded


def kubeconfig(server: str, authority: bytes, user: str, pair: KeyPair) -> Manifest:
    """A kubeconfig that needs no other file.

    Args:
        server: URL.
        authority: the certificate that signed the server's, PEM.
        user: what to call the user in the file.
        pair: the user's certificate and key.
    """

    def encoded(content: bytes) -> str:
        return base64.b64encode(content).decode()

    credentials = {
        "client-certificate-data": encoded(pair.certificate),
        "client-key-data": encoded(pair.key),
    }
    cluster = {"server": server, "certificate-authority-data": encoded(authority)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kueue-flux", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "kueue-flux", "context": {"cluster": "kueue-flux", "user": user}}],
        "current-context": "kueue-flux",
    }


def _connection(config: Manifest) -> tuple[str, ssl.SSLContext]:
    def named(section: str, name: str) -> Manifest:
        entry: Manifest = next(item for item in config[section] if item["name"] == name)
        return entry

    context = named("contexts", config["current-context"])["context"]
    cluster = named("clusters", context["cluster"])["cluster"]
    user = named("users", context["user"])["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    tls = ssl.create_default_context(cadata=authority)
    with tempfile.TemporaryDirectory() as directory:  # OpenSSL reads a client's key from a file only
        pem = Path(directory) / "client.pem"
        write_private(
            pem,
            base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]),
        )
        tls.load_cert_chain(pem)
    return cluster["server"], tls
