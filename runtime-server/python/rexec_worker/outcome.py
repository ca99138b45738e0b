"""How a call ended, as frames: the pickled result, or a failure with what people and programs need to know of it."""

import io
import pickle
import traceback
from typing import Any, Optional

from rexec_worker.wire import FrameWriter, ValueWriter

# Protocol 5 pickles numpy arrays by a function that numpy 1 does not have; callers may have numpy 1.
_PROTOCOL = 4
# Together within a frame, however many bytes a character becomes in JSON.
_MAX_MESSAGE = 32 * 1024
_MAX_TRACEBACK = 64 * 1024


class Failure(Exception):
    """A call that ends without a result; ``code`` is one of the protocol's error codes."""

    def __init__(self, code: str, message: str, cause: Optional[BaseException] = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.cause = cause


def send_item(frames: FrameWriter, item: Any) -> None:
    """Pickles an item of a generator into frames, as ``send_result`` does with a result."""
    _write_value(ValueWriter(frames, b"i", b"I"), item).finish()


def send_result(frames: FrameWriter, value: Any) -> None:
    """Pickles ``value`` into frames: with ``pickle``, else with ``dill``, else raises ``Failure`` naming the type.

    Its last frame leaves with the ending, which must follow.
    """
    _write_value(ValueWriter(frames, b"r", b"R"), value).finish_with_ending()


def _write_value(writer: ValueWriter, value: Any) -> ValueWriter:
    try:
        pickle.Pickler(writer, protocol=_PROTOCOL).dump(value)
    except Exception:  # noqa: BLE001 - whatever the value's own code raises
        writer.discard()
        _send_with_dill(writer, value)
    return writer


def _send_with_dill(writer: ValueWriter, value: Any) -> None:
    import dill

    try:
        dill.Pickler(writer, protocol=_PROTOCOL).dump(value)
    except Exception as error:
        writer.discard()
        raise Failure(
            "result_not_serializable",
            f"the call returned an object of type {_type_name(type(value))} that cannot be pickled "
            f"({type(error).__name__}: {error}); return plain data in its place",
            error,
        ) from error


def succeed(frames: FrameWriter) -> None:
    """Sends the ending of a call that returned."""
    frames.json(b"Z", {"state": "succeeded"})


def fail(frames: FrameWriter, error: BaseException) -> None:
    """Sends the ending of a call that did not."""
    if isinstance(error, Failure):
        _send_failure(frames, error)
    elif isinstance(error, SystemExit):
        _end(frames, "exit", f"the function ended its process with sys.exit({_exit_code(error)})", error)
    else:
        _send_exception_object(frames, error)
        _end(frames, "exception", _text(error), error)


def _send_failure(frames: FrameWriter, failure: Failure) -> None:
    _end(frames, failure.code, failure.message, failure.cause)


def _end(frames: FrameWriter, code: str, message: str, error: Optional[BaseException]) -> None:
    content: dict[str, Any] = {"code": code, "message": _shorten(message, _MAX_MESSAGE)}
    if error is not None:
        content["type"] = _shorten(_type_name(type(error)), 1024)
        content["traceback"] = _shorten(format_traceback(error), _MAX_TRACEBACK)
    frames.json(b"Z", {"state": "failed", "error": content})


def format_traceback(error: BaseException) -> str:
    """The traceback with its chain of causes, without the worker's own frames."""
    try:
        formatted = traceback.TracebackException.from_exception(error)
        _drop_own_frames(formatted)
        return "".join(formatted.format())
    except BaseException:  # noqa: BLE001 - an exception whose own text cannot be made
        return f"{_type_name(type(error))}: {_text(error)}\n"


def _drop_own_frames(formatted: Any) -> None:
    seen = set()
    todo = [formatted]
    while todo:
        part = todo.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        kept = [frame for frame in part.stack if not frame.filename.startswith("<rexec_worker.")]
        part.stack[:] = kept
        todo += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or [])]


def _send_exception_object(frames: FrameWriter, error: BaseException) -> None:
    """Sends the exception itself where the other side can rebuild it; the text is in the ending in any case."""
    for dumps in (_pickle_dumps, _dill_dumps):
        try:
            data = dumps(error)
            pickle.loads(data)
        except BaseException:  # noqa: BLE001, S112 - whatever the exception's own code raises, SystemExit too
            continue
        writer = ValueWriter(frames, b"x", b"X")
        writer.write(data)
        writer.finish_with_ending()
        return


def _pickle_dumps(error: BaseException) -> bytes:
    return pickle.dumps(error, protocol=_PROTOCOL)


def _dill_dumps(error: BaseException) -> bytes:
    import dill

    buffer = io.BytesIO()
    dill.Pickler(buffer, protocol=_PROTOCOL).dump(error)
    return buffer.getvalue()


def _type_name(kind: type) -> str:
    module = getattr(kind, "__module__", "builtins")
    name = getattr(kind, "__qualname__", kind.__name__)
    return name if module in ("builtins", "__main__") else f"{module}.{name}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - user code
        return "(the exception's text cannot be shown: its __str__ fails)"


def _exit_code(error: SystemExit) -> str:
    try:
        return "" if error.code is None else repr(error.code)
    except BaseException:  # noqa: BLE001 - user code
        return "an object whose text cannot be shown"


def _shorten(text: str, limit: int) -> str:
    text = text.encode(errors="backslashreplace").decode()  # JSON cannot carry a lone surrogate
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - limit} characters left out ...\n{text[-half:]}"
