"""What a measurement says: rows, the table that people read, and the files that programs read."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One measured quantity; None where there is no such thing."""

    id: str
    what: str
    unit: str
    ours: float | None
    peer: float | None = None
    limit: float | None = None
    goal: float | None = None
    holds: bool | None = None

    @property
    def ratio(self) -> float | None:
        """Ours in relation to the limit."""
        return None if self.ours is None or not self.limit else self.ours / self.limit


def against_limit(name: str, what: str, unit: str, ours: float, limit: float, goal: float) -> Row:
    """A row that holds when ours is at most `goal` times the limit."""
    return Row(name, what, unit, ours, limit=limit, goal=goal, holds=ours <= goal * limit)


def at_most(name: str, what: str, unit: str, ours: float, goal: float) -> Row:
    """A row that holds when ours is at most `goal`, in the same unit."""
    return Row(name, what, unit, ours, goal=goal, holds=ours <= goal)


def at_least_share(name: str, what: str, unit: str, ours: float, limit: float, goal: float) -> Row:
    """A row that holds when ours is at least `goal` times the limit: for what is better when it is more."""
    return Row(name, what, unit, ours, limit=limit, goal=goal, holds=ours >= goal * limit)


def all_hold(rows: Sequence[Row]) -> list[Row]:
    """The rows, the first of which holds only where all do that have a goal."""
    whole = all(row.holds for row in rows if row.holds is not None)
    return [replace(rows[0], holds=whole), *rows[1:]]


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least this share of all samples does not exceed."""
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]


def table(rows: Sequence[Row]) -> str:
    """The rows for people."""
    head = ("id", "ours", "peer", "limit", "unit", "ratio", "goal", "holds", "what")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)]
    return "\n".join(
        "  ".join([cell.ljust(width) for cell, width in zip(line, widths, strict=False)] + [line[-1]]) for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    holds = {True: "yes", False: "NO", None: "-"}[row.holds]
    numbers = [_number(value) for value in (row.ours, row.peer, row.limit)]
    return (row.id, *numbers, row.unit, _number(row.ratio), _number(row.goal), holds, row.what)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def write(directory: Path, name: str, rows: Sequence[Row], samples: Mapping[str, Sequence[float]]) -> None:
    """`NAME.json`, and the raw samples beside it; an id stands once."""
    ids = [row.id for row in rows]
    if len(set(ids)) != len(ids):
        raise ValueError(f"an id stands twice: {ids}")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    (directory / f"{name}.samples.json").write_text(
        json.dumps({key: list(all_) for key, all_ in samples.items()}) + "\n"
    )
