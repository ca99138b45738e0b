"""Image archives: reading what `docker save`, buildah, skopeo and others write, and writing one for containerd."""

import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ClusterError
from .images import CONFIG, LAYER, MANIFEST, Descriptor, Store
from .names import parse_image_name

_NAME = "io.containerd.image.name"
_REFERENCE = "org.opencontainers.image.ref.name"
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Archived:
    """An image in an archive, with the names the archive gives it."""

    names: tuple[str, ...]
    top: Descriptor


def read(file: Path, store: Store) -> list[Archived]:
    """Put an archive's blobs into the store and return its images; newer docker archives are OCI layouts as well."""
    try:
        with tarfile.open(file) as tar:
            members = {member.name.removeprefix("./"): member for member in tar.getmembers() if member.isfile()}
            tags = _load(tar, members["manifest.json"]) if "manifest.json" in members else []
            if "index.json" in members:
                return _read_layout(tar, members, tags, store)
            if tags:
                return [_read_docker(tar, members, entry, store) for entry in tags]
    except tarfile.ReadError as error:
        raise ClusterError(f"{file} cannot be read as an image archive: it is no tar file") from error
    except OSError as error:
        raise ClusterError(f"{file} cannot be read ({error.strerror})") from error
    raise ClusterError(f"{file} is no image archive: it has neither an index.json (OCI) nor a manifest.json (docker)")


def _load(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Any:
    return json.loads(_bytes(tar, member))


def _bytes(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = tar.extractfile(member)
    assert content is not None
    return content.read()


def _read_layout(
    tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo], tags: list[dict[str, Any]], store: Store
) -> list[Archived]:
    for name, member in members.items():
        if name.startswith("blobs/sha256/") and (content := tar.extractfile(member)) is not None:
            store.add_stream(content, "")
    entries = _load(tar, members["index.json"])["manifests"]
    docker_names = tuple(tags[0].get("RepoTags") or ()) if len(tags) == 1 == len(entries) else ()
    return [
        Archived(
            _names(entry.get("annotations") or {}) or docker_names,
            Descriptor(entry["mediaType"], entry["digest"], entry["size"]),
        )
        for entry in entries
    ]


def _names(annotations: dict[str, str]) -> tuple[str, ...]:
    """The reference annotation may be a mere tag, which names nothing."""
    name = annotations.get(_NAME) or annotations.get(_REFERENCE, "")
    return (name,) if ":" in name or "/" in name else ()


def _read_docker(
    tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo], entry: dict[str, Any], store: Store
) -> Archived:
    layers = []
    for name in entry["Layers"]:
        with tar.extractfile(members[name]) as content:  # type: ignore[union-attr]
            kind = LAYER if content.read(2) == _GZIP else LAYER.removesuffix("+gzip")
            content.seek(0)
            layers.append(store.add_stream(content, kind))
    config = store.add_bytes(_bytes(tar, members[entry["Config"]]), CONFIG)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.to_json(),
        "layers": [layer.to_json() for layer in layers],
    }
    top = store.add_bytes(json.dumps(manifest, sort_keys=True).encode(), MANIFEST)
    return Archived(tuple(entry.get("RepoTags") or ()), top)


def write(target: Path, store: Store, top: Descriptor, name: str) -> None:
    """Write one image as an OCI archive that containerd imports under `name`."""
    entry = {**top.to_json(), "annotations": {_NAME: name, _REFERENCE: parse_image_name(name).tag}}
    index = {"schemaVersion": 2, "manifests": [entry]}
    with tarfile.open(target, "w") as tar:
        _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(tar, "index.json", json.dumps(index, sort_keys=True).encode())
        for digest in [*store.content(top), *(manifest.digest for manifest in store.manifests(top))]:
            path = store.path(digest)
            member = tarfile.TarInfo(f"blobs/{digest.replace(':', '/')}")
            member.size = path.stat().st_size
            with path.open("rb") as content:
                tar.addfile(member, content)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def named(archived: list[Archived], file: Path, name: str | None) -> list[tuple[str, Descriptor]]:
    """The images of an archive under the names they are to have; a name that is given replaces the archive's."""
    if name is not None:
        if len(archived) != 1:
            raise ClusterError(f"{file} has {len(archived)} images, so one name cannot be given to them")
        return [(str(parse_image_name(name)), archived[0].top)]
    pairs = [(str(parse_image_name(own)), image.top) for image in archived for own in image.names]
    if not pairs:
        raise ClusterError(f"{file} does not say what its image is called: give a NAME")
    return pairs
