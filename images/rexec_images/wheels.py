"""Files from PyPI that go into images, each pinned by its hash; fetched once and kept in the cache."""

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from .errors import ImagesError
from .oci import File

# The platform of the installer's static build; wheels for any platform fit it too.
PLATFORM = "musllinux_1_1_x86_64"


def fetch(pins: Path, cache: Path) -> dict[str, Path]:
    """The wheels that `pins` names, by project name. The cache is keyed by the pins, so it never goes stale."""
    directory = cache / hashlib.sha256(pins.read_bytes()).hexdigest()[:16]
    if not directory.is_dir():
        _download(pins, directory)
    return {project_of(wheel.name): wheel for wheel in sorted(directory.glob("*.whl"))}


def _download(pins: Path, directory: Path) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".new-", ignore_cleanup_errors=True) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps"]
        command += ["--only-binary", ":all:", "--platform", PLATFORM, "--requirement", str(pins), "--dest", scratch]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ImagesError(f"the wheels that {pins} pins cannot be fetched from PyPI: {done.stderr.strip()}")
        try:
            Path(scratch).rename(directory)
        except OSError:
            if not directory.is_dir():  # else somebody else fetched the same files meanwhile
                raise


def project_of(wheel: str) -> str:
    """The project's name, normalised as PyPI does."""
    return re.sub(r"[-_.]+", "-", wheel.split("-", 1)[0]).lower()


def member(wheel: Path, pattern: str) -> bytes:
    """The one file of a wheel whose whole path matches `pattern`."""
    with zipfile.ZipFile(wheel) as archive:
        found = [name for name in archive.namelist() if re.fullmatch(pattern, name)]
        if len(found) != 1:
            raise ImagesError(f"{wheel.name} has {len(found)} files that match {pattern}, not one")
        return archive.read(found[0])


def library(wheel: Path, leave_out: str) -> dict[str, File]:
    """What installing a pure wheel puts on Python's path, without its scripts and what matches `leave_out`."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and ".data/" not in name]
        return {name: File(archive.read(name)) for name in names if not re.match(leave_out, name)}
