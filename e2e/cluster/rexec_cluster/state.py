"""What a running cluster consists of, written down so that any later command finds it again."""

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .cgroups import Cgroups
from .errors import ClusterError
from .paths import Run
from .processes import MARK, Daemon, Process


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass
class State:
    """One run of a cluster, from `up` to `down`. Pids mean nothing after a reboot, so the boot is noted too."""

    boot: str
    token: str
    cgroups: Cgroups
    storage: str
    complete: bool = False
    last_number: int = 0
    nodes: dict[int, Process] = field(default_factory=dict)
    daemons: list[Daemon] = field(default_factory=list)
    forwards: dict[str, Process] = field(default_factory=dict)

    @property
    def first_node(self) -> Process:
        return self.nodes[1]

    @property
    def pid(self) -> int:
        """The process whose network is the cluster's."""
        return self.first_node.pid

    def alive(self) -> bool:
        """Whether the cluster is up: all of its nodes and daemons live, and `up` came to its end."""
        everything = [*self.nodes.values(), *(daemon.process for daemon in self.daemons)]
        return self.complete and self.boot == boot_id() and all(process.alive() for process in everything)

    def reachable(self) -> bool:
        """Whether there is a network to enter."""
        return self.complete and self.boot == boot_id() and self.first_node.alive()

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """An environment that marks a process as belonging to this run."""
        return {**base, MARK: self.token}


def new(cgroups: Cgroups, storage: Path) -> State:
    return State(boot_id(), str(uuid.uuid4()), cgroups, str(storage))


def save(run: Run, state: State) -> None:
    run.root.mkdir(parents=True, exist_ok=True)
    scratch = run.state.with_suffix(".new")
    scratch.write_text(json.dumps(asdict(state), default=str, indent=1))
    os.replace(scratch, run.state)


def load(run: Run) -> State | None:
    """The recorded state; None when there is none, or none that can be read."""
    try:
        return _decode(json.loads(run.state.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _decode(content: dict[str, Any]) -> State:
    cgroups: dict[str, Any] = {key: _tuple(value) for key, value in content["cgroups"].items()}
    return State(
        content["boot"],
        content["token"],
        Cgroups(**cgroups),
        content["storage"],
        content["complete"],
        content["last_number"],
        {int(number): Process(**process) for number, process in content["nodes"].items()},
        [Daemon(item["name"], Process(**item["process"]), Path(item["log"])) for item in content["daemons"]],
        {name: Process(**process) for name, process in content["forwards"].items()},
    )


def _tuple(value: object) -> object:
    """JSON has lists only."""
    return tuple(value) if isinstance(value, list) else value


def require(run: Run) -> State:
    """The state of a cluster that can be worked with: a test may have ended a part of it on purpose."""
    state = load(run)
    if state is None or not state.reachable():
        raise ClusterError(f"cluster {run.name} is not up: run `cluster up`")
    return state
