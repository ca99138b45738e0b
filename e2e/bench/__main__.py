"""Run the benchmarks that are named, or all."""

import sys
from collections.abc import Callable, Mapping, Sequence

from rexec_e2e.errors import E2eError
from rexec_e2e.paths import OUT
from rexec_e2e.steps import say, step

from . import trivial_call
from .isolated import cancel, imports, lines, rest, transfer, trivial
from .report import Row, table, write

Result = tuple[list[Row], Mapping[str, Sequence[float]]]

BENCHMARKS: dict[str, Callable[[], Result]] = {
    "isolated-trivial-20ms": trivial.measure_20ms,
    "isolated-trivial-b2b": trivial.measure_b2b,
    "isolated-arg-100mb": transfer.measure_argument,
    "isolated-result-100mb": transfer.measure_result,
    "isolated-echo-100mb": transfer.measure_echo,
    "isolated-lines": lines.measure,
    "isolated-cancel": cancel.measure,
    "isolated-import": imports.measure,
    "isolated-import-preload": imports.measure_preload,
    "isolated-rest": rest.measure,
    "e2e-trivial-call": trivial_call.measure,
}


def main(names: list[str]) -> int:
    """Measure, print the table, and write the files; a goal that is missed is reported, not an error."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        say(f"bench: there is no {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
        return 2
    rows: list[Row] = []
    failed = False
    for name in names or BENCHMARKS:
        try:
            with step(f"bench {name}"):
                found, samples = BENCHMARKS[name]()
        except E2eError as error:
            say(f"bench: {error}")
            failed = True
            continue
        write(OUT / "bench", name, found, samples)
        rows += found
    print(table(rows))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
