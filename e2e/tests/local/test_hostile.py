"""Peers that mean harm."""

import contextlib
import socket
from pathlib import Path

from rexec_e2e.client import Client
from rexec_e2e.processes import Stack

GREETING = bytes.fromhex("ff00000000000000017f") + b"\x03\x01NULL" + bytes(48)
PING = b"\x04\x17\x04PING\0\0" + b"c" * 16
FLOOD = 100 * 1024 * 1024


def resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def test_a_peer_that_asks_and_does_not_read_is_owed_no_memory(own_stack: Stack, own_user: Client) -> None:
    pid = own_stack.gateway.process.pid
    before = resident(pid)
    sent = 0
    with socket.create_connection(("127.0.0.1", own_stack.zmtp_port), timeout=3) as peer:
        peer.sendall(GREETING)
        with contextlib.suppress(OSError):  # being hung up on, or stopped, is a good answer
            while sent < FLOOD:
                sent += peer.send(PING * 10_000)
        assert resident(pid) - before < 16 * 1024 * 1024
    script = """
        @remote_func
        def f():
            return 7
        attempt(f)
    """
    assert own_user.run(script).ok().returned == "7"
