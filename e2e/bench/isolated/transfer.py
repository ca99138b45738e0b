"""`isolated-arg-100mb`, `isolated-result-100mb`, `isolated-echo-100mb`: bytes in a pickle, beside the same bytes over bare loopback."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..report import Row, against_limit, all_hold, at_most, percentile
from . import server

Samples = Mapping[str, Sequence[float]]

SAMPLES = 50
MB = 1_000_000
MIB = 1 << 20
GROWTH_MIB = 16


def measure_argument() -> tuple[list[Row], Samples]:
    """There."""
    return _measure("isolated-arg-100mb", "bytes there", "f = len", (100 * MB, 0), 2.0)


def measure_result() -> tuple[list[Row], Samples]:
    """Back."""
    return _measure("isolated-result-100mb", "bytes back", "f = bytes", (0, 100 * MB), 2.0)


def measure_echo() -> tuple[list[Row], Samples]:
    """There and back."""
    return _measure("isolated-echo-100mb", "bytes there and back", "f = lambda x: x", (100 * MB, 100 * MB), 2.5)


def _measure(
    name: str, what: str, function: str, size: tuple[int, int], goal: float
) -> tuple[list[Row], dict[str, list[float]]]:
    argument, result = size
    with server.runtime() as runtime:
        pickled = runtime.function("function", function)
        memory = Memory(runtime.pid)
        samples = _transfer(runtime, pickled, argument, result, SAMPLES)
        growth = memory.growth()
        gigabyte = _transfer(runtime, pickled, argument * 10, result * 10, 1)
        growth_gigabyte = memory.growth()
    ours, limit = (percentile(samples[kind], 0.5) for kind in ("ours", "limit"))
    grown = "growth of the server's memory"
    rows = [
        against_limit(name, f"100 MB of {what}, p50", "ms", ours, limit, goal),
        at_most(f"{name}-memory", grown, "MiB", growth, GROWTH_MIB),
        Row(f"{name}-1gb", f"1 GB of {what}", "ms", gigabyte["ours"][0], limit=gigabyte["limit"][0]),
        at_most(f"{name}-1gb-memory", f"{grown} by 1 GB", "MiB", growth_gigabyte, GROWTH_MIB),
    ]
    return all_hold(rows), {**samples, "gigabyte": gigabyte["ours"]}


def _transfer(
    runtime: server.Runtime, function: Path, argument: int, result: int, samples: int
) -> dict[str, list[float]]:
    sizes = ("--argument-bytes", argument, "--result-bytes", result)
    measured: dict[str, list[float]] = runtime.load("transfer", "--function", function, *sizes, "--samples", samples)
    return measured


class Memory:
    """The resident memory of a process: what it was, and the most it has been since."""

    def __init__(self, pid: int) -> None:
        self.status = Path(f"/proc/{pid}/status")
        self.before = self._kib("VmRSS")
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew

    def growth(self) -> float:
        """MiB."""
        return (self._kib("VmHWM") - self.before) * 1024 / MIB

    def _kib(self, name: str) -> int:
        for line in self.status.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise OSError(f"{os.fspath(self.status)} has no {name}")
