"""Ports on the host's loopback that lead into the cluster's network.

A socket belongs to the network it was made in, so one process can listen in the host's and connect in the cluster's.
"""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address

from . import state
from .errors import ClusterError
from .namespaces import open_socket
from .paths import SOURCE, Run
from .processes import identify, kill_all
from .progress import say

_SPEC = re.compile(r"(\d{1,5}):([0-9.]+):(\d{1,5})")
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Forward:
    """One host port and where it leads."""

    host_port: int
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.host_port}:{self.address}:{self.port}"


def parse(text: str) -> Forward:
    """`HOSTPORT:TARGET_ADDRESS:PORT`"""
    match = _SPEC.fullmatch(text)
    try:
        if match is None or not all(0 < int(match[number]) < 65536 for number in (1, 3)):
            raise ValueError
        return Forward(int(match[1]), str(IPv4Address(match[2])), int(match[3]))
    except (AddressValueError, ValueError):
        raise ClusterError(f"{text!r} is not HOSTPORT:IPV4_ADDRESS:PORT") from None


def listen(forwards: list[Forward]) -> list[socket.socket]:
    """Take the host ports, all or none."""
    with contextlib.ExitStack() as opened:
        listeners = []
        for forward in forwards:
            listener = opened.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", forward.host_port))
            except OSError as error:
                raise ClusterError(f"127.0.0.1:{forward.host_port} cannot be taken ({error.strerror})") from error
            listener.listen(64)
            listeners.append(listener)
        opened.pop_all()
        return listeners


def serve(pid: int, forwards: list[Forward], listeners: list[socket.socket]) -> None:
    """Forward until somebody ends this process."""
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_serve(pid, forwards, listeners))


async def _serve(pid: int, forwards: list[Forward], listeners: list[socket.socket]) -> None:
    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    assert main is not None
    loop.add_signal_handler(signal.SIGTERM, main.cancel)
    async with asyncio.TaskGroup() as servers:
        for forward, listener in zip(forwards, listeners, strict=True):
            servers.create_task(_serve_one(pid, forward, listener))


async def _serve_one(pid: int, forward: Forward, listener: socket.socket) -> None:
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target = open_socket(pid)
            target.setblocking(False)
            await asyncio.get_running_loop().sock_connect(target, (forward.address, forward.port))
            target_reader, target_writer = await asyncio.open_connection(sock=target)
        except (OSError, ClusterError) as error:
            say(f"forward {forward}: {error}")
            writer.transport.abort()
            return
        await asyncio.gather(_copy(reader, target_writer), _copy(target_reader, writer))
        for each in (writer, target_writer):
            each.close()

    server = await asyncio.start_server(relay, sock=listener)
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction; its end is passed on, so that a half-closed connection stays one."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()


def in_background(run: Run, forwards: list[Forward], environment: Mapping[str, str]) -> None:
    """Forward in processes of their own, which `down` ends. The ports are taken before this returns."""
    for forward in forwards:
        current = state.require(run)
        _end_old(current, forward)
        (listener,) = listen([forward])
        current.forwards[str(forward)] = identify(_detached(run, current, forward, listener, environment))
        state.save(run, current)


def _end_old(current: state.State, forward: Forward) -> None:
    """A host port that leads elsewhere already is taken over."""
    old = [name for name in current.forwards if parse(name).host_port == forward.host_port]
    kill_all([current.forwards.pop(name) for name in old], 5)


def _detached(
    run: Run, current: state.State, forward: Forward, listener: socket.socket, environment: Mapping[str, str]
) -> int:
    with (run.logs / "forward.log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", __name__, str(current.pid), str(listener.fileno()), str(forward)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[listener.fileno()],
            env=current.environment({**environment, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}),
        )
    return child.pid


def _main(arguments: list[str]) -> None:
    pid, descriptor, forward = arguments
    serve(int(pid), [parse(forward)], [socket.socket(fileno=int(descriptor))])


if __name__ == "__main__":
    os.chdir("/")
    _main(sys.argv[1:])
