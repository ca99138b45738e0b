"""A gateway and a runtime server as plain processes, and the unmodified public client before them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rexec_e2e import client, processes, venvs
from rexec_e2e.client import Client
from rexec_e2e.processes import LOOPBACK, Stack

TOKEN = "laptop"
"""In local mode there is nobody to check it."""


@pytest.fixture(scope="session")
def client_python() -> Path:
    """The interpreter of an environment with the public clients."""
    return venvs.venv("client") / "bin" / "python"


@pytest.fixture(scope="session")
def shared_stack() -> Iterator[Stack]:
    """One pair for all tests that leave it as they found it."""
    with processes.stack() as running:
        yield running


def client_of(stack: Stack, python: Path) -> Client:
    """A client of a stack's gateway."""
    return Client(client.on_this_machine, python, (LOOPBACK, stack.zmtp_port), TOKEN)


@pytest.fixture
def user(shared_stack: Stack, client_python: Path) -> Client:
    """The client of the shared pair."""
    return client_of(shared_stack, client_python)


@pytest.fixture
def own_stack() -> Iterator[Stack]:
    """A pair for a test that breaks it."""
    with processes.stack() as running:
        yield running


@pytest.fixture
def own_user(own_stack: Stack, client_python: Path) -> Client:
    """The client of a pair that a test has for itself."""
    return client_of(own_stack, client_python)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failure shows the end of both logs."""
    report = yield
    stacks = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, Stack)]
    if report.failed:  # type: ignore[attr-defined]
        for stack in stacks:
            for server in (stack.runtime, stack.gateway):
                report.sections.append((f"log of the {server.name}", server.tail()))  # type: ignore[attr-defined]
    return report
