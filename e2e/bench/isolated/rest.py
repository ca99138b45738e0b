"""`isolated-rest`: what a server costs that nobody calls."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..report import Row, all_hold, at_most
from . import server

SECONDS = 60
SETTLE_SECONDS = 2
MEMORY_MB = 30
CPU_PERCENT = 0.1


def measure() -> tuple[list[Row], Mapping[str, Sequence[float]]]:
    """Memory and processor time of server, warm parent and spare together, after one call."""
    with server.runtime() as runtime:
        runtime.lines("print(1)")
        time.sleep(SETTLE_SECONDS)
        family = runtime.family()
        before = sum(_cpu_seconds(pid) for pid in family)
        time.sleep(SECONDS)
        used = sum(_cpu_seconds(pid) for pid in family) - before
        sizes = [_proportional_mb(pid) for pid in family]
    what = f"proportional set size of {len(family)} processes: {', '.join(f'{size:.1f}' for size in sizes)}"
    rows = [
        at_most("isolated-rest", what, "MB", sum(sizes), MEMORY_MB),
        at_most("isolated-rest-cpu", f"processor time over {SECONDS} s", "%", used / SECONDS * 100, CPU_PERCENT),
    ]
    return all_hold(rows), {"sizes": sizes, "cpu_seconds": [used]}


def _cpu_seconds(pid: int) -> float:
    """To the nanosecond, which the clock ticks of `stat` are too coarse for."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _proportional_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"process {os.fspath(Path('/proc') / str(pid))} shows no proportional set size")
