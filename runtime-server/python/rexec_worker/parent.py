"""The warm parent: an interpreter that holds what a call needs and forks it, and never runs user code.

It speaks with the runtime server over a stream socket, its standard input. To it: the byte ``F`` with four descriptors
(data, sync, standard output, standard error) asks for a fork, the byte ``P`` for a sign of life. From it come JSON lines:
``{"hello": …}`` once it is warm, or ``{"failed": module, "error": …}`` where a module to preload cannot be imported;
``{"forked": pid}`` for each ``F`` in order, ``{"alive": true}`` for each ``P``, ``{"exited": pid, "status": wait status}`` for
each fork that ended, when all that it left behind is gone.
"""

import gc
import importlib
import json
import os
import pickle
import select
import signal
import socket
import sys
from typing import Any

from rexec_worker import native

_DESCRIPTORS = 4


def main(control: socket.socket, config: dict[str, Any]) -> None:
    """Serves fork requests from ``control`` until it is closed."""
    from rexec_worker import bytecode

    bytecode.install()
    failure = preload(config.get("preload", []))
    if failure:
        say(control, failure)
    else:
        Parent(control).serve()


def preload(modules: list[str]) -> dict[str, Any]:
    """Imports ``modules``; tells of the first that cannot be imported."""
    for module in modules:
        try:
            importlib.import_module(module)
        except BaseException as error:  # noqa: BLE001 - whatever a module does while it is imported, SystemExit too
            return {"failed": module, "error": f"{type(error).__name__}: {error}"[:1000]}
    return {}


def say(control: socket.socket, message: dict[str, Any]) -> None:
    """Sends one line to the runtime server."""
    control.sendall(json.dumps(message).encode() + b"\n")


class Parent:
    """Forks on request and reaps."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._forks: set[int] = set()
        native.become_subreaper()  # what a call leaves behind comes here to be ended
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_write.setblocking(False)

    def serve(self) -> None:
        """Runs until the runtime server closes the socket."""
        signal.set_wakeup_fd(self._wake_write.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.collect()
        gc.freeze()
        gc.disable()
        self._say({"hello": hello()})
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._wake_read.fileno() in ready:
                self._wake_read.recv(4096)
                self._reap()
            if self._control.fileno() in ready and not self._answer():
                return

    def _answer(self) -> bool:
        request, descriptors, _, _ = socket.recv_fds(self._control, 1, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        if not request:
            return False
        if request == b"F" and len(descriptors) == _DESCRIPTORS:
            self._fork(descriptors)
        elif request == b"P":
            self._say({"alive": True})
        return True

    def _fork(self, descriptors: list[int]) -> None:
        pid = os.fork()
        if pid == 0:
            self._become_child(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self._forks.add(pid)
        self._say({"forked": pid})

    def _become_child(self, descriptors: list[int]) -> None:
        from rexec_worker import child

        signal.set_wakeup_fd(-1)
        self._control.close()
        self._wake_read.close()
        self._wake_write.close()
        gc.enable()
        child.run(*descriptors)

    def _reap(self) -> None:
        ended = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in self._forks:
                self._forks.discard(pid)
                ended.append((pid, status))
        self._end_strays()
        for pid, status in ended:
            self._say({"exited": pid, "status": status})

    def _end_strays(self) -> None:
        """Ends what calls that are over have left behind.

        A running call is the reaper of its own orphans, so whatever is a child of this process and no fork of it belonged to a call that is
        over. Their own children come here when they die, which is another SIGCHLD.
        """
        for pid in native.children():
            if pid not in self._forks:
                os.kill(pid, signal.SIGKILL)

    def _say(self, message: dict[str, Any]) -> None:
        say(self._control, message)


def hello() -> dict[str, Any]:
    """What this Python is."""
    return {
        "version": ".".join(map(str, sys.version_info[:3])),
        "implementation": sys.implementation.name,
        "highestPickleProtocol": pickle.HIGHEST_PROTOCOL,
    }
