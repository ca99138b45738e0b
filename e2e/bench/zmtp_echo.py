"""A listener that speaks just enough ZMTP 3.1 to answer each call of the public client at once with the value 1.

It stands for a server that costs nothing: what a call to it takes is the client's own time. It greets at once, as a server
that saves the client a round trip does, and serves one call at a time. Run as a program; it prints its port.
"""

import contextlib
import socket
import struct

_GREETING = b"\xff" + b"\0" * 7 + b"\x01\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + b"\0" + b"\0" * 31
_READY_BODY = b"\x05READY\x0bSocket-Type\0\0\0\x06ROUTER\x08Identity\0\0\0\0"
_EVENTS = (
    b"\x80\x04}(\x8c\x04type\x8c\x05START\x8c\x08sequenceK\x01u.",
    b"\x80\x04}(\x8c\x04type\x8c\x04DATA\x8c\x08sequenceK\x02\x8c\x07channel\x8c\x06return\x8c\x04dataK\x01u.",
    b"\x80\x04}(\x8c\x04type\x8c\x03END\x8c\x08sequenceK\x03u.",
)
_MORE, _LONG, _COMMAND = 1, 2, 4
_GREETED = _GREETING + bytes([_COMMAND, len(_READY_BODY)]) + _READY_BODY
_ANSWER = b"".join(b"\x01\x00\x00" + bytes([len(event)]) + event for event in _EVENTS)


def whole_request(received: bytes) -> bool:
    """Whether the greeting and a whole message have come."""
    at = len(_GREETING)
    while at < len(received):
        flags = received[at]
        if flags & _LONG:
            header = 9
            if len(received) < at + header:
                return False
            (length,) = struct.unpack_from(">Q", received, at + 1)
        else:
            header = 2
            if len(received) < at + header:
                return False
            length = received[at + 1]
        at += header + length
        if len(received) < at:
            return False
        if not flags & (_MORE | _COMMAND):
            return True
    return False


def serve(connection: socket.socket) -> None:
    """One call."""
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(_GREETED)
        received = b""
        while not whole_request(received):
            part = connection.recv(65536)
            if not part:
                return
            received += part
        connection.sendall(_ANSWER)
        with contextlib.suppress(OSError):  # the client closes when it has the answer
            while connection.recv(65536):
                pass


def main() -> None:
    """Serve until killed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            serve(connection)


if __name__ == "__main__":
    main()
