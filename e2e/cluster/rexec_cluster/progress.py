"""What the cluster says while it works: each step by name, and how long it took."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .errors import ClusterError


def say(line: str) -> None:
    """Print one line at once; on stderr, since stdout belongs to what a sub-command answers."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Name a step before it starts and print its duration when it has ended."""
    start = time.monotonic()
    say(f"  {what} …")
    yield
    say(f"  {what}: {time.monotonic() - start:.1f} s")


def wait_until(what: str, seconds: float, ready: Callable[[], bool], pause: float = 0.1) -> None:
    """Ask `ready` until it says yes; it may itself raise ClusterError to give up early."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not so after {seconds:.0f} s")
        time.sleep(pause)
