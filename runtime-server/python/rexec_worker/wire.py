"""Frames from a call's process to the runtime server: one byte kind, four bytes length (big-endian), payload.

The kinds and the limit are those of the call stream, so that the runtime server passes payloads on as they are.
"""

import json
import socket
import struct
from typing import Any, Callable, Union

# What waits in the server for a slow reader is counted in frames: small ones keep its memory small.
MAX_VALUE_PART = 1 << 18
_HEADER = struct.Struct(">cI")

Buffer = Union[bytes, bytearray, memoryview]


class FrameWriter:
    """Writes frames to the runtime server over ``sock``."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._held: list[Buffer] = []

    def frame(self, kind: bytes, payload: Buffer) -> None:
        """Sends one frame of at most 1 MiB, behind what is held."""
        buffers = [*self._held, _HEADER.pack(kind, len(payload)), payload]
        self._held = []
        self._send(buffers)

    def hold(self, kind: bytes, payload: Buffer) -> None:
        """Keeps one frame back until the next one, which follows at once: both go out in one piece and wake the reader once."""
        self._held += [_HEADER.pack(kind, len(payload)), payload]

    def json(self, kind: bytes, value: dict[str, Any]) -> None:
        """Sends ``value`` as the JSON payload of one frame."""
        self.frame(kind, json.dumps(value, ensure_ascii=False).encode())

    def _send(self, buffers: list[Buffer]) -> None:
        sent = self._sock.sendmsg(buffers)
        total = sum(len(buffer) for buffer in buffers)
        if sent < total:
            self._sock.sendall(memoryview(b"".join(buffers))[sent:])


class ValueWriter:
    """A file for a pickler: what is written goes out in frames as it comes.

    ``finish`` marks the end of the value; ``discard`` voids what went out since the last end.
    """

    def __init__(self, frames: FrameWriter, part: bytes, last: bytes) -> None:
        self._frames = frames
        self._part = part
        self._last = last
        self._pending = bytearray()
        self._begun = False

    def write(self, data: Buffer) -> int:
        """Takes ``data``, holding back less than one frame."""
        view = memoryview(data).cast("B")
        size = len(view)
        if len(self._pending) + size <= MAX_VALUE_PART:
            self._pending += view
            return size
        self._flush_pending()
        while len(view) > MAX_VALUE_PART:
            self._send_part(view[:MAX_VALUE_PART])
            view = view[MAX_VALUE_PART:]
        self._pending += view
        return size

    def finish(self) -> None:
        """Ends the value."""
        self._end(self._frames.frame)

    def finish_with_ending(self) -> None:
        """Ends the value; its last part leaves with the frame that follows, which is the call's ending."""
        self._end(self._frames.hold)

    def _end(self, send: Callable[[bytes, Buffer], None]) -> None:
        send(self._last, self._pending)
        self._pending = bytearray()
        self._begun = False

    def discard(self) -> None:
        """Voids what was written since the value began."""
        self._pending = bytearray()
        if self._begun:
            self._frames.frame(b"D", b"")
            self._begun = False

    def _flush_pending(self) -> None:
        if self._pending:
            self._send_part(self._pending)
            self._pending = bytearray()

    def _send_part(self, data: Buffer) -> None:
        self._begun = True
        self._frames.frame(self._part, data)
