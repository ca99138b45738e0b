"""The few calls of the C library that Python has no name for."""

import ctypes
import os

_PR_SET_CHILD_SUBREAPER = 36

_library = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Makes orphans among this process's descendants its own children (``prctl(2)``); raises ``OSError``."""
    if _library.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def flush_c_streams() -> None:
    """Writes what C code has printed and its library still holds back."""
    _library.fflush(None)
