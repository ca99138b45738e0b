"""Our images, as the images tool wrote them, and how they get to a cluster's nodes."""

import json
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import crane
from .cluster import Cluster, LocalCluster
from .errors import E2eError
from .paths import IMAGES
from .steps import step

# A registry that exists nowhere: a local cluster asks its own registry for whatever name is in a manifest.
LOCAL_PREFIX = "local.rexec.invalid"


@dataclass(frozen=True)
class Archive:
    """One image on disk."""

    name: str
    path: Path
    tag: str


def archives(directory: Path = IMAGES) -> list[Archive]:
    """What `make images` wrote."""
    index = directory / "images.json"
    try:
        entries = json.loads(index.read_text())
    except FileNotFoundError as error:
        raise E2eError(f"{index} is not there: run `make images`") from error
    return [Archive(name, directory / entry["archive"], entry["tag"]) for name, entry in sorted(entries.items())]


def provide(cluster: Cluster, registry: str) -> dict[str, str]:
    """Make the images available to the cluster's nodes; returns image name → full reference."""
    if isinstance(cluster, LocalCluster):
        return _to_local(cluster)
    if not registry:
        raise E2eError(
            "say where the cluster pulls images from, and where you may push: REGISTRY=HOST/PREFIX "
            "(sign in with `docker login`, or with any tool that writes ~/.docker/config.json)"
        )
    for archive in archives():
        push(archive, registry)
    return references(registry)


def references(registry: str) -> dict[str, str]:
    """What the images are called in a registry, by image name."""
    return {archive.name: _reference(archive, registry) for archive in archives()}


def _reference(archive: Archive, registry: str) -> str:
    return f"{registry.rstrip('/')}/{archive.name}:{archive.tag}"


def _to_local(cluster: LocalCluster) -> dict[str, str]:
    for archive in archives():
        with step(f"push {archive.name}:{archive.tag} to the cluster's registry"):
            cluster.tool("push-image", archive.path, _reference(archive, LOCAL_PREFIX), quiet=True)
    return references(LOCAL_PREFIX)


def push(archive: Archive, registry: str) -> None:
    """Push an archive as it is, so that its digest stays."""
    reference = _reference(archive, registry)
    with step(f"push {reference}"), tempfile.TemporaryDirectory(prefix="rexec-image-") as layout:
        with tarfile.open(archive.path) as tar:
            tar.extractall(layout, filter="data")
        done = subprocess.run([crane.program(), "push", layout, reference], capture_output=True, text=True, check=False)
        if done.returncode:
            raise E2eError(f"{reference} cannot be pushed: {done.stderr.strip()}")
