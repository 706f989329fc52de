"""Where Flux comes from: the application's image, a view image that is copied, or one that is mounted."""

import re

from kueue_flux.manifests.pod import pod_template
from kueue_flux.manifests.view import View, view
from tests.builders import minicluster

IMAGE = "ghcr.io/converged-computing/flux-view-ubuntu:tag-noble"


def test_flux_in_the_applications_image_brings_nothing_along() -> None:
    assert view(minicluster().build()) == View()


def test_a_view_is_copied_by_an_init_container() -> None:
    built = view(minicluster().view().build())
    (copy,) = built.init_containers
    shell, option, script, *arguments = copy.pop("command")
    assert (shell, option, arguments) == ("/bin/sh", "-c", ["copy-view", "/mnt/flux"])
    assert script.startswith("#!/bin/sh")
    (use,) = copy.pop("args")
    assert use.endswith("export fluxsocket=local:///run/flux/local\n")
    assert copy == {
        "name": "flux-view",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "volumeMounts": [{"name": "flux-view", "mountPath": "/mnt/flux"}],
    }
    assert built.volumes == [{"name": "flux-view", "emptyDir": {}}]
    assert built.mounts == [
        {"name": "flux-view", "mountPath": "/mnt/flux"},
        {"name": "flux-view", "mountPath": "/opt/software", "subPath": "software"},
    ]
    assert built.env == {"KUEUE_FLUX_VIEW": "/mnt/flux/view"}


def test_the_copying_container_as_the_user_wants_it() -> None:
    limits = {"limits": {"cpu": "1"}}
    mc = minicluster().view(
        name="bring",
        image="view:2",
        mountPath="/flux",
        pullAlways=True,
        resources=limits,
        securityContext={"runAsUser": 7},
        workingDir="/work",
    )
    (copy,) = view(mc.build()).init_containers
    assert copy.pop("command")[3:] == ["copy-view", "/flux"]
    del copy["args"]
    assert copy == {
        "name": "bring",
        "image": "view:2",
        "imagePullPolicy": "Always",
        "volumeMounts": [{"name": "flux-view", "mountPath": "/flux"}],
        "workingDir": "/work",
        "resources": limits,
        "securityContext": {"runAsUser": 7},
    }


def test_the_copy_script_means_the_same_after_the_kubelet_has_read_it() -> None:
    # It stands in `command`, where a kubelet takes $(NAME) for a variable and $$ for a dollar sign.
    (copy,) = view(minicluster().view().build()).init_containers
    assert not re.search(r"\$[$(]", copy["command"][2])


def test_a_view_is_mounted_as_an_image_volume_with_nothing_to_copy() -> None:
    mc = minicluster().view(imageVolume=True, image="view:2", mountPath="/flux", pullAlways=True).build()
    assert view(mc) == View(
        volumes=[{"name": "flux-view", "image": {"reference": "view:2", "pullPolicy": "Always"}}],
        mounts=[{"name": "flux-view", "mountPath": "/flux", "readOnly": True}],
        env={"KUEUE_FLUX_VIEW": "/flux/opt/view"},
    )
    assert view(minicluster().view(imageVolume=True).build()).volumes[0]["image"]["pullPolicy"] == "IfNotPresent"


def test_the_pod_has_what_the_view_needs() -> None:
    mc = minicluster().view().build()
    spec, parts = pod_template(mc)["spec"], view(mc)
    assert spec["initContainers"] == parts.init_containers
    assert spec["volumes"][-1:] == parts.volumes
    assert spec["containers"][0]["volumeMounts"][-2:] == parts.mounts
    assert {"name": "KUEUE_FLUX_VIEW", "value": "/mnt/flux/view"} in spec["containers"][0]["env"]
