"""A cluster and its members: making nodes, starting daemons in them, and waiting for what they do."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import build, cgroups, namespaces, node, state
from .api import Api
from .configs import NodePlan
from .debian import Bundle
from .paths import SOURCE, Cache, Run
from .processes import Daemon, Process, spawn
from .processes import run as run_program
from .progress import wait_until
from .state import State


class Cluster:
    """A cluster while it is being put up, or a node is being added to it."""

    def __init__(self, run: Run, cache: Cache, bundle: Bundle, current: State) -> None:
        self.run, self.cache, self.bundle, self.state = run, cache, bundle, current

    def plan(self, number: int) -> NodePlan:
        return NodePlan(self.run.name, number, self.run.node(number), self.state.cgroups.path(f"node-{number}"))

    @property
    def api(self) -> Api:
        return Api(self.state.pid, self.run.pki)

    def environment(self) -> dict[str, str]:
        return self.state.environment({**self.bundle.environment(), "HOME": str(self.run.root)})

    def create_node(self, number: int) -> NodePlan:
        """A node's files, cgroup and namespaces; it is written down before anything else can fail."""
        plan = self.plan(number)
        node.write_files(plan, self.run, self.bundle, Path(self.state.storage))
        cgroups.create(self.state.cgroups, f"node-{number}")
        self.state.last_number = number
        self.state.nodes[number] = namespaces.create(
            namespaces.InitArguments(plan.name, plan.directory, self.cache.root, build.pause_program(self.cache)),
            self.run.logs / f"node-{number}.log",
            self.environment(),
            self.state.cgroups.files("daemons"),
        )
        state.save(self.run, self.state)
        return plan

    def starter(self, number: int) -> node.Start:
        """Starts daemons in all namespaces of a node."""

        def start(name: str, command: Sequence[str | Path]) -> None:
            full_name = name if number == 1 else f"{name}-{number}"
            entered = namespaces.inside(self.state.nodes[number].pid, *command)
            self._start(full_name, entered, self.environment())

        return start

    def start_in_network(self, name: str, command: Sequence[str | Path]) -> None:
        """Start a program of the host's in the first node's network alone."""
        environment = self.state.environment({**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"})
        self._start(name, namespaces.in_network(self.state.pid, *command), environment)

    def _start(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        log = self.run.logs / f"{name}.log"
        files = self.state.cgroups.files("daemons")
        process = spawn(command, log=log, environment=environment, cgroup_files=files)
        self.state.daemons.append(Daemon(name, process, log))
        state.save(self.run, self.state)

    def wait(self, what: str, seconds: float, ready: node.Check) -> None:
        """Wait for something, and give up at once when a daemon has ended."""

        def asked() -> bool:
            for daemon in self.state.daemons:
                daemon.require()
            return ready()

        wait_until(what, seconds, asked)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        program = build.kubernetes_program(self.cache, "kubectl")
        options = [f"--kubeconfig={self.run.admin_kubeconfig}", f"--cache-dir={self.run.kubectl_cache}"]
        words = namespaces.in_network(self.state.pid, program, *options, *arguments)
        return run_program(words, what=f"kubectl {arguments[0]}", stdin=stdin)


def running_processes(current: State) -> list[tuple[str, Process]]:
    """What `status` shows: every part and its process."""
    nodes = [(f"node {number}", process) for number, process in current.nodes.items()]
    forwards = [(f"forward {name}", process) for name, process in current.forwards.items()]
    return [*nodes, *((daemon.name, daemon.process) for daemon in current.daemons), *forwards]
