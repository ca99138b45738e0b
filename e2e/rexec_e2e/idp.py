"""A stand-in for an identity provider's introspection endpoint, for tests: the token `token-of-NAME` is NAME's.

`POST` any path with JSON `{"token": …}`. It is run as a program inside a pod that has nothing but Python, so it imports
nothing of ours.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PREFIX = "token-of-"


def introspect(body: bytes) -> "tuple[int, dict[str, Any]]":
    """The status and the answer for a request's body."""
    try:
        token = json.loads(body)["token"]
    except (ValueError, KeyError, TypeError):
        return 400, {"error": "the body is not JSON with a token"}
    if not isinstance(token, str) or not token.startswith(PREFIX) or token == PREFIX:
        return 401, {"error": "invalid token"}
    name = token.removeprefix(PREFIX)
    return 200, {"sub": name, "username": f"{name}@example.org", "roles": ["user"], "groups": ["/ndp_ep/ep-test"]}


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Introspection."""
        self._answer(*introspect(self.rfile.read(int(self.headers.get("Content-Length", 0)))))

    def do_GET(self) -> None:
        """Health."""
        self._answer(200, {"status": "ok"})

    def _answer(self, status: int, content: "dict[str, Any]") -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """No log: a request holds a token."""


def main(port: int) -> None:
    """Serve in a pod, on all of its addresses."""
    ThreadingHTTPServer(("", port), Handler).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
