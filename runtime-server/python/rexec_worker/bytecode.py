"""Which Python compiled a function, read off the pieces of its code object before anything of it runs.

Byte code of another minor version does not fail cleanly: it crashes the interpreter or computes something else. Sources: the
``opcode`` modules of CPython 3.9 to 3.13 and the argument lists of ``dill``'s ``_create_code``.
"""

import functools
import sys
from typing import Any

Minor = tuple[int, int]

_RESUME_311_312 = 0x97
_RESUME_313 = 0x95  # the same number is COPY_FREE_VARS in 3.11 and 3.12, there with an operand of at least 1
_ONLY_311 = frozenset({0xA6})  # PRECALL
_ONLY_312 = frozenset({0x79, 0x04})  # RETURN_CONST, END_FOR


class PythonMismatchError(Exception):
    """The function was compiled by a Python version other than this one."""


def compiled_by(arguments: tuple[Any, ...]) -> frozenset[Minor]:
    """The Python versions that can have made the arguments of ``dill``'s ``_create_code``.

    Empty where nothing is known (later versions than this table): such a function is not refused.
    """
    count = len(arguments)
    if count == 16:
        return frozenset({(3, 8), (3, 9)})
    if count == 17:
        return frozenset({(3, 10)})
    if count != 19:
        return frozenset()
    code = arguments[7]
    if isinstance(code, str):
        code = code.encode("latin-1")
    return _by_opcodes(code)


def _by_opcodes(code: bytes) -> frozenset[Minor]:
    for at in range(0, len(code) - 1, 2):
        if code[at] == _RESUME_311_312:
            return _split_311_312(frozenset(code[at::2]))
        if code[at] == _RESUME_313 and code[at + 1] == 0:
            return frozenset({(3, 13)})
    return frozenset()


def _split_311_312(operations: frozenset[int]) -> frozenset[Minor]:
    if operations & _ONLY_311:
        return frozenset({(3, 11)})
    if operations & _ONLY_312:
        return frozenset({(3, 12)})
    return frozenset({(3, 11), (3, 12)})


def check(arguments: tuple[Any, ...]) -> None:
    """Raises ``PythonMismatchError`` where another Python version made ``arguments``."""
    possible = compiled_by(arguments)
    own = sys.version_info[:2]
    if not possible or own in possible:
        return
    names = " or ".join(f"{major}.{minor}" for major, minor in sorted(possible))
    raise PythonMismatchError(
        f"the function was compiled by Python {names}, this environment runs Python {own[0]}.{own[1]}: "
        f"call it from Python {own[0]}.{own[1]}, or set the environment up with python=={sorted(possible)[-1][0]}"
        f".{sorted(possible)[-1][1]}"
    )


def install() -> None:
    """Makes ``dill`` check every code object before it is built."""
    from dill import _dill  # type: ignore[import-untyped]

    create_code = _dill._create_code

    # By its own name, since functions that a call returns are pickled with a reference to it.
    @functools.wraps(create_code)
    def checked_create_code(*arguments: Any) -> Any:
        check(arguments)
        return create_code(*arguments)

    _dill._create_code = checked_create_code
