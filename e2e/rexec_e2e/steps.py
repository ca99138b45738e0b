"""What the tooling says while it works: each step by name, and how long it took."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from .errors import E2eError

T = TypeVar("T")


def say(line: str) -> None:
    """Print one line at once; on stderr, since stdout belongs to results."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Name a step before it starts and print its duration when it has ended."""
    start = time.monotonic()
    say(f"==> {what}")
    try:
        yield
    except BaseException:
        say(f"==> {what}: FAILED after {time.monotonic() - start:.1f} s")
        raise
    say(f"    {what}: {time.monotonic() - start:.1f} s")


def eventually(what: str, seconds: float, probe: Callable[[], T | None], pause: float = 0.1) -> T:
    """Ask `probe` until its answer is true, and return that; after `seconds` the error shows the last answer."""
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise E2eError(f"{what}: not so after {seconds:.0f} s (last answer: {answer!r})")
        time.sleep(pause)
