"""`isolated-lines`: lines that a call prints, beside the same script under `python -u` into a bare pipe."""

from collections.abc import Mapping, Sequence

from ..report import Row, at_least_share, percentile
from . import server

LINES = 200_000
SAMPLES = 15
SCRIPT = f"for number in range({LINES}):\n    print(number)\n"


def measure() -> tuple[list[Row], Mapping[str, Sequence[float]]]:
    """Lines a second to a reader that takes all there is."""
    with server.runtime() as runtime:
        body = runtime.script("lines", SCRIPT)
        script = ("--", runtime.python, "-u", "-c", SCRIPT)
        samples = runtime.load("lines", "--body", body, "--samples", SAMPLES, *script)
    ours, limit = (percentile(samples[kind], 0.5) for kind in ("ours", "limit"))
    what = f"{LINES} lines printed by a call; limit: python -u into a pipe"
    return [at_least_share("isolated-lines", what, "lines/s", ours, limit, 0.5)], samples
