"""The few calls of the C library that Python has no name for."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

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


def flush_c_streams() -> None:
    """Writes what C code has printed and its library still holds back."""
    _library.fflush(None)
