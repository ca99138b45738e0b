"""Serves a directory's files over HTTP: `python3 -m rexec_cluster.file_server ADDRESS PORT DIRECTORY`."""

import functools
import http.server
import sys
from http import HTTPStatus
from pathlib import Path

from .settings import FIRST_NODE_ADDRESS


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files and index pages alone: no listings, and what begins with a dot is not there."""

    protocol_version = "HTTP/1.1"

    def list_directory(self, path: object) -> None:
        self.send_error(HTTPStatus.NOT_FOUND, "Not Found")

    def translate_path(self, path: str) -> str:
        hidden = any(part.startswith(".") for part in path.split("/"))
        return "/nonexistent" if hidden else super().translate_path(path)


def command(port: int, directory: Path) -> list[str | Path]:
    """A command line that serves a directory on the first node's address."""
    return [sys.executable, "-m", __name__, FIRST_NODE_ADDRESS, str(port), directory]


def serve(address: str, port: int, directory: str) -> None:
    handler = functools.partial(Handler, directory=directory)
    with http.server.ThreadingHTTPServer((address, port), handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
