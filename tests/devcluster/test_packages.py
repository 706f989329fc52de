"""Missing tools: installed where that is possible, else named with the command; paths in the XDG folders."""

import pytest

from kueue_flux.devcluster import packages, paths
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.progress import Progress


def test_nothing_is_installed_where_nothing_is_missing(monkeypatch):
    monkeypatch.setattr(packages, "install", lambda *args, **kwargs: pytest.fail("installed"))
    packages.ensure_tools({"sh": "dash"}, Progress())


def test_a_tool_that_cannot_be_installed_is_named_with_the_command(monkeypatch):
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    with pytest.raises(DevClusterError) as caught:
        packages.ensure_tools({"no-such-tool": "some-package"}, Progress())
    assert "no-such-tool not found" in caught.value.message
    assert "sudo apt-get install --no-install-recommends some-package" in caught.value.remedy


@pytest.mark.parametrize(
    ("uid", "release", "expected"),
    [
        (0, {"ID": "debian"}, True),
        (0, {"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, True),
        (0, {"ID": "fedora"}, False),
        (1000, {"ID": "debian"}, False),
    ],
)
def test_only_root_on_debian_and_its_kin_installs(monkeypatch, uid, release, expected):
    monkeypatch.setattr(packages.os, "geteuid", lambda: uid)
    monkeypatch.setattr(packages, "os_release", lambda: release)
    monkeypatch.setattr(packages.shutil, "which", lambda name: "/usr/bin/apt-get")
    assert packages.installable() is expected


def test_services_do_not_start_while_packages_are_installed(monkeypatch, tmp_path):
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(packages, "_POLICY", policy)
    with packages._no_service_starts():
        assert policy.read_text().endswith("exit 101\n")
        assert policy.stat().st_mode & 0o111
    assert not policy.exists()


def test_somebody_elses_policy_is_left_alone(monkeypatch, tmp_path):
    policy = tmp_path / "policy-rc.d"
    policy.write_text("theirs")
    monkeypatch.setattr(packages, "_POLICY", policy)
    with packages._no_service_starts():
        assert policy.read_text() == "theirs"
    assert policy.read_text() == "theirs"


def test_folders_follow_xdg(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    assert paths.cache_dir() == tmp_path / "c" / "kueue-flux"
    assert paths.kubeconfig("dev") == tmp_path / "s" / "kueue-flux" / "dev" / "kubeconfig"
    assert paths.state_dir("dev").stat().st_mode & 0o777 == 0o700


def test_a_relative_xdg_folder_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    assert paths.state_root() == tmp_path / ".local" / "state" / "kueue-flux"
