"""The life of one call's process: forked ahead of the call, it waits for the pickles, runs the function, answers, and ends."""

import _signal
import atexit
import inspect
import os
import socket
import sys
import threading
import traceback
import types
from collections.abc import Coroutine
from typing import Any, BinaryIO, Callable, NoReturn, Optional

import dill  # type: ignore[import-untyped]

from rexec_worker import bytecode, native, outcome, output
from rexec_worker.body import BodyReader
from rexec_worker.wire import FrameWriter

_STREAMED = object()


def run(data_fd: int, sync_fd: int, stdout_fd: int, stderr_fd: int) -> NoReturn:
    """Serves one call over the given descriptors, or none where the runtime server closes them; never returns."""
    status = 70
    log = os.fdopen(os.dup(2), "w")  # the server's own, for faults of ours
    try:
        _settle(stdout_fd, stderr_fd)
        data = socket.socket(fileno=data_fd)
        sync = socket.socket(fileno=sync_fd)
        output.install(sync)
        body = BodyReader(data_fd)
        frames = FrameWriter(data)
        _rehearse()
        if body.peek(1):
            _serve(body, frames)
            # The runtime server ends this process when it has the result: its exit would keep a core from the reader.
            sync.recv(1)
        status = 0
    except BaseException:
        traceback.print_exc(file=log)
        raise
    finally:
        os._exit(status)


def _settle(stdout_fd: int, stderr_fd: int) -> None:
    os.setsid()
    _adopt_orphans()
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (stdout_fd, 1), (stderr_fd, 2)):
        os.dup2(source, target)
        os.close(source)
    # By the module below `signal`, whose own functions look up an enumeration for each number.
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    _add_user_site()


def _adopt_orphans() -> None:
    """Keeps what this call starts below it, so that all of it can be found, and ended, when the call is over."""
    native.become_subreaper()
    native.end_with_parent()


def _add_user_site() -> None:
    """Adds ``~/.local`` behind the environment and before our own packages, which stand last."""
    version = sys.version_info
    path = os.path.expanduser(f"~/.local/lib/python{version[0]}.{version[1]}/site-packages")
    if os.path.isdir(path) and path not in sys.path:
        sys.path.insert(max(len(sys.path) - 1, 0), path)


def _sample_call() -> bytes:
    """The body of a call as clients send it: the namespace of such a function is `__main__`."""
    function = types.FunctionType((lambda: 1).__code__, sys.modules["__main__"].__dict__)
    function.__module__ = "__main__"
    return bytes(dill.dumps(function) + dill.dumps(()))


_SAMPLE_CALL = _sample_call()


def _rehearse() -> None:
    """Serves a call that nobody made, so that the pages which a call writes to are this process's own before it comes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(_SAMPLE_CALL)
        theirs.shutdown(socket.SHUT_WR)
        frames = FrameWriter(ours)
        function, arguments, keywords = _load(BodyReader(ours.fileno()))
        outcome.send_result(frames, _call(function, arguments, keywords, frames))
        outcome.succeed(frames)
    _flush()


def _serve(body: BinaryIO, frames: FrameWriter) -> None:
    owner = os.getpid()
    try:
        function, arguments, keywords = _load(body)
        value = _call(function, arguments, keywords, frames)
        _end_copies(owner)
        _finish()
        if value is not _STREAMED:
            outcome.send_result(frames, value)
    except BaseException as error:  # noqa: BLE001 - everything the call raises is its outcome, SystemExit too
        _end_copies(owner, error)
        _finish()
        outcome.fail(frames, error)
    else:
        outcome.succeed(frames)


def _end_copies(owner: int, error: Optional[BaseException] = None) -> None:
    """Ends a process that the function forked and that came back from it: only the call's own process answers for the call."""
    if os.getpid() == owner:
        return
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        traceback.print_exception(type(error), error, error.__traceback__)
        status = 1
    output.flush()
    os._exit(status & 0xFF)


def _load(body: BinaryIO) -> Any:
    function = _unpickle(body, "function_not_loadable", "Invalid function payload")
    arguments = _unpickle(body, "arguments_not_loadable", "Invalid arguments")
    keywords = _unpickle(body, "arguments_not_loadable", "Invalid arguments") if body.peek(1) else {}  # type: ignore[attr-defined]
    if not callable(function) or not isinstance(arguments, tuple) or not isinstance(keywords, dict):
        raise outcome.Failure(
            "invalid_body", "the body of a call is the pickle of a function, of a tuple, and perhaps of a dict"
        )
    return function, arguments, keywords


def _unpickle(body: BinaryIO, code: str, what: str) -> Any:
    # A memo is not emptied between two loads of one unpickler: each pickle gets its own.
    try:
        return dill.Unpickler(body).load()
    except bytecode.PythonMismatchError as error:
        raise outcome.Failure("python_mismatch", str(error)) from None
    except Exception as error:
        raise outcome.Failure(code, f"{what}: {error}{_remedy(error)}", error) from error


def _remedy(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f" (add the package that has {error.name!r} to the environment's requirements)"
    return ""


def _call(function: Callable[..., Any], arguments: Any, keywords: Any, frames: FrameWriter) -> Any:
    """The value that the function returns, awaited where it is awaitable, or ``_STREAMED`` where its items have been sent."""
    value = function(*arguments, **keywords)
    if inspect.isgenerator(value):
        for item in value:
            outcome.send_item(frames, item)
        return _STREAMED
    if inspect.isasyncgen(value):
        _run_async(_send_async_items(value, frames))
        return _STREAMED
    if inspect.isawaitable(value):
        return _run_async(_await(value))
    return value


def _run_async(coroutine: Coroutine[Any, Any, Any]) -> Any:
    import asyncio  # not in the warm parent: most calls do without, and it would be in the memory of each

    return asyncio.run(coroutine)


async def _await(value: Any) -> Any:
    return await value


async def _send_async_items(items: Any, frames: FrameWriter) -> None:
    async for item in items:
        outcome.send_item(frames, item)


def _finish() -> None:
    """What a script does when its last line has run: all of it may still print, so it comes before the result."""
    if threading.active_count() > 1:
        threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    _flush()


def _flush() -> None:
    output.flush()
    native.flush_c_streams()
