"""The Secret with the CURVE certificate: made anew for each admission, unless one is given."""

from datetime import datetime
from typing import Any

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.flux import layout
from kueue_flux.flux.certificate import given_certificate, new_certificate
from kueue_flux.kueue.workload import Admission
from kueue_flux.manifests.common import ADMISSION, certificate_name, metadata


def certificate_secret(mc: MiniCluster, admission: Admission, now: datetime) -> dict[str, Any]:
    """Build the Secret with the certificate that the specification gives, or a new one: no two of these are alike.

    It is not marked immutable, though it never changes: a kubelet keeps serving an immutable Secret
    from its cache for as long as any pod on the node refers to that name, even a finished one, so that
    after an eviction a new pod could get the certificate of the last admission
    (kubelet, watch_based_manager.go).
    """
    meta = metadata(mc, certificate_name(mc.name))
    meta["labels"][ADMISSION] = admission.id
    # A certificate without a hostname does not connect (Flux Operator design 3.4).
    given, hostname = mc.spec.flux.curve_cert, f"{mc.name}-0"
    certificate = given_certificate(given, hostname) if given else new_certificate(hostname, now=now)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "type": "Opaque",
        "stringData": {layout.CURVE_FILE: certificate.reveal()},
    }
