"""The files of an admission: configuration sized by what was admitted, and a certificate that nobody sees."""

import json
import tomllib
from datetime import UTC, datetime
from typing import Any

import pytest

from kueue_flux.flux.certificate import new_certificate
from kueue_flux.flux.script import scripts
from kueue_flux.kueue.workload import Admission
from kueue_flux.manifests import after_admission, before_admission
from kueue_flux.manifests.certificate import certificate_secret
from kueue_flux.manifests.config_map import config_map
from tests.api import certificates
from tests.builders import MiniClusterBuilder, minicluster

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


def files(mc: MiniClusterBuilder, size: int = 4) -> dict[str, str]:
    return config_map(mc.build(), Admission("a1", size))["data"]


def broker(mc: MiniClusterBuilder, size: int = 4) -> dict[str, Any]:
    return tomllib.loads(files(mc, size)["broker.toml"])


def test_the_whole_config_map() -> None:
    built = config_map(minicluster().build(), Admission("a1", 4))
    data = built.pop("data")
    owners = built["metadata"].pop("ownerReferences")
    assert [owner["uid"] for owner in owners] == ["uid-hello"]
    assert built == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "hello-flux",
            "namespace": "team",
            "labels": {
                "app.kubernetes.io/managed-by": "kueue-flux",
                "flux-framework.org/minicluster": "hello",
                "flux-framework.org/admission": "a1",
            },
        },
    }
    toml = tomllib.loads(data.pop("broker.toml"))
    assert {table: toml[table] for table in ("bootstrap", "resource", "tbon", "access")} == {
        "bootstrap": {
            "curve_cert": "/run/flux/curve.cert",
            "default_port": 8050,
            "default_bind": "tcp://eth0:%p",
            "default_connect": "tcp://%h.hello.team.svc.cluster.local:%p",
            "hosts": [{"host": "hello-[0-3]"}],
        },
        "resource": {"path": "/etc/flux/config/R.json", "noverify": True},
        "tbon": {"connect_timeout": "5s"},
        "access": {"allow-root-owner": True},
    }
    assert json.loads(data.pop("R.json"))["execution"] == {
        "R_lite": [{"rank": "0-3", "children": {"core": "0"}}],
        "starttime": 0,
        "expiration": 0,
        "nodelist": ["hello-[0-3]"],
    }
    assert data == {**scripts(), "size": "4", "tasks": "4"}


@pytest.mark.parametrize(
    ("size", "tasks", "admitted", "hosts", "ranks", "cores", "tasks_left"),
    [
        (4, 4, 4, "hello-[0-3]", "0-3", "0", 4),
        (4, 4, 3, "hello-[0-2]", "0-2", "0", 3),
        (4, 4, 1, "hello-0", "0", "0", 1),
        (4, 8, 3, "hello-[0-2]", "0-2", "0-1", 6),
        (4, 7, 3, "hello-[0-2]", "0-2", "0-1", 5),  # 5 fit, 7 would never start
        (4, 1, 2, "hello-[0-1]", "0-1", "0", 1),
        (4, 0, 2, "hello-[0-1]", "0-1", "0", 0),
        (12, 12, 11, "hello-[0-10]", "0-10", "0", 11),
    ],
)
def test_partial_admission_scales_all_of_it(
    size: int, tasks: int, admitted: int, hosts: str, ranks: str, cores: str, tasks_left: int
) -> None:
    mc = minicluster().size(size, tasks)
    found = files(mc, admitted)
    resources = json.loads(found["R.json"])["execution"]
    assert broker(mc, admitted)["bootstrap"]["hosts"] == [{"host": hosts}]
    assert resources["nodelist"] == [hosts]
    assert resources["R_lite"] == [{"rank": ranks, "children": {"core": cores}}]
    assert (found["size"], found["tasks"]) == (str(admitted), str(tasks_left))


