"""Python interpreters on the machine that an image can be made from."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .errors import ClusterError

_RELEASE = re.compile(r"3\.(\d+)\.(\d+)")
_MINORS = range(9, 15)


@dataclass(frozen=True)
class Interpreter:
    """An installed CPython; Debian's own has its parts in other places than one that was built from source."""

    version: str
    prefix: Path
    debian: bool

    @property
    def minor(self) -> str:
        return self.version.rpartition(".")[0]

    @property
    def library(self) -> Path:
        return self.prefix / "lib" / f"python{self.minor}"


def find(home: Path, system: Path = Path("/usr")) -> list[Interpreter]:
    """pyenv's interpreters, and Debian's own for a minor version that pyenv does not have."""
    found = [
        Interpreter(directory.name, directory, debian=False)
        for directory in _directories(home / ".pyenv" / "versions")
        if (match := _RELEASE.fullmatch(directory.name)) and int(match[1]) in _MINORS
    ]
    known = {interpreter.minor for interpreter in found}
    for binary in sorted((system / "bin").glob("python3.*")):
        minor = binary.name.removeprefix("python")
        if re.fullmatch(r"3\.\d+", minor) and minor not in known and (system / "lib" / binary.name / "os.py").exists():
            found.append(Interpreter(_version_of(binary, minor), system, debian=True))
    return sorted(found, key=_order)


def _directories(parent: Path) -> Iterable[Path]:
    return [path for path in parent.iterdir() if path.is_dir()] if parent.is_dir() else []


def _version_of(binary: Path, minor: str) -> str:
    """The full version is a string in the binary: nothing has to be run."""
    match = re.search(rb"\0(" + re.escape(minor).encode() + rb"\.\d+)\0", binary.read_bytes())
    return match[1].decode() if match else f"{minor}.0"


def _order(interpreter: Interpreter) -> tuple[int, ...]:
    return tuple(map(int, interpreter.version.split(".")))


def choose(found: list[Interpreter], wanted: str) -> Interpreter:
    """The interpreter for `X.Y` (its newest release) or `X.Y.Z`."""
    fitting = [item for item in found if wanted in (item.version, item.minor)]
    if not fitting:
        have = ", ".join(item.version for item in found) or "none"
        raise ClusterError(f"no Python {wanted} on this machine to make an image from (found: {have})")
    return fitting[-1]
