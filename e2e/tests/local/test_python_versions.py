"""A function compiled by another Python is refused in a sentence, before it runs."""

from pathlib import Path

import pytest

from rexec_e2e import processes, venvs
from rexec_e2e.errors import E2eError

LOOP = """
    @remote_func
    def total(n):
        result = 0
        for number in range(n):
            result += abs(number)
        return result
    attempt(total, 4)
"""


def interpreter(minor: str) -> Path:
    """A Python of another minor version; without one the test has nothing to say."""
    try:
        return venvs.find_python(minor)
    except E2eError:
        pytest.skip(f"no Python {minor} on this machine")


@pytest.mark.parametrize("minor", ["3.9", "3.10", "3.12", "3.13"])
def test_wire_f13_a_mismatch_is_one_clear_sentence(minor: str) -> None:
    with processes.stack(interpreter(minor)) as stack:
        raised = stack.client().run(LOOP).ok().raised
    assert raised.kind == "RuntimeError"
    assert minor in raised.message
    assert venvs.CLIENT_PYTHON in raised.message
    assert "Traceback" not in raised.message


def test_wire_f13_a_function_whose_bytes_are_the_same_in_both_versions_runs() -> None:
    with processes.stack(interpreter("3.12")) as stack:
        answer = stack.client().run("""
            @remote_func
            def double(x):
                return x * 2
            attempt(double, 21)
        """)
    assert answer.ok().returned == "42"
