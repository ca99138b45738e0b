"""Everything a cluster starts from, built or fetched once and taken from the cache afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import build, catalogue, debian, index, python_images, rights, unpacked
from .catalogue import Entry
from .debian import Bundle
from .paths import Cache
from .settings import DEFAULT_PYTHON_IMAGES


@dataclass(frozen=True)
class Prepared:
    """The programs, the images for the registry, and containerd's storage with the same images unpacked."""

    bundle: Bundle
    images: list[Entry]
    storage: Path


def prepare(cache: Cache, environment: Mapping[str, str]) -> Prepared:
    """Build and fetch what the cache lacks, once it is known that the host can run it."""
    rights.require_tools(cache)
    with build.only_one_builder(cache):
        bundle = debian.fetch(cache)
        rights.require_host(cache, bundle)
        build.build_programs(cache)
        images = catalogue.system_images(cache)
        images += [python_images.python_image(cache, bundle, version) for version in _python_versions(environment)]
        index.fill(cache, bundle)
        return Prepared(bundle, images, unpacked.ensure(cache, bundle, images))


def _python_versions(environment: Mapping[str, str]) -> list[str]:
    chosen = environment.get("PYTHON_IMAGES")
    return chosen.split() if chosen else list(DEFAULT_PYTHON_IMAGES)
