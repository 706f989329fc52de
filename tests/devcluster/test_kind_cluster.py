"""What kind and Kueue are told, and what an assembled node image is made of: the parts that need no cluster."""

import importlib.util
import io
import json
import tarfile

import pytest
import yaml

from kueue_flux.devcluster import base_image, binaries, kind, kueue, node_archive, node_image, paths, server_tarball
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.images.archive import Image

BASE = paths.packaged("kind.yaml").read_text()


def test_a_machine_like_others_gets_the_configuration_as_it_is():
    config = kind.configuration(BASE, workers=1, cgroup_v1=False, restrict_oom_score=False)
    assert config == yaml.safe_load(BASE)
    assert [node["role"] for node in config["nodes"]] == ["control-plane", "worker"]


def test_workers_can_be_more():
    config = kind.configuration(BASE, workers=3, cgroup_v1=False, restrict_oom_score=False)
    assert [node["role"] for node in config["nodes"]] == ["control-plane", "worker", "worker", "worker"]


def test_a_machine_with_old_cgroups_and_no_sys_resource_gets_both_patches():
    config = kind.configuration(BASE, workers=1, cgroup_v1=True, restrict_oom_score=True)
    (kubelet,) = config["kubeadmConfigPatches"]
    assert yaml.safe_load(kubelet) == {"kind": "KubeletConfiguration", "failCgroupV1": False}
    assert "restrict_oom_score_adj = true" in config["containerdConfigPatches"][0]


def test_only_image_and_pull_policy_of_kueue_are_changed():
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "kueue-controller-manager"},
        "spec": {"template": {"spec": {"containers": [{"name": "manager", "image": "x", "args": ["--a"]}]}}},
    }
    other = {"kind": "Service", "metadata": {"name": "webhook"}}
    changed = list(yaml.safe_load_all(kueue.adapt(yaml.safe_dump_all([deployment, other]), "kueue:1")))
    assert changed[1] == other
    (container,) = changed[0]["spec"]["template"]["spec"]["containers"]
    assert container == {"name": "manager", "image": "kueue:1", "args": ["--a"], "imagePullPolicy": "IfNotPresent"}


def test_the_sample_queues():
    objects = {item["kind"]: item for item in yaml.safe_load_all(paths.packaged("queues.yaml").read_text())}
    group = objects["ClusterQueue"]["spec"]["resourceGroups"][0]
    quota = {resource["name"]: resource["nominalQuota"] for resource in group["flavors"][0]["resources"]}
    assert quota == {"cpu": 1, "memory": "16Gi", "pods": 64}
    assert objects["LocalQueue"]["spec"]["clusterQueue"] == objects["ClusterQueue"]["metadata"]["name"]
    assert group["flavors"][0]["name"] == objects["ResourceFlavor"]["metadata"]["name"]


def test_the_machines_own_apt_sources_of_its_release():
    listing = (
        "http://mirror/debian bookworm main\n"
        "http://mirror/debian bookworm main\n"
        "http://mirror/debian bookworm contrib\n"
        "http://mirror/debian-security bookworm-security main\n"
        "http://other/ nodistro main\n"
    )
    assert base_image.apt_sources(listing, "bookworm") == [
        "deb http://mirror/debian bookworm main contrib",
        "deb http://mirror/debian-security bookworm-security main",
    ]


def test_image_names_are_read_from_kinds_source():
    source = 'package x\n\nconst kindnetdImage = "docker.io/kindest/kindnetd:v1"\n'
    assert server_tarball.names_in_source(source, "kindnetdImage") == "docker.io/kindest/kindnetd:v1"
    with pytest.raises(DevClusterError, match="otherImage"):
        server_tarball.names_in_source(source, "otherImage")


@pytest.fixture
def image(tmp_path):
    program = tmp_path / "root" / "usr" / "bin" / "it"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/true\n")
    program.chmod(0o755)
    return Image(layers=(node_archive.pack(tmp_path / "root"),), user="1:2", entrypoint=("/usr/bin/it",))


