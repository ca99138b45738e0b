"""Virtual environments in the cache, one for each set of pins: `python -m rexec_e2e.venvs NAME` prints its path."""

import fcntl
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .errors import E2eError
from .paths import E2E, cache
from .steps import say, step

# The Python of the examples and of the environments that the tests make; the public client's pickles hold bytecode, so
# its side must be of the same minor version.
CLIENT_PYTHON = "3.11"

PIP = "pip==26.3"

PINS = {
    "tools": E2E / "requirements.txt",
    "client": E2E / "requirements-client.txt",
    "server": E2E / "requirements-server.txt",
    "bench": E2E / "requirements-bench.txt",
}


def venv(name: str) -> Path:
    """The environment `name`, made unless the cache has one with these pins and this interpreter."""
    pins = PINS[name]
    python = Path(sys.executable).resolve() if name == "tools" else find_python(CLIENT_PYTHON)
    key = hashlib.sha256(f"{python}\n{python.stat().st_size}\n".encode() + pins.read_bytes()).hexdigest()[:16]
    directory = cache() / "venv" / f"{name}-{key}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f".{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / ".complete").exists():
            with step(f"virtual environment '{name}' from {pins.name}"):
                _create(directory, python, pins)
    return directory


def find_python(minor: str, which: Callable[[str], str | None] = shutil.which) -> Path:
    """An installed CPython of this minor version."""
    if sys.version_info[:2] == tuple(map(int, minor.split("."))):
        return Path(sys.executable).resolve()
    candidates = [
        which(f"python{minor}"),
        *map(str, sorted(Path.home().glob(f".pyenv/versions/{minor}.*/bin/python3"))),
    ]
    for candidate in filter(None, candidates):
        done = subprocess.run(
            [candidate, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return Path(done.stdout.strip()).resolve()
    raise E2eError(
        f"Python {minor} is needed for the public client and is not on this machine: apt-get install python{minor}"
    )


def _create(directory: Path, python: Path, pins: Path) -> None:
    """A virtual environment names its own path, so it is made in place and marked when complete."""
    shutil.rmtree(directory, ignore_errors=True)
    _run([str(python), "-m", "venv", "--without-pip", str(directory)], "python -m venv")
    with tempfile.TemporaryDirectory(prefix="rexec-pip-") as scratch:
        pip = _pip(directory, Path(scratch))
        options = ["--quiet", "--disable-pip-version-check", "--no-deps"]
        _run(
            [str(directory / "bin" / "python"), *pip, "install", *options, "-r", str(pins)],
            f"pip install -r {pins.name}",
        )
        if directory.name.startswith("tools-"):
            # The images tool downloads wheels with the pip of the environment that it runs in.
            _run([str(directory / "bin" / "python"), *pip, "install", *options, PIP], f"pip install {PIP}")
    (directory / ".complete").touch()


def _pip(directory: Path, scratch: Path) -> list[str]:
    """How to run pip by an environment's Python: the bundled one, or, where Debian left that out, Debian's wheel of it."""
    python = str(directory / "bin" / "python")
    if importlib.util.find_spec("ensurepip"):
        done = subprocess.run([python, "-m", "ensurepip", "--default-pip"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return ["-m", "pip"]
    wheels = sorted(Path("/usr/share/python-wheels").glob("pip-*.whl")) or _debian_pip(scratch)
    return [str(wheels[-1] / "pip")]


def _debian_pip(scratch: Path) -> list[Path]:
    """Fetch Debian's package of the pip wheel and unpack it; nothing is installed."""
    say("    this Python comes without pip: fetching Debian's wheel of it")
    hint = "no pip for the virtual environments: apt-get install python3-venv"
    download = ["apt-get", "download", "--quiet", "python3-pip-whl"]
    done = subprocess.run(download, cwd=scratch, capture_output=True, text=True, check=False)
    if done.returncode:
        raise E2eError(f"{hint} ({' '.join(download)} said: {done.stderr.strip()})")
    for package in scratch.glob("*.deb"):
        _run(["dpkg", "-x", str(package), str(scratch / "root")], "dpkg -x")
    wheels = sorted((scratch / "root").glob("usr/share/python-wheels/pip-*.whl"))
    if not wheels:
        raise E2eError(hint)
    return wheels


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise E2eError(f"{what} failed: {(done.stderr or done.stdout).strip()}")


def main(arguments: list[str]) -> int:
    """Print the path of the environment that is named."""
    if sys.version_info < (3, 11):  # noqa: UP036 - it is started by whatever `python3` is
        say(f"venv: Python 3.11 or later is needed, and python3 is {sys.version.split()[0]}: set PYTHON=…")
        return 1
    try:
        print(venv(arguments[0]))
    except E2eError as error:
        say(f"venv: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
