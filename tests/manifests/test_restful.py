"""The RESTful API: what a MiniCluster without a command has beside the others."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kueue_flux import restful
from kueue_flux.api.mode import Mode
from kueue_flux.kueue.workload import Admission
from kueue_flux.manifests import after_admission, before_admission, for_convenience
from kueue_flux.manifests.config_map import config_map
from kueue_flux.manifests.mode import arguments, settings
from tests.builders import MiniClusterBuilder, minicluster

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)
ADMITTED = Admission("a1", 4)


def serving() -> MiniClusterBuilder:
    return minicluster().container(command="")


def container_of(mc: MiniClusterBuilder) -> tuple[dict[str, Any], dict[str, Any]]:
    pod = before_admission(mc.build())[-1]["spec"]["template"]["spec"]
    return pod["containers"][0], {volume["name"]: volume for volume in pod["volumes"]}


@pytest.mark.parametrize("command", ["", "  \n"])
def test_without_a_command_it_serves(command: str) -> None:
    mc = minicluster().container(command=command).build()
    assert mc.mode is Mode.RESTFUL
    assert arguments(mc).words == ("flux", "python", "/etc/flux/config/restful")


def test_option_flags_are_those_of_every_job() -> None:
    mc = serving().flux(optionFlags="-ompi=openmpi@5").build()
    assert arguments(mc).words[3:] == ("-ompi=openmpi@5",)


def test_its_settings() -> None:
    found = settings(serving().build())
    assert found["KUEUE_FLUX_RESTFUL_TOKEN_FILE"] == "/etc/flux/token/token"
    assert "KUEUE_FLUX_RESTFUL_LOG_LEVEL" not in found
    assert settings(serving().logging(quiet=True).build())["KUEUE_FLUX_RESTFUL_LOG_LEVEL"] == "warning"
    assert not any("RESTFUL" in name for name in settings(minicluster().build()))


def test_the_server_is_brought_along_as_files_in_one_directory() -> None:
    data = config_map(serving().build(), ADMITTED)["data"]
    _, volumes = container_of(serving())
    mounted = {item["path"]: data[item["key"]] for item in volumes["flux-config"]["configMap"]["items"]}
    assert {f"restful/{name}": text for name, text in restful.files().items()}.items() <= mounted.items()
    assert "restful/__main__.py" in mounted
    assert sum(len(text) for text in data.values()) < 2**19, "half of what a ConfigMap may hold"


def test_each_admission_has_a_token_of_its_own_in_a_secret() -> None:
    def tokens() -> list[str]:
        files = after_admission(serving().build(), ADMITTED, now=NOW)
        found = [obj for obj in files if obj["metadata"]["name"] == "hello-restful"]
        assert [obj["kind"] for obj in found] == ["Secret"]
        assert not any(found[0]["stringData"]["token"] in str(obj) for obj in files if obj is not found[0])
        return [obj["stringData"]["token"] for obj in found]

    assert len(tokens()[0]) >= 40
    assert tokens() != tokens()


def test_only_the_container_that_runs_flux_has_the_token() -> None:
    container, volumes = container_of(serving())
    assert {"name": "flux-token", "mountPath": "/etc/flux/token", "readOnly": True} in container["volumeMounts"]
    assert volumes["flux-token"]["secret"]["secretName"] == "hello-restful"


def test_a_service_leads_to_the_lead() -> None:
    (service,) = for_convenience(serving().build())
    assert service["metadata"]["name"] == "hello-restful"
    assert service["spec"]["selector"]["batch.kubernetes.io/job-completion-index"] == "0"
    assert service["spec"]["ports"] == [{"name": "http", "port": 5000, "protocol": "TCP"}]


def test_its_port_can_be_reached_from_the_namespace() -> None:
    policy = next(obj for obj in before_admission(serving().build()) if obj["kind"] == "NetworkPolicy")
    assert policy["spec"]["ingress"][1] == {"from": [{"podSelector": {}}], "ports": [{"port": 5000, "protocol": "TCP"}]}


def test_others_have_none_of_it() -> None:
    mc = minicluster().build()
    assert for_convenience(mc) == []
    names = [obj["metadata"]["name"] for obj in after_admission(mc, ADMITTED, now=NOW)]
    assert names == ["hello-flux", "hello-curve"]
    assert "flux-token" not in container_of(minicluster())[1]
