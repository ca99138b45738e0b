"""What Python has no name for: a few calls of the C library, and of the kernel's files."""

import ctypes
import os
import signal
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MADV_HUGEPAGE = 14
_PAGE = os.sysconf("SC_PAGESIZE")

_library = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Makes orphans among this process's descendants its own children (``prctl(2)``); raises ``OSError``."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Has this process killed when the one that forked it ends; raises ``OSError``."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if _library.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def children() -> list[int]:
    """The processes whose parent is this thread; read without a file object, which costs more than all the rest."""
    descriptor = os.open("/proc/thread-self/children", os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = b""
        while part := os.read(descriptor, 1 << 16):
            found += part
    finally:
        os.close(descriptor)
    return [int(pid) for pid in found.split()]


def use_huge_pages(memory: Any) -> None:
    """Asks for huge pages below ``memory`` (``madvise(2)``), which is about to be filled; a kernel without them changes nothing."""
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = -(-first // _PAGE) * _PAGE
    length = first + memory.nbytes - start
    _library.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _MADV_HUGEPAGE)


def flush_c_streams() -> None:
    """Writes what C code has printed and its library still holds back."""
    _library.fflush(None)
