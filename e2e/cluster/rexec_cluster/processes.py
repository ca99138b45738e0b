"""Processes by identity (pid and start time), so that a reused pid is never taken for one of ours."""

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import ClusterError

MARK = "REXEC_CLUSTER_TOKEN"

# The shell joins its cgroups before it becomes the command: a child moved by its parent could have forked already.
_JOIN = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 125; shift; done; shift; exec "$@"'


@dataclass(frozen=True)
class Process:
    """One process; `started` is its start time in clock ticks since boot."""

    pid: int
    started: int

    def alive(self) -> bool:
        return _start_of(self.pid) == self.started

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal; that the process has ended meanwhile is no error."""
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


@dataclass(frozen=True)
class Daemon:
    """A process that must not end by itself, and where it says why it did."""

    name: str
    process: Process
    log: Path

    def require(self) -> None:
        if not self.process.alive():
            raise ClusterError(f"{self.name} ended by itself; the end of {self.log}:\n{tail(self.log)}")


def tail(log: Path, lines: int = 5) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(nothing was written)"


def _start_of(pid: int) -> int | None:
    """The start time of a process that runs; None for one that is gone or waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def identify(pid: int) -> Process:
    """The process behind a pid; one that has ended already is a process that is never alive."""
    return Process(pid, _start_of(pid) or -1)


def parent_of(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat[stat.rindex(")") + 2 :].split()[1])


def all_pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def own_lineage() -> set[int]:
    """This process and all its ancestors: whoever runs `down` must not be swept away by it."""
    lineage, pid = set(), os.getpid()
    while pid > 0:
        lineage.add(pid)
        pid = parent_of(pid)
    return lineage


def marked(token: str) -> list[Process]:
    """Everything that was started with this token in its environment, our own lineage excepted."""
    wanted, found, spared = f"{MARK}={token}".encode(), [], own_lineage()
    for pid in all_pids():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0") and pid not in spared:
            found.append(identify(pid))
    return found


def kill_all(processes: Iterable[Process], seconds: float) -> list[Process]:
    """Kill and wait until they are gone; those that still live are returned."""
    left = [process for process in processes if process.alive()]
    deadline = time.monotonic() + seconds
    for process in left:
        process.kill()
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [process for process in left if process.alive()]
    return left


def spawn(
    command: Sequence[str | Path],
    *,
    log: Path,
    environment: Mapping[str, str],
    cgroup_files: Sequence[Path] = (),
) -> Process:
    """Start a program that outlives this one, in a session and in cgroups of its own."""
    log.parent.mkdir(parents=True, exist_ok=True)
    joined = ["/bin/sh", "-c", _JOIN, "join", *map(str, cgroup_files), "--", *map(str, command)]
    with log.open("ab") as output:
        child = subprocess.Popen(
            joined,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(environment),
        )
    return identify(child.pid)


def run(
    command: Sequence[str | Path],
    *,
    what: str,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> str:
    """Run a program to its end and return its output; a failure becomes one sentence and what it said."""
    try:
        done = subprocess.run(
            list(map(str, command)),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            env=None if environment is None else dict(environment),
            cwd=directory,
        )
    except OSError as error:
        raise ClusterError(f"{what}: {command[0]} cannot be run ({error.strerror})") from error
    if done.returncode != 0:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-12:])
        raise ClusterError(f"{what} failed:\n{said}")
    return done.stdout
