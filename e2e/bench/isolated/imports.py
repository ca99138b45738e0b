"""`isolated-import`: what importing costs in a call, beside a fresh interpreter; `isolated-import-preload`: where the parent holds it."""

import subprocess
from collections.abc import Mapping, Sequence

from ..report import Row, against_limit, all_hold, at_most, percentile
from . import server
from .trivial import calls_and_forks

Samples = Mapping[str, Sequence[float]]

SAMPLES = 60
WARM_UP = 3
PRELOAD = "numpy,pandas"
TIMED = """
import time
start = time.perf_counter()
import numpy, pandas
print((time.perf_counter() - start) * 1e3)
"""


def measure() -> tuple[list[Row], Samples]:
    """In a call and in a fresh interpreter, in turn, both timed around the import statement."""
    ours, fresh = [], []
    with server.runtime() as runtime:
        for round_ in range(WARM_UP + SAMPLES):
            in_call = float(runtime.lines(TIMED)[0])
            alone = _fresh(runtime)
            if round_ >= WARM_UP:
                ours.append(in_call)
                fresh.append(alone)
    halves = [percentile(samples, 0.5) for samples in (ours, fresh)]
    what = f"import {PRELOAD.replace(',', ', ')} in a call; limit: in a fresh interpreter, p50"
    row = against_limit("isolated-import", what, "ms", halves[0], halves[1], 1.1)
    return [row], {"ours": ours, "fresh": fresh}


def _fresh(runtime: server.Runtime) -> float:
    command = [str(runtime.python), "-c", TIMED]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, cwd=runtime.root).stdout)


def measure_preload() -> tuple[list[Row], Samples]:
    """With a parent that holds them: the statement, and a trivial call beside a bare fork of that parent."""
    with server.runtime("--preload", PRELOAD) as runtime:
        imports = [float(runtime.lines(TIMED)[0]) for _ in range(500)]
        samples = calls_and_forks(runtime, 20, 1000)
    ours, fork = (percentile(samples[kind], 0.5) for kind in ("ours", "fork"))
    name = "isolated-import-preload"
    rows = [
        at_most(name, "the same with a parent that holds them, p50", "ms", percentile(imports, 0.5), 5),
        against_limit(f"{name}-trivial", "a trivial call of that parent, 20 ms apart, p50", "ms", ours, fork, 1.0),
    ]
    return all_hold(rows), {"imports": imports, **samples}
