"""Image names: what people write, in full."""

import re
from dataclasses import dataclass

from .errors import ClusterError

_REPOSITORY = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class ImageName:
    """registry/repository:tag"""

    registry: str
    repository: str
    tag: str

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}:{self.tag}"


def parse_image_name(text: str) -> ImageName:
    """Fill in what is left out: `python` is `docker.io/library/python:latest`, as everywhere."""
    head, slash, rest = text.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        registry, path = head, rest
    else:
        registry, path = "docker.io", text
    repository, colon, tag = path.partition(":")
    if registry == "docker.io" and "/" not in repository:
        repository = f"library/{repository}"
    if not colon:
        tag = "latest"
    if not _REPOSITORY.fullmatch(repository) or not _TAG.fullmatch(tag):
        raise ClusterError(f"{text!r} is not an image name of the form [registry/]repository[:tag]")
    return ImageName(registry, repository, tag)
