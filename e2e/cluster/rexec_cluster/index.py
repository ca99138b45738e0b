"""A package index for pods: wheels fetched once on the host, served as static files on the first node's address.

It is the "simple" index of PEP 503, with each wheel's metadata beside it (PEP 658), so that an installer can resolve
without downloading whole wheels. All clusters serve the same directory.
"""

import hashlib
import html
import os
import re
import shutil
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from . import file_server
from .debian import Bundle
from .errors import ClusterError
from .paths import SOURCE, Cache, content_key
from .processes import run
from .progress import step
from .settings import DEFAULT_PYTHON_IMAGES, INDEX_PORT

PACKAGES = SOURCE / "index-packages.txt"
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")
_LAYOUT = b"1"


@dataclass(frozen=True)
class Wheel:
    """A wheel as the index lists it."""

    file: str
    sha256: str
    metadata_sha256: str

    @property
    def project(self) -> str:
        return normalise(self.file.split("-")[0])


def normalise(name: str) -> str:
    """A project's name as PEP 503 spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(text: str) -> list[str]:
    """The lines of a package list, without comments."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def rounds(lines: list[str]) -> list[list[str]]:
    """Split a list so that no project stands twice in a part: pip takes one version of a project at a time."""
    parts: list[list[str]] = []
    for line in lines:
        project = normalise(re.split(r"[\s\[=<>!~;@]", line, maxsplit=1)[0])
        for part in parts:
            if project not in (normalise(re.split(r"[\s\[=<>!~;@]", other, maxsplit=1)[0]) for other in part):
                part.append(line)
                break
        else:
            parts.append([line])
    return parts


def project_page(project: str, wheels: list[Wheel]) -> str:
    """The page of one project."""
    links = []
    for wheel in wheels:
        address = html.escape(f"../../wheels/{wheel.file}#sha256={wheel.sha256}")
        metadata = f'data-core-metadata="sha256={wheel.metadata_sha256}"'
        links.append(f'<a href="{address}" {metadata}>{html.escape(wheel.file)}</a><br>')
    return _page(f"Links for {project}", links)


def root_page(projects: list[str]) -> str:
    """The page that lists all projects."""
    return _page("Simple index", [f'<a href="{name}/">{name}</a><br>' for name in projects])


def _page(title: str, lines: list[str]) -> str:
    head = '<meta name="pypi:repository-version" content="1.0">'
    body = "\n".join(lines)
    return f"<!DOCTYPE html>\n<html><head>{head}<title>{title}</title></head>\n<body>\n{body}\n</body></html>\n"


def fill(cache: Cache, bundle: Bundle) -> None:
    """Fetch what the package list names, unless that was done for this very list."""
    text = PACKAGES.read_text()
    done = cache.index / f".filled-{content_key(text.encode(), ' '.join(DEFAULT_PYTHON_IMAGES).encode(), _LAYOUT)}"
    if done.exists():
        return
    add(cache, bundle, requirements(text), list(DEFAULT_PYTHON_IMAGES))
    done.touch()


def add(cache: Cache, bundle: Bundle, lines: list[str], python_versions: list[str]) -> None:
    """Fetch distributions with what they need, and list them."""
    wheels = cache.index / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    for version in python_versions:
        for part in rounds(lines):
            with step(f"fetching wheels for Python {version}: {' '.join(part)}"):
                _download(bundle, part, version, wheels)
    write_pages(cache.index)


def _download(bundle: Bundle, lines: list[str], version: str, target: Path) -> None:
    platforms = [option for platform in PLATFORMS for option in ("--platform", platform)]
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-") as scratch:
        options = ["--quiet", "--disable-pip-version-check", "--no-cache-dir", "--only-binary=:all:"]
        options += ["--implementation", "cp", "--python-version", version, *platforms, "--dest", scratch]
        what = f"pip download {' '.join(lines)}"
        run([sys.executable, bundle.pip, "download", *options, *lines], what=what)
        for wheel in Path(scratch).iterdir():
            os.replace(wheel, target / wheel.name)


def write_pages(root: Path) -> None:
    """Write the whole index anew beside the old one, and swap them."""
    by_project: dict[str, list[Wheel]] = {}
    for file in sorted((root / "wheels").glob("*.whl")):
        wheel = _describe(file)
        by_project.setdefault(wheel.project, []).append(wheel)
    fresh = Path(tempfile.mkdtemp(dir=root, prefix=".new-"))
    fresh.chmod(0o755)
    (fresh / "index.html").write_text(root_page(sorted(by_project)))
    for project, wheels in by_project.items():
        (fresh / project).mkdir()
        (fresh / project / "index.html").write_text(project_page(project, wheels))
    old = root / f".old-{os.getpid()}"
    if (root / "simple").exists():
        os.rename(root / "simple", old)
    os.rename(fresh, root / "simple")
    shutil.rmtree(old, ignore_errors=True)


def _describe(file: Path) -> Wheel:
    """Digest a wheel and lay its metadata beside it."""
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    try:
        with zipfile.ZipFile(file) as wheel:
            inside = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
            metadata = wheel.read(inside)
    except (zipfile.BadZipFile, StopIteration) as error:
        raise ClusterError(f"{file} is not a wheel: remove it") from error
    beside = file.with_name(f"{file.name}.metadata")
    if not beside.exists() or beside.read_bytes() != metadata:
        beside.write_bytes(metadata)
    return Wheel(file.name, digest, hashlib.sha256(metadata).hexdigest())


def server_command(cache: Cache) -> list[str | Path]:
    """A command line that serves the index to the pods of a cluster."""
    return file_server.command(INDEX_PORT, cache.index)
