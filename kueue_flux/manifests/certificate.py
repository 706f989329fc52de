"""The Secret with the CURVE certificate, made anew for each admission."""

from datetime import datetime
from typing import Any

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.flux import layout
from kueue_flux.flux.certificate import new_certificate
from kueue_flux.kueue.workload import Admission
from kueue_flux.manifests.common import ADMISSION, certificate_name, metadata


def certificate_secret(mc: MiniCluster, admission: Admission, now: datetime) -> dict[str, Any]:
    """Build the Secret with a certificate of its own; two calls never give the same key.

    It is not marked immutable, though it never changes: a kubelet keeps serving an immutable Secret
    from its cache for as long as any pod on the node refers to that name, even a finished one, so that
    after an eviction a new pod could get the certificate of the last admission
    (kubelet, watch_based_manager.go).
    """
    meta = metadata(mc, certificate_name(mc.name))
    meta["labels"][ADMISSION] = admission.id
    # A certificate without a hostname does not connect (Flux Operator design 3.4).
    certificate = new_certificate(f"{mc.name}-0", now=now)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "type": "Opaque",
        "stringData": {layout.CURVE_FILE: certificate.reveal()},
    }
