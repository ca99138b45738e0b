"""`isolated-trivial-20ms`, `isolated-trivial-b2b`: a trivial call over one kept connection, beside a bare fork of the same Python."""

from collections.abc import Mapping, Sequence

from ..report import Row, against_limit, all_hold, percentile
from . import server

Samples = Mapping[str, Sequence[float]]

SAMPLES = 2000
TRIVIAL = "f = lambda: 1"


def measure_20ms() -> tuple[list[Row], Samples]:
    """20 ms between two calls."""
    return _measure("isolated-trivial-20ms", "a trivial call, 20 ms apart", 20, 0.6)


def measure_b2b() -> tuple[list[Row], Samples]:
    """No pause between two calls."""
    return _measure("isolated-trivial-b2b", "a trivial call, back to back", 0, 1.3)


def _measure(name: str, what: str, gap_ms: int, goal: float) -> tuple[list[Row], Samples]:
    with server.runtime() as runtime:
        samples = calls_and_forks(runtime, gap_ms)
    return rows(name, what, samples, goal), samples


def calls_and_forks(runtime: server.Runtime, gap_ms: int, samples: int = SAMPLES) -> Samples:
    """Milliseconds of calls and of bare forks, in turn."""
    forker = runtime.forker()
    body = runtime.function("trivial", TRIVIAL, "()")
    options = ("--body", body, "--samples", samples, "--gap-ms", gap_ms, "--", *forker)
    measured = runtime.load("trivial", *options)
    server.check_forker(measured["holds"])
    return {"ours": measured["ours"], "fork": measured["fork"]}


def rows(name: str, what: str, samples: Samples, goal: float, goal_p99: float = 2.0) -> list[Row]:
    """The median against its goal, and the 99th percentile against that of the limit."""
    found = []
    for suffix, share, allowed in (("", 0.5, goal), ("-p99", 0.99, goal_p99)):
        ours, fork = (percentile(samples[kind], share) for kind in ("ours", "fork"))
        found.append(against_limit(f"{name}{suffix}", f"{what}, p{share * 100:.0f}", "ms", ours, fork, allowed))
    return all_hold(found)