def test_an_archive_names_all_its_images_first(image):
    out = io.BytesIO()
    node_archive.write({"registry.k8s.io/etcd:3.6": image, "localhost:5000/it:1": image}, out)
    out.seek(0)
    with tarfile.open(fileobj=out) as archive:
        names = archive.getnames()
        repositories = json.load(archive.extractfile("repositories"))
        manifest = json.load(archive.extractfile("manifest.json"))
        config = json.load(archive.extractfile(manifest[0]["Config"]))
        (layer,) = manifest[0]["Layers"]
        with tarfile.open(fileobj=archive.extractfile(layer)) as content:
            assert content.getmember("usr/bin/it").mode == 0o755
    assert names[0] == "repositories"
    assert {f"{name}:{tag}" for name, tags in repositories.items() for tag in tags} == {
        "registry.k8s.io/etcd:3.6",
        "localhost:5000/it:1",
    }
    assert [entry["RepoTags"] for entry in manifest] == [["registry.k8s.io/etcd:3.6"], ["localhost:5000/it:1"]]
    assert config["config"]["Entrypoint"] == ["/usr/bin/it"]
    assert config["config"]["User"] == "1:2"
    assert len(names) == len(set(names))


def test_a_system_image_says_how_it_is_stopped(image):
    system = node_archive.SystemImage(layers=image.layers, stop_signal="SIGRTMIN+3")
    assert json.loads(system.config("x86_64"))["config"]["StopSignal"] == "SIGRTMIN+3"


def test_the_recipe_changes_with_every_version(monkeypatch):
    before = node_image.recipe()
    assert node_image.recipe() == before
    program = binaries.PROGRAMS["etcd"]
    newer = binaries.Program(program.name, program.module, "v99", program.package)
    monkeypatch.setitem(binaries.PROGRAMS, "etcd", newer)
    assert node_image.recipe() != before


@pytest.fixture(scope="module")
def wrapper():
    spec = importlib.util.spec_from_file_location("runc_wrapper", paths.packaged("runc-wrapper.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_runtime_wrapper_takes_out_what_cannot_be_given(wrapper):
    process = {
        "capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_RESOURCE"], "ambient": None},
        "oomScoreAdj": -998,
        "args": ["sh"],
    }
    wrapper.soften(process)
    assert process == {"capabilities": {"bounding": ["CAP_CHOWN"], "ambient": []}, "args": ["sh"]}


def test_the_runtime_wrapper_leaves_the_rest_alone(wrapper):
    process = {"capabilities": {"bounding": ["CAP_CHOWN"]}, "oomScoreAdj": 100}
    wrapper.soften(process)
    assert process == {"capabilities": {"bounding": ["CAP_CHOWN"]}, "oomScoreAdj": 100}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--log", "x", "create", "--bundle", "/b", "id"], "/b"),
        (["create", "--bundle=/b", "id"], "/b"),
        (["create", "-b", "/b", "id"], "/b"),
        (["create", "id"], None),
        (["create", "--bundle"], None),
    ],
)
def test_the_runtime_wrapper_finds_the_bundle(wrapper, words, expected):
    assert wrapper.option(words, "--bundle", "-b") == expected


def test_the_runtime_wrapper_edits_the_specification_of_create_and_exec(wrapper, tmp_path, monkeypatch):
    became = []
    monkeypatch.setattr(wrapper.os, "execvp", lambda program, words: became.append(words))
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"process": {"oomScoreAdj": -1}, "hostname": "h"}))
    process = tmp_path / "process.json"
    process.write_text(json.dumps({"oomScoreAdj": -1, "cwd": "/"}))
    wrapper.main(["create", "--bundle", str(tmp_path), "id"])
    wrapper.main(["exec", "--process", str(process), "id"])
    wrapper.main(["state", "id"])
    assert json.loads(config.read_text()) == {"process": {}, "hostname": "h"}
    assert json.loads(process.read_text()) == {"cwd": "/"}
    assert [words[1] for words in became] == ["create", "exec", "state"]
