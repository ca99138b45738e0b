"""Taking a cluster down, in whatever state it is."""

import contextlib
import os
import subprocess
import time
import uuid
from pathlib import Path

from . import cgroups, namespaces, state
from .errors import ClusterError
from .paths import Run
from .processes import Process, identify, kill_all, marked
from .progress import say
from .state import State

# How long `down` removes files, and waits for ended processes to be cleared away by the host's init. Files that are left
# by then go beside the next start's work.
_LAST_SECONDS = 2.0


def down(run: Run) -> None:
    """End everything that `up` started, in whatever state it is; nothing there is no error.

    Without a readable record the cluster is looked for where this caller would put its cgroups.
    """
    start, existed = time.monotonic(), run.root.exists()
    current = state.load(run) or state.new(cgroups.host_plan(run.name), Path())
    if current.boot == state.boot_id():
        existed = _end_processes(current) or existed
        if busy := cgroups.remove(current.cgroups):
            raise ClusterError(f"cgroups of cluster {run.name} stay busy: {', '.join(busy)}")
    _throw_away(run)
    removal, deadline = start_emptying_trash(run), time.monotonic() + _LAST_SECONDS
    _await_reaping(current, deadline)
    with contextlib.suppress(subprocess.TimeoutExpired):
        removal.wait(max(0.0, deadline - time.monotonic()))
    removal.kill()
    removal.wait()
    if existed:
        say(f"cluster {run.name} is down after {time.monotonic() - start:.1f} s")
    else:
        say(f"cluster {run.name} is not up")


def _end_processes(current: State) -> bool:
    """A node's first process takes all others in its namespaces along; then come those outside of them.

    Says whether there was anything to end.
    """
    nodes = list(current.nodes.values())
    guests = [guest for first in nodes for guest in namespaces.processes_in_network_of(first)]
    kill_all(nodes, 10)
    others = [*guests, *_host_processes(current), *marked(current.token)]
    kill_all(others, 5)
    members = [identify(pid) for pid in cgroups.members(current.cgroups)]
    if left := kill_all(members, 5):
        raise ClusterError(f"processes that do not end: {', '.join(str(process.pid) for process in left)}")
    return bool(nodes or others or members)


def _host_processes(current: State) -> list[Process]:
    return [*current.forwards.values(), *(daemon.process for daemon in current.daemons)]


def _await_reaping(current: State, deadline: float) -> None:
    """Ended processes belong to the host's init, which may look after them every other second only."""
    ended = [*current.nodes.values(), *_host_processes(current)]
    while any(Path(f"/proc/{process.pid}").exists() for process in ended) and time.monotonic() < deadline:
        time.sleep(0.02)


def _throw_away(run: Run) -> None:
    """Put the directory out of the way: what pods have written can be very much, and the disk busy."""
    run.trash.mkdir(parents=True, exist_ok=True)
    if run.root.exists():
        os.rename(run.root, run.trash / str(uuid.uuid4()))


def start_emptying_trash(run: Run) -> subprocess.Popen[bytes]:
    """Begin to remove the directories of earlier runs; it may be ended at any time and begun again."""
    return subprocess.Popen(["rm", "-rf", "--one-file-system", str(run.trash)], stdin=subprocess.DEVNULL)
