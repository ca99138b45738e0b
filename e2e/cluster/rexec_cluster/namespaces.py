"""A node's namespaces: making them, running something inside, and opening sockets inside."""

import ctypes
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

from .errors import ClusterError
from .processes import Process, all_pids, identify, own_lineage, parent_of, spawn, tail
from .progress import wait_until

_INIT = Path(__file__).resolve().parent / "node-init.sh"
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class InitArguments:
    """What a node's first process has to know, in the order in which it takes it."""

    node: str
    directory: Path
    cache: Path
    pause: Path


def create(init: InitArguments, log: Path, environment: dict[str, str], cgroup_files: list[Path]) -> Process:
    """Make a node's namespaces and return their first process; whoever kills it ends everything in them."""
    ready = init.directory / "ready"
    ready.unlink(missing_ok=True)
    unshare = ["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--uts", "--ipc", "--fork"]
    outer = spawn(
        [*unshare, "--mount-proc", _INIT, init.node, init.directory, init.cache, init.pause],
        log=log,
        environment=environment,
        cgroup_files=cgroup_files,
    )

    def initialised() -> bool:
        if not outer.alive():
            raise ClusterError(f"the namespaces of node {init.node} could not be set up:\n{tail(log)}")
        return ready.exists()

    wait_until(f"namespaces of node {init.node}", 10, initialised, pause=0.02)
    return identify(_only_child(outer.pid))


def _only_child(pid: int) -> int:
    for candidate in all_pids():
        if parent_of(candidate) == pid:
            return candidate
    raise ClusterError("the first process of the node ended at once")


def inside(pid: int, *command: str | Path) -> list[str]:
    """A command line that runs a command in all namespaces of a node."""
    return ["nsenter", "-t", str(pid), "-m", "-n", "-p", "-u", "-i", "--", *map(str, command)]


def in_network(pid: int, *command: str | Path) -> list[str]:
    """A command line that runs a host program in a node's network alone: its files stay the host's.

    Never `ip netns exec`: that mounts /sys anew and so hides the cgroups.
    """
    return ["nsenter", "-t", str(pid), "-n", "--", *map(str, command)]


def open_socket(pid: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    """A socket that belongs to the network of process `pid`.

    A socket stays for ever in the network it was made in, while a thread's network can be changed and changed back. The
    switch is made in a thread of its own, so that a failure in between can strand nobody in the wrong network.
    """
    made: list[socket.socket] = []

    def switch_and_open() -> None:
        with open(f"/proc/{pid}/ns/net") as network:
            if _libc.setns(network.fileno(), _CLONE_NEWNET) == 0:
                made.append(socket.socket(socket.AF_INET, kind))

    def guarded() -> None:
        try:
            switch_and_open()
        except OSError:
            made.clear()

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if not made:
        raise ClusterError(f"the network of process {pid} cannot be entered: is the cluster up?")
    return made[0]


def connect(pid: int, address: str, port: int, timeout: float) -> socket.socket:
    """A TCP connection made inside a node's network."""
    connection = open_socket(pid)
    connection.settimeout(timeout)
    try:
        connection.connect((address, port))
    except OSError:
        connection.close()
        raise
    return connection


def processes_in_network_of(node: Process) -> list[Process]:
    """Host processes in a living node's network (from `exec` or a forward), our own lineage excepted."""
    if not node.alive():
        return []
    network, spared = os.stat(f"/proc/{node.pid}/ns/net").st_ino, own_lineage()
    found = []
    for pid in all_pids():
        try:
            same = os.stat(f"/proc/{pid}/ns/net").st_ino == network
        except OSError:
            continue
        if same and pid not in spared:
            found.append(identify(pid))
    return found
