"""Container images as content-addressed blobs, made without a container engine.

Images have the form of the official ones: an index with one manifest for each platform (here one), gzipped layers.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .settings import IMAGE_TIME

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEXES = (INDEX, "application/vnd.docker.distribution.manifest.list.v2+json")

_CREATED = "2023-11-14T22:13:20Z"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Descriptor:
    """A blob as manifests refer to it."""

    media_type: str
    digest: str
    size: int

    def to_json(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True)
class Layer:
    """A compressed layer and the digest of what is in it."""

    blob: Descriptor
    diff_id: str


@dataclass(frozen=True)
class Store:
    """Blobs by digest, laid out as in an OCI image layout."""

    root: Path

    def path(self, digest: str) -> Path:
        algorithm, value = digest.split(":")
        return self.root / "blobs" / algorithm / value

    def read_json(self, digest: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.path(digest).read_bytes())
        return content

    def add_bytes(self, content: bytes, media_type: str) -> Descriptor:
        return self.add_stream(io.BytesIO(content), media_type)

    def add_stream(self, content: IO[bytes], media_type: str) -> Descriptor:
        """Copy a stream into the store; the blob takes its name when it is complete."""
        directory = self.root / "blobs" / "sha256"
        directory.mkdir(parents=True, exist_ok=True)
        digest, size = hashlib.sha256(), 0
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".new-", delete=False) as target:
            while chunk := content.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
                target.write(chunk)
        os.chmod(target.name, 0o644)
        os.replace(target.name, directory / digest.hexdigest())
        return Descriptor(media_type, f"sha256:{digest.hexdigest()}", size)

    def add_layer(self, tar: Path) -> Layer:
        """Compress a tar file into a layer; the same content always gives the same digest."""
        with tar.open("rb") as content:
            diff_id = hashlib.file_digest(content, "sha256").hexdigest()
            content.seek(0)
            with tempfile.TemporaryFile(dir=tar.parent) as packed:
                with gzip.GzipFile(filename="", mode="wb", compresslevel=4, fileobj=packed, mtime=0) as zipped:
                    shutil.copyfileobj(content, zipped, _CHUNK)
                packed.seek(0)
                return Layer(self.add_stream(packed, LAYER), f"sha256:{diff_id}")

    def add_image(self, layers: list[Layer], config: Mapping[str, Any]) -> Descriptor:
        """Put layers and a runtime configuration together; the result is the image's index."""
        full_config = {
            "architecture": "amd64",
            "os": "linux",
            "created": _CREATED,
            "config": dict(config),
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
            "history": [{"created": _CREATED, "created_by": "rexec e2e cluster"} for _ in layers],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.add_bytes(_json(full_config), CONFIG).to_json(),
            "layers": [layer.blob.to_json() for layer in layers],
        }
        entry = self.add_bytes(_json(manifest), MANIFEST).to_json()
        entry["platform"] = {"architecture": "amd64", "os": "linux"}
        return self.add_bytes(_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}), INDEX)

    def manifests(self, top: Descriptor) -> list[Descriptor]:
        """An image's manifests with the index last, if it has one: the order in which a registry takes them."""
        if top.media_type not in INDEXES:
            return [top]
        children = [
            Descriptor(entry["mediaType"], entry["digest"], entry["size"])
            for entry in self.read_json(top.digest)["manifests"]
            if self.path(entry["digest"]).exists()
        ]
        return [*children, top]

    def content(self, top: Descriptor) -> list[str]:
        """The digests of an image's configurations and layers."""
        digests: list[str] = []
        for manifest in self.manifests(top):
            if manifest.media_type in INDEXES:
                continue
            described = self.read_json(manifest.digest)
            digests += [described["config"]["digest"], *(layer["digest"] for layer in described["layers"])]
        return list(dict.fromkeys(digests))


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def tar_of_files(target: Path, files: Mapping[str, Path]) -> None:
    """Write a tar with programs under the given names, owned by root and of a fixed time."""
    with tarfile.open(target, "w") as tar:
        for name, source in sorted(files.items()):
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mode, entry.mtime = source.stat().st_size, 0o755, IMAGE_TIME
            with source.open("rb") as content:
                tar.addfile(entry, content)


def tar_of_tree(target: Path, root: Path) -> None:
    """Write a tar of everything below a directory: sorted, owned by root, of a fixed time."""

    def normalised(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = IMAGE_TIME
        return entry

    with tarfile.open(target, "w") as tar:
        for path in sorted(root.rglob("*")):
            tar.add(path, arcname=str(path.relative_to(root)), recursive=False, filter=normalised)
