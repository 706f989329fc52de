"""Service and NetworkPolicy: names for the brokers, and who may reach them."""

import tomllib

import pytest

from kueue_flux.kueue.workload import Admission
from kueue_flux.manifests.common import pod_labels
from kueue_flux.manifests.config_map import config_map
from kueue_flux.manifests.network_policy import network_policy
from kueue_flux.manifests.pod import pod_template
from kueue_flux.manifests.service import service, sidecar_services
from tests.builders import minicluster


def test_the_service_is_headless_and_answers_before_pods_are_ready() -> None:
    mc = minicluster().build()
    assert service(mc)["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": pod_labels(mc),
        "ports": [{"name": "flux-broker", "port": 8050, "protocol": "TCP"}],
    }


def test_a_minimal_service_is_the_lead_s() -> None:
    mc = minicluster().flux(minimalService=True).build()
    assert service(mc)["spec"]["selector"] == {**pod_labels(mc), "batch.kubernetes.io/job-completion-index": "0"}


def test_the_service_is_the_pods_subdomain() -> None:
    for mc in (minicluster().build(), minicluster().network(headlessName="net").build()):
        assert service(mc)["metadata"]["name"] == pod_template(mc)["spec"]["subdomain"] == mc.headless_name


def test_only_the_miniclusters_own_pods_reach_its_pods() -> None:
    mc = minicluster().build()
    own = {"matchLabels": pod_labels(mc)}
    assert network_policy(mc)["spec"] == {
        "podSelector": own,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": own}]}],
    }
    assert network_policy(mc)["metadata"]["name"] == "hello"


def test_a_declared_port_is_open_to_the_namespace() -> None:
    mc = minicluster().container(ports=[9000]).sidecar("web", ports=[80, 9000]).build()
    assert network_policy(mc)["spec"]["ingress"][1:] == [
        {
            "from": [{"podSelector": {}}],
            "ports": [{"port": 80, "protocol": "TCP"}, {"port": 9000, "protocol": "TCP"}],
        }
    ]


def test_a_sidecar_with_ports_has_a_service_of_its_name() -> None:
    mc = minicluster().container(ports=[9000]).sidecar("web", ports=[80]).sidecar("log").build()
    (built,) = sidecar_services(mc)
    assert built["metadata"]["name"] == "web"
    assert built["spec"] == {
        "selector": {**pod_labels(mc), "batch.kubernetes.io/job-name": "hello"},
        "ports": [{"name": "port-80", "port": 80, "protocol": "TCP"}],
    }


def test_pods_of_another_minicluster_of_the_name_are_not_selected() -> None:
    labels = pod_template(minicluster().build())["metadata"]["labels"]
    former = pod_template(minicluster().meta(uid="former").build())["metadata"]["labels"]
    selector = service(minicluster().build())["spec"]["selector"]
    assert selector.items() <= labels.items()
    assert not selector.items() <= former.items()


def test_the_node_s_network() -> None:
    mc = minicluster().network(hostNetwork=True).container(ports=[80]).sidecar("web", ports=[81]).build()
    spec = pod_template(mc)["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    (flux,), (*_, web) = spec["containers"], spec["initContainers"]
    broker = {"containerPort": 8050, "hostPort": 8050}  # which keeps two of them from one node
    assert flux["ports"] == [{"containerPort": 80, "hostPort": 80}, broker]
    assert web["ports"] == [{"containerPort": 81, "hostPort": 81}]
    assert {"name": "KUEUE_FLUX_HOST_PREFIX", "value": "hello-"} in flux["env"]
    data = config_map(mc, Admission("a", 2), "example.org")["data"]
    bootstrap = tomllib.loads(data["broker.toml"])["bootstrap"]
    assert bootstrap["default_bind"] == "tcp://*:%p"
    # DNS has the pods' names all the same, with the nodes' addresses
    assert bootstrap["default_connect"] == "tcp://%h.hello.team.svc.example.org:%p"
    assert bootstrap["hosts"] == [{"host": "hello-[0-1]"}]
    assert '"nodelist": ["hello-[0-1]"]' in data["R.json"]


@pytest.mark.parametrize("field", ["hostNetwork", "dnsPolicy"])
def test_a_network_of_their_own(field: str) -> None:
    mc = minicluster().container(ports=[80]).build()
    spec = pod_template(mc)["spec"]
    assert field not in spec
    assert spec["containers"][0]["ports"] == [{"containerPort": 80}]
    assert "KUEUE_FLUX_HOST_PREFIX" not in {variable["name"] for variable in spec["containers"][0]["env"]}
