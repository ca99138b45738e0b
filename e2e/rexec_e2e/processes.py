"""Servers as plain processes on loopback, for tests and benchmarks without a cluster."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import paths, venvs
from .client import Client, on_this_machine
from .errors import E2eError
from .steps import eventually

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        return int(listener.getsockname()[1])


class Server:
    """A process with a log file."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(environment),
                cwd=log.parent,
                start_new_session=True,
            )

    def wait_until(self, what: str, ready: Callable[[], bool], seconds: float = 30) -> None:
        """Wait until it is ready; its end, or the time's, is an error with its log."""

        def probe() -> bool:
            if self.process.poll() is not None:
                raise E2eError(f"{self.name} ended with status {self.process.returncode}:\n{self.tail()}")
            return ready()

        try:
            eventually(f"{self.name}: {what}", seconds, probe, pause=0.02)
        except E2eError as error:
            raise E2eError(f"{error}\n{self.tail()}") from None

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])

    def stop(self, seconds: float = 10) -> None:
        """SIGTERM, then SIGKILL to its whole session."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def http_status(port: int, path: str) -> int | None:
    """The status of `GET path` on loopback; None where nobody answers."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def http_json(port: int, path: str) -> Any:
    """The answer to `GET path` on loopback."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def listens(port: int) -> bool:
    """Whether somebody accepts connections on this loopback port."""
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=2):
        return True
    return False


def library() -> Path:
    """The directory that stands last on the path of an environment's Python: dill and our package `rexec`."""
    target = paths.cache() / "runtime-library"
    tools = venvs.venv("tools")
    command = [tools / "bin" / "python", "-m", "rexec_images", "library"]
    command += ["--cache", paths.cache() / "wheels", "--to", target]
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "PYTHONPATH": str(paths.ROOT / "images")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise E2eError(f"the runtime's library cannot be laid out: {done.stderr.strip()}")
    return target / "lib" / "python"


@dataclass
class Stack:
    """A runtime server and a gateway before it, for one user, on loopback."""

    runtime: Server
    gateway: Server
    home: Path
    call_port: int
    control_port: int
    zmtp_port: int
    http_port: int

    def client(self) -> Client:
        """The public client, as the one user; in local mode nobody looks at its token."""
        python = venvs.venv("client") / "bin" / "python"
        return Client(on_this_machine, python, (LOOPBACK, self.zmtp_port), "laptop")

    def stop(self) -> None:
        """End both."""
        self.gateway.stop()
        self.runtime.stop()


def start_runtime(python: Path, home: Path, call_port: int, control_port: int, *options: str) -> Server:
    """`rexec-runtime-server serve --insecure-local`, ready for calls; `home` is what calls see as theirs."""
    return start_signed_runtime(python, home, call_port, control_port, "--insecure-local", *options)


def start_signed_runtime(python: Path, home: Path, call_port: int, control_port: int, *options: str) -> Server:
    """`rexec-runtime-server serve`, ready for calls; `options` say whose signatures it takes."""
    state = home.parent / "state"
    for directory in (home, state, home.parent / "tmp"):
        directory.mkdir(parents=True, exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "USER": "rexec",
        "LOGNAME": "rexec",
        "TMPDIR": str(home.parent / "tmp"),
        "LANG": "C.UTF-8",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command: list[str | Path] = [paths.binaries() / "rexec-runtime-server", "serve"]
    command += ["--listen", f"{LOOPBACK}:{call_port}", "--control-listen", f"{LOOPBACK}:{control_port}"]
    command += ["--python", python, "--library", library(), *options]
    server = Server("runtime server", command, home.parent / "runtime.log", environment)
    server.wait_until("ready", lambda: http_status(control_port, "/readyz") == 200)
    return server


def start_gateway(runtime_port: int, zmtp_port: int, http_port: int, log: Path, *options: str) -> Server:
    """`rexec-gateway --insecure-local`, listening."""
    command: list[str | Path] = [paths.binaries() / "rexec-gateway", "--insecure-local"]
    command += ["--runtime-url", f"http://{LOOPBACK}:{runtime_port}"]
    command += ["--zmtp-listen", f"{LOOPBACK}:{zmtp_port}", "--listen", f"{LOOPBACK}:{http_port}", *options]
    server = Server("gateway", command, log, {"PATH": os.environ["PATH"], "TMPDIR": str(log.parent)})
    server.wait_until("listening", lambda: listens(zmtp_port))
    return server


def start_stack(root: Path, python: Path | None = None) -> Stack:
    """Both, with files below `root`."""
    call_port, control_port, zmtp_port, http_port = (free_port() for _ in range(4))
    python = python or venvs.venv("server") / "bin" / "python"
    home = root / "home"
    runtime = start_runtime(python, home, call_port, control_port)
    try:
        gateway = start_gateway(call_port, zmtp_port, http_port, root / "gateway.log")
    except BaseException:
        runtime.stop()
        raise
    return Stack(runtime, gateway, home, call_port, control_port, zmtp_port, http_port)


@contextlib.contextmanager
def stack(python: Path | None = None) -> Iterator[Stack]:
    """Both, in a directory of their own that goes with them."""
    with tempfile.TemporaryDirectory(prefix="rexec-stack-", ignore_cleanup_errors=True) as root:
        running = start_stack(Path(root), python)
        try:
            yield running
        finally:
            running.stop()


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid: int, seconds: float) -> float | None:
    """Seconds until a process is gone; None where it still runs after `seconds`."""
    start = time.monotonic()
    while is_alive(pid):
        if time.monotonic() - start > seconds:
            return None
        time.sleep(0.005)
    return time.monotonic() - start


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    found = [int(word) for task in tasks for word in task.read_text().split()]
    return sorted(child for child in found if is_alive(child))


def kill(pid: int) -> None:
    """SIGKILL."""
    os.kill(pid, signal.SIGKILL)
