"""A runtime server as a plain process."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rexec_e2e import processes, venvs
from rexec_e2e.call_api import Call, Outcome, body
from rexec_e2e.processes import Server


@dataclass
class Runtime:
    """A server and its two ports."""

    server: Server
    port: int
    control_port: int

    def call(self, function: Callable[..., Any], *arguments: Any, headers: dict[str, str] | None = None) -> Call:
        """A call under way."""
        return Call(self.port, body(function, *arguments), headers)

    def run(self, source: str, headers: dict[str, str] | None = None) -> Outcome:
        """All that comes of a call that runs these lines of Python."""
        return self.start(source, headers).finish()

    def start(self, source: str, headers: dict[str, str] | None = None) -> Call:
        """A call under way that runs these lines of Python."""
        return self.call(exec, source, {}, headers=headers)

    @property
    def python_parent(self) -> int:
        """The process that calls are forked from."""
        return processes.children(self.server.process.pid)[0]


def runtime(*options: str) -> Iterator[Runtime]:
    """A server with these options, until it is stopped."""
    with tempfile.TemporaryDirectory(prefix="rexec-runtime-", ignore_cleanup_errors=True) as root:
        port, control_port = processes.free_port(), processes.free_port()
        python = venvs.venv("server") / "bin" / "python"
        server = processes.start_runtime(python, Path(root) / "home", port, control_port, *options)
        try:
            yield Runtime(server, port, control_port)
        finally:
            server.stop()


@pytest.fixture(scope="session")
def shared() -> Iterator[Runtime]:
    """One for all tests that leave it as they found it."""
    yield from runtime()


@pytest.fixture
def own() -> Iterator[Runtime]:
    """One for a test that breaks it."""
    yield from runtime()


@pytest.fixture
def two_at_once() -> Iterator[Runtime]:
    """One that runs two calls at once and lets one wait."""
    yield from runtime("--max-concurrent", "2", "--max-queued", "1")
