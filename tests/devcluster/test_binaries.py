"""How programs are built: pinned modules, a workspace of our own, whole files in the cache or none."""

import threading

import pytest

from kueue_flux.devcluster import binaries, versions
from kueue_flux.devcluster.errors import CommandFailed
from kueue_flux.devcluster.go import parse_version
from kueue_flux.devcluster.progress import Progress


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kueue-flux"


@pytest.fixture
def fake_go(monkeypatch, tmp_path):
    """A go command that writes its name to the file after -o; `tmp_path/fails` makes it fail half way."""
    script = tmp_path / "go"
    script.write_text(
        "#!/bin/sh\n"
        f"echo $* >> {tmp_path}/calls\n"
        'if [ "$1" = list ]; then echo a; echo b; exit; fi\n'
        'while [ "$1" != -o ]; do shift; done\n'
        'mkdir -p "$(dirname "$2")"; echo built > "$2"\n'
        f"if [ -e {tmp_path}/fails ]; then echo some/package.go:1: broken; exit 2; fi\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(binaries, "go", lambda progress: script)
    monkeypatch.setattr(binaries, "module_dir", lambda module, version: tmp_path / "no-module")
    return tmp_path


def calls(folder):
    file = folder / "calls"
    return file.read_text().splitlines() if file.exists() else []


def test_every_program_that_others_ask_for_is_known():
    asked = (
        "kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubeadm kubectl etcd kueue "
        "containerd containerd-shim-runc-v2 ctr runc crictl coredns local-path-provisioner kind kwok pause"
    )
    assert set(binaries.PROGRAMS) == set(asked.split())


def test_kubernetes_is_built_with_its_published_staging_modules():
    text = binaries.workspace_files(binaries.PROGRAMS["kubelet"])["go.mod"]
    assert f"require k8s.io/kubernetes {versions.KUBERNETES}" in text
    for module in versions.KUBERNETES_STAGING_MODULES:
        assert f"replace k8s.io/{module} => k8s.io/{module} {versions.KUBERNETES_STAGING}\n" in text


def test_another_module_is_only_required():
    text = binaries.workspace_files(binaries.PROGRAMS["kind"])["go.mod"]
    assert f"require sigs.k8s.io/kind {versions.KIND}\n" in text
    assert "replace" not in text


def test_a_program_says_its_version():
    assert f"gitVersion={versions.KUBERNETES}" in binaries.PROGRAMS["kube-apiserver"].ldflags


def test_a_missing_program_is_built_and_then_reused(cache, fake_go):
    first = binaries.ensure(["etcd"], Progress())
    assert first == {"etcd": cache / "bin" / f"etcd-{versions.ETCD}" / "etcd"}
    assert first["etcd"].read_text() == "built\n"
    built = len(calls(fake_go))
    assert binaries.ensure(["etcd"], Progress()) == first
    assert len(calls(fake_go)) == built


def test_a_build_that_fails_leaves_nothing_and_says_why(cache, fake_go):
    (fake_go / "fails").touch()
    with pytest.raises(CommandFailed, match="broken"):
        binaries.ensure(["etcd"], Progress())
    assert list((cache / "bin").iterdir()) == []
    (fake_go / "fails").unlink()
    assert binaries.ensure(["etcd"], Progress())["etcd"].exists()


def test_two_at_once_build_it_once(cache, fake_go):
    threads = [threading.Thread(target=binaries.ensure, args=(["etcd"], Progress())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(" -o " in f"{line} " for line in calls(fake_go)) == 1


def test_an_unknown_program_is_an_error(cache):
    with pytest.raises(KeyError):
        binaries.ensure(["no-such-program"], Progress())


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("go1.26", (1, 26, 0)),
        ("1.26.6", (1, 26, 6)),
        ("go version devel +abc", ()),
    ],
)
def test_go_versions(text, numbers):
    assert parse_version(text) == numbers


def test_newer_is_newer():
    assert parse_version("go1.100.0") > parse_version(versions.GO) > parse_version("go1.9.9") > parse_version("devel")
