"""Archives of several images, as `kind build node-image` reads them, and images that boot a system."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kueue_flux.devcluster.images import layers
from kueue_flux.devcluster.images.archive import Image, Layer


@dataclass(frozen=True)
class SystemImage(Image):
    """An image that boots a system, and is stopped as one.

    Args:
        stop_signal: what tells its first process to shut down, for example `SIGRTMIN+3` (systemd(1)).
    """

    stop_signal: str = ""

    def config(self, machine: str) -> bytes:
        """The image configuration.

        Args:
            machine: the processor's name as `uname -m` says it.
        """
        value = json.loads(super().config(machine))
        value["config"]["StopSignal"] = self.stop_signal
        return json.dumps(value, sort_keys=True).encode()


def layer(tar: Path) -> Layer:
    """A tar file as a layer.

    Args:
        tar: the file.
    """
    with tar.open("rb") as file:
        return Layer(tar, hashlib.file_digest(file, "sha256").hexdigest())


def pack(folder: Path) -> Layer:
    """A folder as a layer, in a tar file beside it.

    Args:
        folder: becomes the root of the image, owned by root.
    """
    tar = folder.with_name(folder.name + ".tar")
    layers.pack(folder, tar)
    return layer(tar)


def write(images: Mapping[str, Image], out: IO[bytes]) -> None:
    """Write an archive of images.

    `repositories` comes first: kind takes the names of an archive from the first list of names it meets, and
    from `manifest.json` it would take the first image's alone.

    Args:
        images: reference (with a tag) to image.
        out: where the archive goes.
    """
    machine = platform.machine()
    repositories: dict[str, dict[str, str]] = {}
    manifest = []
    files: dict[str, bytes | Path] = {}
    for reference, image in images.items():
        repository, tag = reference.rsplit(":", 1)
        repositories.setdefault(repository, {})[tag] = image.layers[-1].digest
        config = image.config(machine)
        config_name = hashlib.sha256(config).hexdigest() + ".json"
        names = [f"{item.digest}/layer.tar" for item in image.layers]
        manifest.append({"Config": config_name, "RepoTags": [reference], "Layers": names})
        files[config_name] = config
        files.update(zip(names, (item.path for item in image.layers), strict=True))
    lists = {"repositories": json.dumps(repositories).encode(), "manifest.json": json.dumps(manifest).encode()}
    with tarfile.open(fileobj=out, mode="w|") as archive:
        for name, content in {**lists, **files}.items():
            if isinstance(content, Path):
                archive.add(content, name)
            else:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
