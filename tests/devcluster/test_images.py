"""How images are put together: layers, archives, what goes into each, and (where an engine answers) that they run."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console

from kueue_flux.devcluster import engine, images
from kueue_flux.devcluster.errors import DevClusterError
from kueue_flux.devcluster.images import adapter, archive, debian, flux, layers, prefix, standin, store, view
from kueue_flux.devcluster.images.archive import Image, Layer
from kueue_flux.devcluster.progress import Progress

ROOT = Path(__file__).parents[2]
COPY_VIEW = ROOT / "kueue_flux/manifests/files/copy-view.sh"


@pytest.fixture
def progress() -> Progress:
    return Progress(Console(file=io.StringIO()))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def tar(path: Path, members: dict[str, str | None], *, links: dict[str, str] | None = None) -> Path:
    """A tar file as mmdebstrap writes it; None is a folder, links are hard links."""
    with tarfile.open(path, "w") as out:
        for name, text in members.items():
            member = tarfile.TarInfo(f"./{name}")
            member.mtime = os.getpid()
            if text is None:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            else:
                member.size = len(text)
            out.addfile(member, io.BytesIO((text or "").encode()))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(f"./{name}")
            member.type, member.linkname = tarfile.LNKTYPE, f"./{target}"
            out.addfile(member)
    return path


def content(path: Path) -> dict[str, str | None]:
    with tarfile.open(path) as file:
        return {m.name: f.read().decode() if (f := file.extractfile(m)) else None for m in file}


# -- layers


def test_a_difference_holds_what_is_new_changed_and_gone(tmp_path: Path) -> None:
    lower = tar(tmp_path / "lower", {"etc": None, "etc/same": "1", "etc/changed": "1", "old": None, "old/file": "1"})
    upper = tar(tmp_path / "upper", {"etc": None, "etc/same": "1", "etc/changed": "2", "new": None, "new/file": "3"})
    layers.difference(lower, upper, tmp_path / "layer")
    assert content(tmp_path / "layer") == {"etc/changed": "2", "new": None, "new/file": "3", ".wh.old": ""}


def test_a_hard_link_becomes_a_file_since_its_other_name_may_be_in_the_layer_below(tmp_path: Path) -> None:
    lower = tar(tmp_path / "lower", {"perl": "code"})
    upper = tar(tmp_path / "upper", {"perl": "code"}, links={"perl5": "perl"})
    layers.difference(lower, upper, tmp_path / "layer")
    assert content(tmp_path / "layer") == {"perl5": "code"}


def test_a_hard_link_may_have_its_other_name_in_the_same_layer(tmp_path: Path) -> None:
    lower = tar(tmp_path / "lower", {})
    upper = tar(tmp_path / "upper", {"perl": "code"}, links={"perl5": "perl"})
    layers.difference(lower, upper, tmp_path / "layer")
    assert content(tmp_path / "layer") == {"perl": "code", "perl5": "code"}


def test_the_same_tree_is_the_same_layer(tmp_path: Path) -> None:
    digests = set()
    for name in ("one", "two"):
        root = tmp_path / name
        (root / "home/flux").mkdir(parents=True)
        (root / "b").write_text("b")
        (root / "a").symlink_to("b")
        layers.pack(root, tmp_path / f"{name}.tar", owners={Path("home/flux"): 1000})
        digests.add((tmp_path / f"{name}.tar").read_bytes())
    assert len(digests) == 1
    with tarfile.open(tmp_path / "one.tar") as file:
        assert [(m.name, m.uid) for m in file] == [("a", 0), ("b", 0), ("home", 0), ("home/flux", 1000)]


def test_a_layer_is_made_once_and_a_failure_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    made = []

    def make(out: Path) -> None:
        made.append(out)
        out.write_bytes(b"tar")

    assert layers.cached("name", make) == layers.cached("name", make)
    assert len(made) == 1

    def fail(out: Path) -> None:
        out.write_bytes(b"half")
        raise DevClusterError("interrupted")

    with pytest.raises(DevClusterError):
        layers.cached("other", fail)
    assert sorted(path.name for path in layers.folder().glob("[!.]*")) == ["name.sha256", "name.tar"]


def test_two_that_need_a_layer_at_once_get_the_same(cache: Path) -> None:
    made = []

    def make(out: Path) -> None:
        made.append(out)
        time.sleep(0.2)
        out.write_text(f"{len(made)}")

    with ThreadPoolExecutor() as pool:
        found = set(pool.map(lambda _: layers.cached("name", make), range(4)))
    assert len(made) == len(found) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "file").write_text("2"),
        lambda root: (root / "file").chmod(0o755),
        lambda root: (root / "more").write_text(""),
        lambda root: ((root / "link").unlink(), (root / "link").symlink_to("elsewhere")),
    ],
)
def test_a_trees_key_follows_its_content(tmp_path: Path, change: Callable[[Path], None]) -> None:
    (tmp_path / "file").write_text("1")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "skipped").write_text("1")

    def skip(name: Path) -> bool:
        return name.name == "skipped"

    before = layers.tree_key(tmp_path, skip=skip)
    (tmp_path / "skipped").write_text("2")
    assert layers.tree_key(tmp_path, skip=skip) == before
    change(tmp_path)
    assert layers.tree_key(tmp_path, skip=skip) != before


# -- archives


def image_of(tmp_path: Path, *texts: str) -> Image:
    found = []
    for text in texts:
        path = tmp_path / f"{text}.tar"
        path.write_text(text)
        found.append(Layer(path, f"digest-of-{text}"))
    return Image(tuple(found), user="1:1", entrypoint=("run",))


def test_an_archive_is_what_docker_load_reads(tmp_path: Path) -> None:
    image = image_of(tmp_path, "base", "top")
    out = io.BytesIO()
    archive.write(image, "localhost/x:1", "x86_64", out)
    out.seek(0)
    with tarfile.open(fileobj=out) as file:
        files = {m.name: file.extractfile(m).read() for m in file}  # type: ignore[union-attr]
    (manifest,) = json.loads(files["manifest.json"])
    assert manifest["RepoTags"] == ["localhost/x:1"]
    assert [files[name] for name in manifest["Layers"]] == [b"base", b"top"]
    config = json.loads(files[manifest["Config"]])
    assert config["rootfs"]["diff_ids"] == ["sha256:digest-of-base", "sha256:digest-of-top"]
    assert (config["architecture"], config["config"]["User"], config["config"]["Entrypoint"]) == (
        "amd64",
        "1:1",
        ["run"],
    )


def test_an_images_name_follows_its_content(tmp_path: Path) -> None:
    one, two = image_of(tmp_path, "base", "top"), image_of(tmp_path, "base", "other")
    assert one.identity("x86_64") == image_of(tmp_path, "base", "top").identity("x86_64") != two.identity("x86_64")


# -- which Flux


def fake_flux(folder: Path, says: str) -> Path:
    command = folder / "bin/flux"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho '{says}'\n")
    command.chmod(0o755)
    return folder


FLUX_CORE = "libflux-core: 0.99.0"


def test_flux_prefix_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, other = fake_flux(tmp_path / "named", FLUX_CORE), fake_flux(tmp_path / "other", FLUX_CORE)
    monkeypatch.setenv("PATH", f"{other}/bin:/usr/bin:/bin")
    monkeypatch.setenv("FLUX_PREFIX", str(named))
    assert prefix.find() == prefix.FluxPrefix(named)
    monkeypatch.delenv("FLUX_PREFIX")
    assert prefix.find() == prefix.FluxPrefix(other)


def test_a_link_on_path_leads_to_the_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = fake_flux(tmp_path / "opt", FLUX_CORE)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/flux").symlink_to(installed / "bin/flux")
    monkeypatch.delenv("FLUX_PREFIX", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    found = prefix.find()
    assert found == prefix.FluxPrefix(installed)
    assert found is not None
    assert found.version == "0.99.0"


def test_fluxcd_is_not_taken_for_flux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLUX_PREFIX", raising=False)
    monkeypatch.setenv("PATH", f"{fake_flux(tmp_path, 'flux version 2.7.0')}/bin:/usr/bin:/bin")
    assert prefix.find() is None


@pytest.mark.parametrize("named", ["/nowhere", "/usr"])
def test_a_prefix_that_will_not_do_is_named(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: named == "/usr")
    monkeypatch.setenv("FLUX_PREFIX", named)
    with pytest.raises(DevClusterError, match=named) as caught:
        prefix.find()
    assert caught.value.remedy


@pytest.fixture
def choices(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """What there is to choose from, all of it replaced."""
    there = {"FLUX_IMAGE": True, "prefix": True, flux.PUBLISHED: True}
    monkeypatch.setattr(store, "pull", lambda ref, progress: None if there.get(ref, ref == "mine:1") else "no answer")
    monkeypatch.setattr(store, "load", lambda title, image, progress: f"loaded/{title}")
    monkeypatch.setattr(flux, "assemble", lambda installed, progress: None)
    installed = prefix.FluxPrefix(Path("/opt/flux"))
    object.__setattr__(installed, "version", "0.99.0")
    monkeypatch.setattr(prefix, "find", lambda: installed if there["prefix"] else None)
    monkeypatch.setattr(standin, "standin_image", lambda progress: "stand-in:1")
    monkeypatch.delenv("FLUX_IMAGE", raising=False)
    return there


def test_the_best_flux_is_chosen_and_its_origin_said(
    choices: dict[str, bool], monkeypatch: pytest.MonkeyPatch, progress: Progress
) -> None:
    monkeypatch.setenv("FLUX_IMAGE", "mine:1")
    assert flux.flux_image(progress) == flux.FluxImage("mine:1", "real Flux, mine:1 (FLUX_IMAGE)", real=True)
    monkeypatch.delenv("FLUX_IMAGE")
    chosen = flux.flux_image(progress)
    assert (chosen.reference, chosen.real) == ("loaded/flux:0.99.0", True)
    assert "/opt/flux" in chosen.origin
    choices["prefix"] = False
    assert flux.flux_image(progress).reference == flux.PUBLISHED
    choices[flux.PUBLISHED] = False
    chosen = flux.flux_image(progress)
    assert (chosen.reference, chosen.real) == ("stand-in:1", False)
    assert "STAND-IN" in chosen.origin
    assert "no answer" in chosen.origin


def test_a_flux_image_that_is_not_there_is_an_error_and_nothing_else_is_taken(
    choices: dict[str, bool], monkeypatch: pytest.MonkeyPatch, progress: Progress
) -> None:
    monkeypatch.setenv("FLUX_IMAGE", "absent:1")
    with pytest.raises(DevClusterError, match="absent:1"):
        flux.flux_image(progress)


# -- the view


def test_a_view_is_relocated_in_place(tmp_path: Path) -> None:
    tree = tmp_path / "opt/view"
    (tree / "lib/flux").mkdir(parents=True)
    names = {"/opt/long/flux": "/mnt/flux"}
    program, script, link = tree / "program", tree / "script", tree / "lib/flux/link"
    program.write_bytes(b"\x7fELF\0/opt/long/flux/lib\0/opt/long/flux\0/opt/long/fluxion\0x")
    script.write_text("exec /opt/long/flux/bin/flux\n")
    link.symlink_to("/opt/long/flux/lib/target")
    for path in (program, script, link):
        view._relocate(path, names)
    assert program.read_bytes() == b"\x7fELF\0/mnt/flux//////lib\0/mnt/flux\0\0\0\0\0\0/opt/long/fluxion\0x"
    assert script.read_text() == "exec /mnt/flux/bin/flux\n"
    assert link.readlink() == Path("../target")


def test_a_prefix_too_short_to_be_relocated_is_refused(progress: Progress) -> None:
    installed = prefix.FluxPrefix(Path("/f"))
    object.__setattr__(installed, "_python", {"executable": "/usr/bin/python3", "modules": {}})
    with pytest.raises(DevClusterError, match="too short"):
        view.assemble(installed, progress)


def copy_view(tmp_path: Path, mount: Path) -> subprocess.CompletedProcess[str]:
    text = COPY_VIEW.read_text().replace("/opt/", f"{tmp_path}/opt/")
    command = ["sh", "-c", text, "copy-view", str(mount)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("times", [1, 2])
def test_copy_view_copies_a_view_of_ours(tmp_path: Path, times: int) -> None:
    tree, mount = tmp_path / "opt/view", tmp_path / "mount"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin/flux").write_text("flux")
    (tree / "bin/link").symlink_to("flux")
    mount.mkdir()
    (tree / ".mounted-at").write_text(f"{mount}\n")
    for _ in range(times):  # the kubelet may run an init container again
        done = copy_view(tmp_path, mount)
        assert (done.returncode, done.stderr) == (0, "")
    assert (mount / "view/bin/flux").read_text() == "flux"
    assert (mount / "view/bin/link").readlink() == Path("flux")
    assert (mount / "bin/flux").read_text() == "flux"


def test_copy_view_copies_a_view_of_the_flux_operator(tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    real, software = tmp_path / "opt/views/._view/abc", tmp_path / "opt/software/pkg"
    for folder in (real / "bin", software, mount / "software"):  # the last is the kubelet's, for a subPath
        folder.mkdir(parents=True)
    (software / "flux").write_text("flux")
    (real / "bin/flux").symlink_to(software / "flux")
    (tmp_path / "opt/view").symlink_to(real)
    done = copy_view(tmp_path, mount)
    assert (done.returncode, done.stderr) == (0, "")
    assert (mount / "view/bin/flux").readlink() == software / "flux"
    assert (mount / "software/pkg/flux").read_text() == "flux"


def test_copy_view_names_what_is_wrong(tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    done = copy_view(tmp_path, mount)
    assert done.returncode == 1
    assert "no Flux view" in done.stderr
    (tmp_path / "opt/view").mkdir(parents=True)
    (tmp_path / "opt/view/.mounted-at").write_text("/mnt/flux\n")
    done = copy_view(tmp_path, mount)
    assert done.returncode == 1
    assert "/mnt/flux only" in done.stderr


# -- the controller


def test_the_controllers_image_follows_the_code_that_it_runs(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text("")
    package = tmp_path / "kueue_flux"
    (package / "devcluster").mkdir(parents=True)
    (package / "module.py").write_text("1")
    before = adapter._source_key(tmp_path)
    (package / "devcluster/module.py").write_text("of no concern")
    (package / "__pycache__").mkdir()
    (package / "__pycache__/module.pyc").write_text("of no concern")
    assert adapter._source_key(tmp_path) == before
    (package / "module.py").write_text("2")
    assert adapter._source_key(tmp_path) != before


def test_dockerfile_and_assembled_image_leave_out_the_same() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert f"'^({'|'.join(adapter._COMMAND_LINE_ONLY)})'" in dockerfile
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {"kueue_flux/devcluster", "**/__pycache__"} <= set(ignored)
    bases = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert len(set(bases)) == 1
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", bases[0])


def test_the_controller_needs_no_typed_client() -> None:
    """The image leaves those modules out, so an import of one would fail in a cluster only."""
    code = (
        "import sys, kueue_flux.controller.main\n"
        "print(*(n for n in sys.modules if n.startswith('kubernetes.') and ('.models.' in n or '.api.' in n)))\n"
        "print(*(n for n in ('kr8s', 'typer') if n in sys.modules))"  # rich is structlog's where it is there
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == ""


# -- on an engine

on_engine = pytest.mark.skipif(not engine.answers(), reason="no Docker engine answers (`kueue-flux dev up` starts one)")
with_flux = pytest.mark.skipif(
    not os.environ.get("FLUX_PREFIX") and not shutil.which("flux"),
    reason="no Flux is installed here (FLUX_PREFIX, or a flux on PATH)",
)


def run(reference: str, *words: str, options: tuple[str, ...] = ()) -> str:
    command = ["docker", "run", "--rm", "--network", "none", "--hostname", "h", "--add-host", "h:127.0.0.1", *options]
    done = subprocess.run([*command, reference, *words], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.e2e
@on_engine
def test_the_controller_starts_in_its_image(progress: Progress) -> None:
    assert "usage" in run(images.adapter_image(progress), "--help", options=("--read-only",))


@pytest.mark.e2e
@pytest.mark.real_flux
@on_engine
@with_flux
@pytest.mark.parametrize("user", ["0", "1000"])
def test_flux_runs_in_its_image(progress: Progress, user: str) -> None:
    chosen = images.flux_image(progress)
    out = run(chosen.reference, "flux", "start", "-s2", "flux", "run", "-N2", "id", "-u", options=("--user", user))
    assert out.split() == [user, user]


@pytest.mark.e2e
@pytest.mark.real_flux
@on_engine
@with_flux
def test_a_view_runs_in_an_image_without_anything(progress: Progress, tmp_path: Path) -> None:
    reference, app = images.view_image(progress), images.app_image(progress)
    mount = ("--volume", f"{tmp_path}:/mnt/flux")
    run(reference, "/bin/sh", "-c", COPY_VIEW.read_text(), "copy-view", "/mnt/flux", options=mount)
    script = (
        "PATH=$PATH:/mnt/flux/view/bin && flux start -s2 flux run -N2 sh -c 'echo $FLUX_TASK_RANK; command -v python3'"
    )
    out = run(app, "/bin/sh", "-c", f"{script} || true", options=mount)
    assert sorted(out.split()) == ["0", "1"]


@pytest.mark.e2e
@on_engine
def test_the_stand_in_says_what_it_is(progress: Progress) -> None:
    assert "stand-in" in run(images.standin_image(progress), "flux", "version")


def test_packages_are_found_by_the_files_they_own() -> None:
    if not Path("/usr/bin/dpkg-query").exists():
        pytest.skip("no dpkg here")
    names, strays = debian.owners([Path("/bin/sh"), Path("/usr/bin/env"), Path(__file__)])
    assert "coreutils" in names
    assert strays == [Path(__file__)]