@pytest.mark.parametrize(
    ("admitted", "completed", "hosts", "count", "tasks"),
    [
        (4, {2}, "hello-[0-1,3]", "3", "3"),
        (4, {1, 2, 3}, "hello-0", "1", "1"),
        (2, {1, 3}, "hello-0", "1", "1"),
        (4, set(), "hello-[0-3]", "4", "4"),
    ],
)
def test_workers_that_have_completed_are_not_waited_for(
    admitted: int, completed: set[int], hosts: str, count: str, tasks: str
) -> None:
    admission = Admission("a1", admitted, completed=frozenset(completed))
    data = config_map(minicluster().flux(completeWorkers=True).build(), admission)["data"]
    assert tomllib.loads(data["broker.toml"])["bootstrap"]["hosts"] == [{"host": hosts}]
    assert json.loads(data["R.json"])["execution"]["nodelist"] == [hosts]
    assert json.loads(data["R.json"])["execution"]["R_lite"][0]["rank"] == (
        "0" if count == "1" else f"0-{int(count) - 1}"
    )
    assert (data["size"], data["tasks"]) == (count, tasks)


@pytest.mark.parametrize("tasks", [1, 3, 4, 5, 7, 8, 13])
@pytest.mark.parametrize("admitted", [1, 2, 3, 4])
def test_the_tasks_fit_what_was_admitted(tasks: int, admitted: int) -> None:
    found = files(minicluster().size(4, tasks), admitted)
    cores = json.loads(found["R.json"])["execution"]["R_lite"][0]["children"]["core"]
    assert 1 <= int(found["tasks"]) <= admitted * (int(cores.rpartition("-")[2]) + 1)


@pytest.mark.parametrize(
    ("resources", "cores"),
    [
        ({}, "0"),
        ({"limits": {"cpu": "4"}}, "0-3"),
        ({"requests": {"cpu": "2"}}, "0-1"),
        ({"limits": {"cpu": "4"}, "requests": {"cpu": "2"}}, "0-3"),
        ({"limits": {"cpu": "2500m"}}, "0-1"),
        ({"limits": {"cpu": "500m"}}, "0"),
    ],
)
def test_cores_are_what_quota_was_taken_for(resources: dict[str, Any], cores: str) -> None:
    found = files(minicluster().container(resources=resources))
    assert json.loads(found["R.json"])["execution"]["R_lite"][0]["children"]["core"] == cores


@pytest.mark.parametrize(
    ("container", "pod", "root"),
    [
        ({}, {}, True),  # the image decides, and most images are root's
        ({"runAsUser": 1000}, {}, False),
        ({}, {"runAsUser": 1000}, False),
        ({"runAsNonRoot": True}, {}, False),
        ({}, {"runAsNonRoot": True}, False),
        ({"runAsUser": 0}, {}, True),
        ({"runAsUser": 0}, {"runAsUser": 1000}, True),  # the container's word goes before the pod's
        ({"runAsUser": 1000}, {"runAsUser": 0}, False),
        ({"runAsNonRoot": False}, {"runAsNonRoot": True}, True),
    ],
)
def test_root_owns_the_instance_unless_somebody_else_runs_it(
    container: dict[str, Any], pod: dict[str, Any], root: bool
) -> None:
    mc = minicluster().container(securityContext=container).pod(securityContext=pod)
    assert broker(mc).get("access", {}).get("allow-root-owner", False) is root


@pytest.mark.parametrize(
    ("flux", "tbon"),
    [
        ({}, {"connect_timeout": "5s"}),
        ({"connectTimeout": "500ms"}, {"connect_timeout": "500ms"}),
        ({"connectTimeout": ""}, None),  # unset: Flux's own
        ({"topology": "kary:2"}, {"connect_timeout": "5s", "topo": "kary:2"}),
    ],
)
def test_the_brokers_tree(flux: dict[str, Any], tbon: dict[str, str] | None) -> None:
    assert broker(minicluster().flux(**flux)).get("tbon") == tbon


def test_the_domain_is_the_services() -> None:
    mc = minicluster().network(headlessName="net").build()
    data = config_map(mc, Admission("a1", 4), "example.org")["data"]
    assert tomllib.loads(data["broker.toml"])["bootstrap"]["default_connect"] == "tcp://%h.net.team.svc.example.org:%p"


@pytest.mark.parametrize(
    ("scheduler", "table", "value"),
    [
        ({}, "sched-fluxion-qmanager", None),
        ({"queuePolicy": "easy"}, "sched-fluxion-qmanager", {"queue-policy": "easy"}),
        ({"simple": True}, "modules", {"alternatives": {"sched": "sched-simple", "feasibility": "sched-simple"}}),
    ],
)
def test_the_scheduler(scheduler: dict[str, Any], table: str, value: object) -> None:
    assert broker(minicluster().flux(scheduler=scheduler)).get(table) == value


