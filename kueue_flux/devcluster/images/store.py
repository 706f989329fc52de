"""The Docker engine's image store: what is in it, what is put into it, and whether a registry fills it for us."""

import os
import platform
import subprocess
from collections.abc import Sequence

from kueue_flux.devcluster import engine, process
from kueue_flux.devcluster.errors import CommandFailed
from kueue_flux.devcluster.images import archive
from kueue_flux.devcluster.images.archive import Image
from kueue_flux.devcluster.progress import Progress

# a host name that no registry has: a kubelet or an engine that lacks one of our images must not find another's
REPOSITORY = "localhost/kueue-flux"
_PATIENCE = 10.0  # seconds until a registry that has said nothing counts as absent


def present(reference: str) -> bool:
    """Whether the engine has an image.

    Args:
        reference: its name, with a tag or digest.
    """
    return process.works([engine.docker(), "image", "inspect", "--format", "{{.Id}}", reference])


def remove_others(reference: str) -> list[str]:
    """Remove the images of our own that an image has taken the place of; those that containers use stay.

    Args:
        reference: the image that stays.

    Returns:
        What was removed.

    Raises:
        ValueError: it is none of our own.
        CommandFailed: the engine does not say what it has.
    """
    repository = reference.rpartition(":")[0]
    if not repository.startswith(f"{REPOSITORY}/"):
        raise ValueError(f"{reference} was not made here")
    listing = process.output([engine.docker(), "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", repository])
    others = sorted(set(listing.split()) - {reference, f"{repository}:<none>"})
    return [other for other in others if process.works([engine.docker(), "image", "rm", other])]


def pull(reference: str, progress: Progress) -> str | None:
    """Fetch an image from its registry where the engine lacks it.

    Args:
        reference: its name, with a tag or digest.
        progress: told what is done.

    Returns:
        None where the engine has the image; else why it could not be had.
    """
    if present(reference):
        return None
    if offline():
        return "KUEUE_FLUX_OFFLINE is set"
    try:
        with progress.stage(f"pull {reference}") as stage:
            process.stream([engine.docker(), "pull", reference], stage.update, first_line_within=_PATIENCE)
    except CommandFailed as error:
        return error.output.strip().splitlines()[-1] if error.output.strip() else "no answer"
    return None


def offline() -> bool:
    """Whether the user says that there is no registry (KUEUE_FLUX_OFFLINE=1)."""
    return os.environ.get("KUEUE_FLUX_OFFLINE", "") not in ("", "0")


def load(title: str, image: Image, progress: Progress) -> str:
    """Put an image into the engine; one that is there already is left.

    Args:
        title: what it is, with a version where it has one, for example `flux:0.88.0`.
        image: the image.
        progress: told what is done.

    Returns:
        Its reference, whose tag changes with its content.
    """
    machine = platform.machine()
    name, _, version = title.partition(":")
    reference = f"{REPOSITORY}/{name}:{version}{'-' if version else ''}{image.identity(machine)}"
    if present(reference):
        return reference
    command = [str(engine.docker()), "load", "--quiet"]
    with (
        progress.stage(f"load image {reference} into the engine"),
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child,
    ):
        assert child.stdin is not None  # noqa: S101 - PIPE above
        assert child.stdout is not None  # noqa: S101
        try:
            archive.write(image, reference, machine, child.stdin)
            child.stdin.close()
        except BrokenPipeError:
            pass  # the client ended early; its status and output say why
        output = child.stdout.read().decode(errors="replace")
    if child.returncode:
        raise CommandFailed(command, child.returncode, output)
    return reference


def build(arguments: Sequence[str], reference: str, progress: Progress) -> None:
    """Run `docker build`.

    Args:
        arguments: what it is given besides the name, the context last.
        reference: the name of the result.
        progress: told what is done.

    Raises:
        CommandFailed: it failed.
    """
    with progress.stage(f"build {reference}") as stage:
        process.stream([engine.docker(), "build", "--tag", reference, *arguments], stage.update)
