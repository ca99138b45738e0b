"""A gateway and a runtime server as plain processes, and the unmodified public client before them."""

from collections.abc import Iterator

import pytest

from rexec_e2e import processes
from rexec_e2e.client import Client
from rexec_e2e.processes import Stack


@pytest.fixture(scope="session")
def shared_stack() -> Iterator[Stack]:
    """One pair for all tests that leave it as they found it."""
    with processes.stack() as running:
        yield running


@pytest.fixture
def user(shared_stack: Stack) -> Client:
    """The client of the shared pair."""
    return shared_stack.client()


@pytest.fixture
def own_stack() -> Iterator[Stack]:
    """A pair for a test that breaks it."""
    with processes.stack() as running:
        yield running


@pytest.fixture
def own_user(own_stack: Stack) -> Client:
    """The client of a pair that a test has for itself."""
    return own_stack.client()


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
