"""Run the benchmarks that are named, or all."""

import sys
from collections.abc import Callable, Mapping, Sequence

from rexec_e2e.errors import E2eError
from rexec_e2e.paths import OUT
from rexec_e2e.steps import say, step

from . import trivial_call
from .report import Row, table, write

Result = tuple[list[Row], Mapping[str, Sequence[float]]]

BENCHMARKS: dict[str, Callable[[], Result]] = {
    "e2e-trivial-call": trivial_call.measure,
}


def main(names: list[str]) -> int:
    """Measure, print the table, and write the files; a goal that is missed is reported, not an error."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        say(f"bench: there is no {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
        return 2
    rows: list[Row] = []
    try:
        for name in names or BENCHMARKS:
            with step(f"bench {name}"):
                found, samples = BENCHMARKS[name]()
            write(OUT / "bench", name, found, samples)
            rows += found
    except E2eError as error:
        say(f"bench: {error}")
        return 1
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
