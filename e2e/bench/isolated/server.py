"""A runtime server that checks signatures, and what the measurements need of it."""

import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rexec_e2e import paths, processes, venvs
from rexec_e2e.call_api import Call, body
from rexec_e2e.errors import E2eError
from rexec_e2e.processes import Server

AUDIENCE = "3b4ad2c0-0000-4000-8000-bench0000000"
_TOKEN_SECONDS = 50


@dataclass
class Runtime:
    """A running server, and a directory for the files of a measurement."""

    server: Server
    root: Path
    port: int
    control_port: int
    python: Path
    _token: str = ""
    _token_until: float = field(default=0.0)

    def load(self, command: str, *options: object, seconds: float = 900) -> Any:
        """What a sub-command of the load client measured."""
        target = ["--server", f"127.0.0.1:{self.port}", *self._signing()]
        words = [_load(), command, *target, *options]
        return _run([str(word) for word in words], seconds)

    def _signing(self) -> list[str | Path]:
        return ["--signing-key", self.root / "keys" / "signing.pem", "--audience", AUDIENCE]

    def _authorization(self) -> dict[str, str]:
        if time.monotonic() > self._token_until:
            self._token = _run([str(word) for word in (_load(), "token", *self._signing())], 10)["token"]
            self._token_until = time.monotonic() + _TOKEN_SECONDS
        return {"authorization": f"Bearer {self._token}"}

    def start(self, source: str, names: dict[str, object] | None = None) -> Call:
        """A call under way that runs these lines of Python."""
        return Call(self.port, body(exec, source, names or {}), self._authorization())

    def lines(self, source: str) -> list[str]:
        """What a call that runs these lines of Python prints."""
        outcome = self.start(source).finish()
        if outcome.ending["state"] != "succeeded":
            raise E2eError(f"a call of the measurement failed: {outcome.ending}")
        return outcome.stdout.decode().splitlines()

    def file(self, name: str, content: bytes) -> Path:
        """A file for the load client."""
        path = self.root / name
        path.write_bytes(content)
        return path

    def script(self, name: str, source: str) -> Path:
        """A file with the body of a call that runs these lines of Python."""
        return self.file(name, body(exec, source, {}))

    def function(self, name: str, source: str, arguments: str = "") -> Path:
        """A file with what the public client sends: the function `f` that `source` defines, pickled by dill, then the arguments."""
        program = f"import dill, sys\n{source}\nsys.stdout.buffer.write(dill.dumps(f))\n"
        if arguments:
            program += f"sys.stdout.buffer.write(dill.dumps({arguments}))\n"
        done = subprocess.run([self.python, "-c", program], env=_with_library(), capture_output=True, check=True)
        return self.file(name, done.stdout)

    @property
    def pid(self) -> int:
        """The server's process."""
        return self.server.process.pid

    def family(self) -> list[int]:
        """The server, the Python parent, and the spare."""
        parents = processes.children(self.pid)
        return [self.pid, *parents, *(spare for parent in parents for spare in processes.children(parent))]

    def forker(self) -> list[str]:
        """The program that forks a Python holding exactly what the warm parent holds; for the load client."""
        modules = self.lines("import sys; print(*sorted(set(sys.modules) - {'__main__'}), sep=chr(10))")
        here = Path(__file__).parent.parent
        worker = paths.ROOT / "runtime-server" / "python"
        words = [self.python, "-P", here / "forker.py", processes.library(), worker, *modules]
        return [str(word) for word in words]


def _with_library() -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(processes.library())}


def _load() -> Path:
    return paths.binaries() / "rexec-load"


def _run(words: Sequence[str], seconds: float) -> Any:
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        raise E2eError(f"{' '.join(words[:2])}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def check_forker(holds: str) -> None:
    """Refuse a limit whose Python does not hold what the warm parent holds."""
    _, held, _, wanted, *missing = holds.split()
    if held != wanted:
        raise E2eError(
            f"the limit would be too low: its Python cannot hold {' '.join(missing)} as the warm parent does"
        )


@contextlib.contextmanager
def runtime(*options: str) -> Iterator[Runtime]:
    """A server with these options, in a directory of its own that goes with it."""
    with tempfile.TemporaryDirectory(prefix="rexec-bench-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        _run([str(_load()), "key", str(root / "keys")], 10)
        python = venvs.venv("bench") / "bin" / "python"
        port, control_port = processes.free_port(), processes.free_port()
        signed = ("--keys-dir", str(root / "keys"), "--environment-uid", AUDIENCE)
        server = processes.start_signed_runtime(python, root / "home", port, control_port, *signed, *options)
        try:
            yield Runtime(server, root, port, control_port, python)
        finally:
            server.stop()
