"""Images as `docker load` reads them, written here layer by layer.

Where no registry answers there is nothing to build FROM, and a builder adds little to putting one tar file
on top of another. Writing the archive ourselves keeps layers apart and stable: they are made once, cached as
files, and shared by every image, so that the engine and the nodes of a cluster store each of them once.

Format: the OCI image configuration (opencontainers/image-spec, config.md) in Docker's archive of it
(moby/docker-image-spec, v1.2).
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # uname's name to the image format's
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Layer:
    """One layer of an image: a tar file on disk.

    Args:
        path: the tar file, not compressed.
        digest: SHA-256 of that file in hex, which is the layer's diff id.
    """

    path: Path
    digest: str


@dataclass(frozen=True)
class Image:
    """An image that is not in the engine yet.

    Args:
        layers: from the lowest to the topmost.
        env: variables of its containers, PATH among them.
        user: who runs, as `uid:gid`; empty for root.
        entrypoint: the command's first words.
        command: the words after them.
        labels: what the image says about itself.
    """

    layers: tuple[Layer, ...]
    env: Mapping[str, str] = field(default_factory=lambda: {"PATH": PATH})
    user: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def config(self, machine: str) -> bytes:
        """The image configuration; its SHA-256 is the image's id.

        Args:
            machine: the processor's name as `uname -m` says it.
        """
        value = {
            "architecture": _ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": {
                "Env": [f"{name}={text}" for name, text in self.env.items()],
                "User": self.user,
                "Entrypoint": list(self.entrypoint) or None,
                "Cmd": list(self.command) or None,
                "Labels": dict(self.labels),
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in self.layers]},
            "history": [{"created_by": f"kueue-flux: {layer.path.stem}"} for layer in self.layers],
        }
        return json.dumps(value, sort_keys=True).encode()

    def identity(self, machine: str) -> str:
        """A short name for exactly this content, fit for a tag.

        Args:
            machine: the processor's name as `uname -m` says it.
        """
        return hashlib.sha256(self.config(machine)).hexdigest()[:12]


def write(image: Image, reference: str, machine: str, out: IO[bytes]) -> None:
    """Write an image for `docker load`.

    Args:
        image: what to write.
        reference: the name under which the engine will know it, with a tag.
        machine: the processor's name as `uname -m` says it.
        out: where the archive goes; need not be seekable.
    """
    config = image.config(machine)
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    names = [f"{layer.digest}/layer.tar" for layer in image.layers]
    manifest = json.dumps([{"Config": config_name, "RepoTags": [reference], "Layers": names}]).encode()
    with tarfile.open(fileobj=out, mode="w|") as archive:
        for name, layer in dict(zip(names, image.layers, strict=True)).items():
            archive.add(layer.path, name)
        for name, data in ((config_name, config), ("manifest.json", manifest)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