def test_a_broker_configuration_of_the_users_is_completed() -> None:
    text = '[exec]\nbarrier-timeout = "9m"\n[bootstrap]\nhosts = [{host = "hello-[0-3]", bind = "tcp://*:%p"}]\n'
    found = broker(minicluster().flux(brokerConfig=text, topology="kary:2"), 3)
    assert found["exec"] == {"barrier-timeout": "9m"}
    assert found["bootstrap"]["hosts"] == [{"host": "hello-[0-2]", "bind": "tcp://*:%p"}]
    assert found["bootstrap"]["default_connect"] == "tcp://%h.hello.team.svc.cluster.local:%p"
    assert found["tbon"] == {"connect_timeout": "5s", "topo": "kary:2"}


def test_flux_knows_hosts_by_full_names_where_they_have_these() -> None:
    mc = minicluster().network(setHostnameAsFQDN=True, headlessName="net")
    assert broker(mc)["bootstrap"]["hosts"] == [{"host": "hello-[0-3].net.team.svc.cluster.local"}]
    assert broker(mc)["bootstrap"]["default_connect"] == "tcp://%h:%p"
    nodes = json.loads(files(mc)["R.json"])["execution"]["nodelist"]
    assert nodes == ["hello-[0-3].net.team.svc.cluster.local"]


def test_the_whole_secret() -> None:
    built = certificate_secret(minicluster().build(), Admission("a1", 4), NOW)
    text = built.pop("stringData")["curve.cert"]
    assert built.pop("metadata")["labels"]["flux-framework.org/admission"] == "a1"
    assert built == {"apiVersion": "v1", "kind": "Secret", "type": "Opaque"}  # not immutable: see there
    assert 'keygen.hostname = "hello-0"' in text  # without it peers do not connect
    assert "secret-key" in text


def test_no_two_admissions_share_a_key() -> None:
    mc = minicluster().build()
    keys = {certificate_secret(mc, Admission("a1", 4), NOW)["stringData"]["curve.cert"] for _ in range(3)}
    assert len(keys) == 3


def test_the_key_is_in_the_secret_and_nowhere_else() -> None:
    mc, admission = minicluster().build(), Admission("a1", 4)
    configuration, secret = after_admission(mc, admission, now=NOW)
    (key,) = [line for line in secret["stringData"]["curve.cert"].splitlines() if "secret-key" in line]
    key = key.split('"')[1]
    assert len(key) == 40
    assert key not in json.dumps(configuration) + json.dumps(secret["metadata"]) + repr(mc) + repr(admission)
    certificate = new_certificate("hello-0", now=NOW)
    hidden = certificate.reveal().split('secret-key = "')[1][:40]
    assert hidden not in repr(certificate) + str(certificate) + f"{certificate}"


def test_a_certificate_of_the_users_is_the_same_at_each_admission() -> None:
    mc = minicluster().flux(curveCert=certificates.TEXT).build()
    texts = {certificate_secret(mc, Admission(a, 4), NOW)["stringData"]["curve.cert"] for a in ("a1", "a2")}
    assert len(texts) == 1
    assert f'secret-key = "{certificates.SECRET}"' in texts.pop()
    assert certificates.SECRET not in json.dumps(before_admission(mc))
    assert certificates.SECRET not in json.dumps(config_map(mc, Admission("a1", 4)))


def test_a_secret_of_the_users_takes_the_place_of_ours() -> None:
    mc = minicluster().flux(curveCertSecret="theirs").build()
    (only,) = after_admission(mc, Admission("a1", 4), now=NOW)
    assert only["kind"] == "ConfigMap"


def test_the_files_are_what_the_pods_mount() -> None:
    mc = minicluster().build()
    configuration, secret = after_admission(mc, Admission("a1", 4), now=NOW, cluster_domain="example.org")
    assert "example.org" in configuration["data"]["broker.toml"]
    assert (configuration["metadata"]["name"], secret["metadata"]["name"]) == ("hello-flux", "hello-curve")


def test_gpus_that_are_asked_for_are_offered_to_flux() -> None:
    found = files(minicluster().container(resources={"limits": {"cpu": 2, "nvidia.com/gpu": 4}}))
    children = json.loads(found["R.json"])["execution"]["R_lite"][0]["children"]
    assert children == {"core": "0-1", "gpu": "0-3"}
