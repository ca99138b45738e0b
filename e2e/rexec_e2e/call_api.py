"""The call API of a runtime server, spoken by hand: requests, and the frames that come back."""

import http.client
import json
import pickle
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

HEADER = struct.Struct(">cI")
MEDIA_TYPE = "application/vnd.rexec.call"


def body(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> bytes:
    """A call's body; the function is one that pickle takes by name, such as `exec`."""
    parts = [pickle.dumps(function), pickle.dumps(arguments)]
    if keywords:
        parts.append(pickle.dumps(keywords))
    return b"".join(parts)


class Call:
    """One call under way."""

    def __init__(self, port: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.connection.request("POST", "/v1/calls", content, {"content-type": MEDIA_TYPE, **(headers or {})})
        self.response = self.connection.getresponse()
        self.id = self.response.getheader("rexec-call-id") or ""

    @property
    def refusal(self) -> dict[str, Any]:
        """The error of a call that was not admitted."""
        assert self.response.status != 200, "the call was admitted"
        error: dict[str, Any] = json.loads(self.response.read())["error"]
        return {"status": self.response.status, **error}

    def frames(self) -> Iterator[tuple[str, bytes]]:
        """Kind and payload of each frame as it comes, keep-alives left out."""
        while head := self.response.read(HEADER.size):
            kind, length = HEADER.unpack(head)
            payload = self.response.read(length)
            assert len(payload) == length, "the stream was cut in the middle of a frame"
            if kind != b"K":
                yield kind.decode(), payload

    def until(self, kind: str, text: bytes = b"") -> bytes:
        """The payload of the next frame of this kind with this text in it."""
        for got, payload in self.frames():
            if got == kind and text in payload:
                return payload
        raise AssertionError(f"the stream ended without {kind!r} {text!r}")

    def finish(self) -> "Outcome":
        """All that comes, to the end."""
        return Outcome(list(self.frames()))

    def vanish(self) -> None:
        """Drop the connection without a word."""
        if self.connection.sock:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.response.close()
        self.connection.close()


class Outcome:
    """What a call sent."""

    def __init__(self, frames: list[tuple[str, bytes]]) -> None:
        self.frames = frames
        assert [kind for kind, _ in frames].count("Z") == 1, "a call has one and only one ending"
        assert frames[-1][0] == "Z", "the ending is the last frame"
        self.ending: dict[str, Any] = json.loads(frames[-1][1])

    def joined(self, kinds: str) -> bytes:
        """The payloads of these kinds, one after the other."""
        return b"".join(payload for kind, payload in self.frames if kind in kinds)

    @property
    def stdout(self) -> bytes:
        """Standard output."""
        return self.joined("O")

    @property
    def result(self) -> Any:
        """The result of a call that succeeded."""
        assert self.ending == {"state": "succeeded"}, self.ending
        return pickle.loads(self.joined("rR"))  # noqa: S301 - from our own server

    @property
    def code(self) -> str:
        """The error code of a call that did not."""
        return str(self.ending["error"]["code"])

    @property
    def message(self) -> str:
        """The sentence of a call that did not."""
        return str(self.ending["error"]["message"])


def request(port: int, method: str, path: str, content: object = None) -> tuple[int, Any]:
    """Status and JSON body of a request; `content` is its JSON body, bytes as they are."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    sent = content if content is None or isinstance(content, bytes) else json.dumps(content)
    try:
        connection.request(method, path, sent)
        response = connection.getresponse()
        answer = response.read()
        return response.status, json.loads(answer) if answer else None
    finally:
        connection.close()
