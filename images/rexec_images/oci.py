"""OCI images and archives, written so that the same content always gives the same bytes."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEX = "application/vnd.oci.image.index.v1+json"

# The earliest time that every tool accepts (zip files, and so wheels, know no earlier one).
TIME = 315_532_800
CREATED = "1980-01-01T00:00:00Z"


@dataclass(frozen=True)
class File:
    """A regular file in a layer."""

    content: bytes
    executable: bool = False


Layer = Mapping[str, File]
"""Absolute path in the image → file."""


@dataclass(frozen=True)
class Image:
    """What an image is made of; `name` is its repository without registry."""

    name: str
    version: str
    title: str
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Built:
    """An image as blobs, by digest."""

    name: str
    tag: str
    manifest: bytes
    blobs: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """The digest that a registry knows the image by."""
        return digest_of(self.manifest)

    @property
    def size(self) -> int:
        """Bytes that a registry stores and a node pulls."""
        return sum(map(len, self.blobs.values()))


def digest_of(content: bytes) -> str:
    """`sha256:…`."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def layer_tar(files: Layer) -> bytes:
    """The layer as an uncompressed tar: sorted, owned by root, one time for all, with every parent directory."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for directory in sorted({parent for path in files for parent in _parents(path)}):
            tar.addfile(_member(directory, tarfile.DIRTYPE, 0o755))
        for path in sorted(files):
            file = files[path]
            member = _member(path.lstrip("/"), tarfile.REGTYPE, 0o755 if file.executable else 0o644)
            member.size = len(file.content)
            tar.addfile(member, io.BytesIO(file.content))
    return buffer.getvalue()


def _parents(path: str) -> Iterable[str]:
    return (str(parent) for parent in PurePosixPath(path.lstrip("/")).parents if str(parent) != ".")


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.mode = mode
    member.mtime = TIME
    return member


def build(image: Image) -> Built:
    """Make the blobs. The tag is the version and a hash of what is in the image, so it never names two contents.

    The hash is that of the configuration, which holds the digests of the uncompressed layers: another version of the
    compressor gives other blobs, but the same tag.
    """
    blobs: dict[str, bytes] = {}
    layers, diff_ids = [], []
    for files in image.layers:
        tar = layer_tar(files)
        diff_ids.append(digest_of(tar))
        layers.append(_store(blobs, LAYER, gzip.compress(tar, compresslevel=6, mtime=0)))
    config = _store(blobs, CONFIG, _json(_config(image, diff_ids)))
    manifest = _json({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers})
    tag = f"{image.version}-{config['digest'].removeprefix('sha256:')[:12]}"
    return Built(image.name, tag, manifest, blobs)


def _store(blobs: dict[str, bytes], media_type: str, content: bytes) -> dict[str, Any]:
    digest = digest_of(content)
    blobs[digest] = content
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def _config(image: Image, diff_ids: list[str]) -> dict[str, Any]:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **image.environment}
    return {
        "created": CREATED,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": "65532:65532",
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Entrypoint": list(image.entrypoint),
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": image.title,
                "org.opencontainers.image.version": image.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": [{"created": CREATED, "created_by": "rexec_images"} for _ in diff_ids],
    }


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def write_archive(built: Built, name: str, target: Path) -> None:
    """Write an OCI archive that `ctr images import`, `skopeo`, `podman load` and `kind load image-archive` take."""
    entry = {
        "mediaType": MANIFEST,
        "digest": built.digest,
        "size": len(built.manifest),
        "annotations": {
            "io.containerd.image.name": f"{name}:{built.tag}",
            "org.opencontainers.image.ref.name": built.tag,
        },
    }
    members = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}),
    }
    for digest, content in {**built.blobs, built.digest: built.manifest}.items():
        members["blobs/" + digest.replace(":", "/")] = content
    scratch = target.with_suffix(".new")
    with tarfile.open(scratch, "w", format=tarfile.GNU_FORMAT) as tar:
        for path, content in members.items():
            member = _member(path, tarfile.REGTYPE, 0o644)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    scratch.replace(target)
