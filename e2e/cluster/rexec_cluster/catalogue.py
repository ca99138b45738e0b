"""The images that every cluster's registry starts with: which ones the cache has, and under which names."""

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .build import COREDNS, PAUSE_SOURCE, pause_program
from .images import Descriptor, Store, tar_of_files
from .paths import Cache, content_key
from .settings import COREDNS_IMAGE, PAUSE_IMAGE

_LAYOUT = b"1"


@dataclass(frozen=True)
class Entry:
    """An image in the cache: made from the recipe `key`, known by `names`."""

    key: str
    names: tuple[str, ...]
    top: Descriptor


class Catalogue:
    """One small file for each image beside the blobs."""

    def __init__(self, cache: Cache) -> None:
        self.store = Store(cache.images)
        self._entries = cache.images / "entries"

    def find(self, key: str) -> Entry | None:
        try:
            return _decode(self._entries / f"{key}.json")
        except FileNotFoundError:
            return None

    def add(self, entry: Entry) -> None:
        self._entries.mkdir(parents=True, exist_ok=True)
        content = {"names": entry.names, "top": [entry.top.media_type, entry.top.digest, entry.top.size]}
        scratch = self._entries / f".{entry.key}.{os.getpid()}"
        scratch.write_text(json.dumps(content))
        scratch.rename(self._entries / f"{entry.key}.json")


def _decode(file: Path) -> Entry:
    content = json.loads(file.read_text())
    media_type, digest, size = content["top"]
    return Entry(file.stem, tuple(content["names"]), Descriptor(media_type, digest, size))


def program_image(cache: Cache, name: str, key_parts: list[bytes], program: Path) -> Entry:
    """An image with one static program in it, made unless the cache has it."""
    catalogue = Catalogue(cache)
    key = content_key(_LAYOUT, name.encode(), *key_parts)
    if found := catalogue.find(key):
        return found
    with tempfile.TemporaryDirectory(dir=cache.root, prefix=".new-") as scratch:
        tar = Path(scratch) / "layer.tar"
        tar_of_files(tar, {program.name: program})
        layer = catalogue.store.add_layer(tar)
    top = catalogue.store.add_image([layer], {"Entrypoint": [f"/{program.name}"], "WorkingDir": "/"})
    entry = Entry(key, (name,), top)
    catalogue.add(entry)
    return entry


def system_images(cache: Cache) -> list[Entry]:
    """What Kubernetes itself needs: the pods' sandbox and the cluster's DNS."""
    return [
        program_image(cache, PAUSE_IMAGE, [PAUSE_SOURCE.read_bytes()], pause_program(cache)),
        program_image(cache, COREDNS_IMAGE, [COREDNS.key().encode()], COREDNS.path(cache)),
    ]
