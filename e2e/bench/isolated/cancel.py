"""`isolated-cancel`: from the request to cancel until the process is reaped, and until the next call's function has begun."""

from collections.abc import Mapping, Sequence

from ..report import Row, all_hold, at_most, percentile
from . import server

SAMPLES = 500
RUNNING = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(3600)\n"
WAITING = "print('begun', flush=True)\n"


def measure() -> tuple[list[Row], Mapping[str, Sequence[float]]]:
    """While another call waits for its turn."""
    with server.runtime() as runtime:
        bodies = ("--running", runtime.script("running", RUNNING), "--waiting", runtime.script("waiting", WAITING))
        samples = runtime.load("cancel", *bodies, "--samples", SAMPLES)
    rows = [
        at_most("isolated-cancel", "cancel until reaped, p50", "ms", percentile(samples["gone"], 0.5), 5),
        at_most("isolated-cancel-next", "cancel until the next call, p50", "ms", percentile(samples["next"], 0.5), 20),
        Row("isolated-cancel-p99", "cancel until reaped, p99", "ms", percentile(samples["gone"], 0.99)),
    ]
    return all_hold(rows), samples
