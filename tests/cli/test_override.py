"""Flags beside a file: what they change in its MiniClusters, and that they change nothing else."""

import copy

import pytest
import yaml

from kueue_flux.cli.failures import InputError
from kueue_flux.cli.given import Given
from kueue_flux.cli.override import Override
from kueue_flux.kueue.labels import QUEUE_NAME
from tests.client.objects import minicluster

MOUNTED = {"container": {"image": "view", "mountPath": "/mnt/flux"}}


def changed(override, **spec):
    obj = minicluster()
    obj["spec"] |= spec
    before = copy.deepcopy(obj)
    (given,) = override.apply([Given(obj, "it", lambda problem: problem)])
    assert obj == before
    return given.object


@pytest.mark.parametrize(
    ("override", "before", "after"),
    [
        (Override(), {}, {}),
        (Override(image="mine"), {}, {"containers": [{"image": "mine", "command": "hostname"}]}),
        (
            Override(image="mine"),
            {"containers": [{"image": "a"}, {"image": "b", "runFlux": True}]},
            {"containers": [{"image": "a"}, {"image": "mine", "runFlux": True}]},
        ),
        (Override(flux_view=False), {}, {"flux": {"container": {"disable": True}}}),
        (Override(flux_view=False), {"flux": MOUNTED}, {"flux": {"container": {"disable": True}}}),
        (
            Override(flux_view=True),
            {"flux": {"container": {"disable": True}}},
            {"flux": {"container": {"disable": False}}},
        ),
        (
            Override(flux_image="other", flux_volume=True),
            {"flux": {"optionFlags": "-v", **MOUNTED}},
            {
                "flux": {
                    "optionFlags": "-v",
                    "container": {
                        "image": "other",
                        "mountPath": "/mnt/flux",
                        "disable": False,
                        "imageVolume": True,
                    },
                }
            },
        ),
    ],
)
def test_only_what_is_asked_for_is_changed(override, before, after):
    obj = minicluster()
    obj["spec"] |= {**before, **after}
    assert changed(override, **before) == obj


def test_the_queue():
    assert changed(Override(queue="team-b"))["metadata"]["labels"] == {QUEUE_NAME: "team-b"}


def test_the_queue_takes_the_place_of_that_of_the_jobs_labels():
    obj = changed(Override(queue="team-b"), jobLabels={QUEUE_NAME: "team-a", "team": "a"})
    assert obj["metadata"]["labels"] == {QUEUE_NAME: "team-b"}
    assert obj["spec"]["jobLabels"] == {"team": "a"}


@pytest.mark.parametrize("spec", [{"containers": []}, {"containers": "image"}, {"containers": None}, {"flux": [1]}])
def test_what_is_not_valid_is_left_to_the_validation(spec):
    obj = minicluster()
    obj["spec"] |= spec
    (given,) = Override(image="mine", flux_view=False).apply([Given(obj, "it", lambda problem: problem)])
    assert given.problems()


def test_flags_that_contradict_each_other():
    with pytest.raises(InputError, match="--flux-image says where"):
        Override(flux_view=False, flux_image="view").apply([])


async def test_beside_a_file(invoke, tmp_path):
    file = tmp_path / "mc.yaml"
    obj = minicluster()
    del obj["status"]
    file.write_text(yaml.safe_dump(obj))
    ended = await invoke("submit", str(file), "-i", "mine", "-q", "team-b", "--no-flux-view", "--dry-run")
    assert ended.code == 0, ended.err
    spec = yaml.safe_load(ended.out)["spec"]
    assert spec["containers"][0]["image"] == "mine"
    assert spec["flux"] == {"container": {"disable": True}}
    ended = await invoke("submit", str(file), "-i", "mine", "--dry-run")
    assert "flux" not in yaml.safe_load(ended.out)["spec"]
