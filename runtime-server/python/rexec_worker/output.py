"""The standard streams of a call's process.

Standard output and error are pipes, so that what subprocesses and C code write is captured too. Order within a stream is the pipe's.
Order across the two, for what Python writes, needs a word with the runtime server: before Python writes to the other stream than last
time, it waits until all that was written so far has been taken (``Order.turn_to``).
"""

import contextlib
import io
import os
import select
import socket
import sys
import threading
from typing import Any, Callable, Optional, Union

Buffer = Union[bytes, bytearray, memoryview]


class Order:
    """Keeps Python's writes to the two streams in the order in which they were made."""

    def __init__(self, sync: socket.socket) -> None:
        self.lock = threading.RLock()
        self._sync = sync
        self._owner = os.getpid()
        self._last: Optional[int] = None
        # The descriptor whose next few bytes need no lock and no word with the server.
        self.quick: Optional[int] = None
        # Forked while another thread writes, a copy would find the lock held for ever.
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self.lock = threading.RLock()

    def turn_to(self, descriptor: int) -> None:
        """To be called, with the lock held, before a write to ``descriptor``."""
        if descriptor == self._last:
            return
        # A process that user code forked shares the socket: its questions would be answered to somebody else.
        if self._last is not None and os.getpid() == self._owner:
            self._sync.sendall(b"b")
            self._sync.recv(1)
        self._last = descriptor


class OutputStream(io.RawIOBase):
    """A standard stream's bytes, written at once and whole."""

    def __init__(self, descriptor: int, order: Order) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._order = order
        self.mode = "wb"
        self.name = descriptor

    def fileno(self) -> int:
        """The file descriptor."""
        return self._descriptor

    def writable(self) -> bool:
        """Always."""
        return True

    def isatty(self) -> bool:
        """Never."""
        return False

    def write(self, data: Any) -> int:
        """Writes all of ``data``: a text layer above does not look at what a short write left over."""
        view = memoryview(data).cast("B")
        with self._order.lock:
            self._order.turn_to(self._descriptor)
            self._order.quick = None  # who comes meanwhile waits for the lock
            self._write_all(view)
            self._order.quick = self._descriptor
        return view.nbytes

    def _write_all(self, view: memoryview) -> None:
        while view:
            view = view[os.write(self._descriptor, view) :]


def _quick_write(stream: OutputStream, descriptor: int, order: Order) -> Callable[[Any], int]:
    """``stream.write`` with a short way for what a call that prints lines does most: a few bytes to the stream of last time.

    A pipe takes so few bytes whole or not at all. Nothing runs between the look at ``order.quick`` and the write.
    """
    write, write_whole = os.write, stream.write

    def quick_write(data: Any) -> int:
        if type(data) is bytes and len(data) <= select.PIPE_BUF and order.quick == descriptor:
            return write(descriptor, data)
        return write_whole(data)

    return quick_write


def text_stream(descriptor: int, order: Order, name: str, errors: str) -> io.TextIOWrapper:
    """A text stream over ``descriptor`` that forwards each write at once."""
    raw: Any = OutputStream(descriptor, order)
    raw.write = _quick_write(raw, descriptor, order)
    stream = io.TextIOWrapper(raw, encoding="utf-8", errors=errors, newline="\n", write_through=True)
    stream.mode = "w"  # type: ignore[misc]
    raw.name = name
    return stream


def install(sync: socket.socket) -> None:
    """Puts the streams of this process in place; descriptors 0, 1 and 2 are already what they should be."""
    order = Order(sync)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = text_stream(1, order, "<stdout>", "surrogateescape")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = text_stream(2, order, "<stderr>", "backslashreplace")  # type: ignore[misc]


def flush() -> None:
    """Sends what user code may have left in streams of its own making."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a stream that user code put there; its failure is not the call's
            stream.flush()
