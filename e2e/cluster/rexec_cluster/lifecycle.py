"""Up, down and one node more: the order of things."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from . import (
    build,
    catalogue,
    cgroups,
    controlplane,
    debian,
    index,
    namespaces,
    network,
    node,
    pki,
    python_images,
    registry,
    rights,
    state,
)
from .api import Api, resolves
from .configs import NodePlan
from .debian import Bundle
from .errors import ClusterError
from .paths import SOURCE, Cache, Run
from .processes import Daemon, Process, identify, kill_all, marked, spawn
from .processes import run as run_program
from .progress import say, step, wait_until
from .settings import API_URL, DEFAULT_PYTHON_IMAGES, DNS_SERVICE_ADDRESS, INDEX_URL, REGISTRY_ADDRESS, REGISTRY_NAME
from .state import State

DNS_MANIFEST = SOURCE / "images" / "coredns.yaml"
_API_NAME = "kubernetes.default.svc.cluster.local"


@contextlib.contextmanager
def only_one(run: Run) -> Iterator[None]:
    """One command at a time changes a cluster."""
    run.lock.parent.mkdir(parents=True, exist_ok=True)
    with run.lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another command that changes cluster {run.name} …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
        node.write_files(plan, self.run, self.bundle)
        cgroups.create(self.state.cgroups, f"node-{number}")
        self.state.last_number = number
        self.state.nodes[number] = namespaces.create(
            plan.name,
            plan.directory,
            build.pause_program(self.cache),
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
        words = namespaces.in_network(self.state.pid, program, f"--kubeconfig={self.run.admin_kubeconfig}", *arguments)
        return run_program(words, what=f"kubectl {arguments[0]}", stdin=stdin)


def prepare(cache: Cache, python_versions: Sequence[str]) -> tuple[Bundle, list[catalogue.Entry]]:
    """Everything a cluster starts from; what the cache has is taken from there."""
    with build.only_one_builder(cache):
        bundle = debian.fetch(cache)
        rights.require_host(cache, bundle)
        build.build_programs(cache)
        images = catalogue.system_images(cache)
        images += [python_images.python_image(cache, bundle, version) for version in python_versions]
        index.fill(cache, bundle)
    return bundle, images


def wanted_python_images(environment: Mapping[str, str]) -> list[str]:
    chosen = environment.get("PYTHON_IMAGES")
    return chosen.split() if chosen else list(DEFAULT_PYTHON_IMAGES)


def up(run: Run, cache: Cache, environment: Mapping[str, str]) -> None:
    """Put the cluster up, and come back when it can be used."""
    start = time.monotonic()
    current = state.load(run)
    if current is not None and current.alive():
        say(f"cluster {run.name} is up already")
        return
    rights.require_tools(cache)
    bundle, images = prepare(cache, wanted_python_images(environment))
    if current is not None or run.root.exists():
        say(f"cluster {run.name} is half there: clearing it away first")
        down(run)
    cluster = Cluster(run, cache, bundle, state.new(cgroups.host_plan(run.name)))
    state.save(run, cluster.state)
    _start_first_node(cluster, images)
    _start_services(cluster)
    cluster.state.complete = True
    state.save(run, cluster.state)
    say(f"cluster {run.name} is up after {time.monotonic() - start:.1f} s")
    say(f"  API {API_URL}   registry {REGISTRY_ADDRESS} ({REGISTRY_NAME})   package index {INDEX_URL}")


def _start_first_node(cluster: Cluster, images: list[catalogue.Entry]) -> None:
    with step("certificates, namespaces and network"):
        cgroups.create(cluster.state.cgroups, "daemons")
        pki.create(cluster.run.pki)
        plan = cluster.create_node(1)
        network.set_up_first_node(cluster.state.pid)
    start = cluster.starter(1)
    with step("API server"):
        controlplane.start_store_and_server(start, cluster.run, cluster.cache, cluster.bundle)
        node.start_containerd(start, plan, cluster.bundle)
        _start_registry(cluster, images)
        cluster.start_in_network("index", index.server_command(cluster.cache))
        cluster.wait("API server", 90, cluster.api.ready)
    with step("node"):
        controlplane.start_controllers(start, cluster.run, cluster.cache)
        _start_node_daemons(cluster, plan)


def _start_registry(cluster: Cluster, images: list[catalogue.Entry]) -> None:
    registry.seed(cluster.run.registry, catalogue.Catalogue(cluster.cache).store, images)
    file = cluster.run.config / "registry.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(registry.config(cluster.run.registry))
    cluster.starter(1)("registry", [cluster.bundle.program("usr/bin/docker-registry"), "serve", file])


def _start_node_daemons(cluster: Cluster, plan: NodePlan) -> None:
    start, pid = cluster.starter(plan.number), cluster.state.nodes[plan.number].pid
    cluster.wait("containerd", 20, lambda: node.containerd_ready(pid))
    node.start_kubelet(start, plan, cluster.cache)
    node.start_kube_proxy(start, plan, cluster.cache)
    cluster.wait("registration of the node", 60, lambda: cluster.api.find(f"/api/v1/nodes/{plan.name}") is not None)
    node.start_kube_router(start, plan, cluster.run, cluster.cache)
    cluster.wait(f"node {plan.name} Ready", 90, lambda: cluster.api.node_ready(plan.name))


def _start_services(cluster: Cluster) -> None:
    with step("cluster DNS, NetworkPolicy and registry"):
        cluster.kubectl("apply", "-f", "-", stdin=DNS_MANIFEST.read_text())
        pid, bundle = cluster.state.pid, cluster.bundle
        cluster.wait("registry", 20, lambda: _registry_answers(pid))
        cluster.wait("NetworkPolicy", 60, lambda: node.policies_enforced(pid, bundle))
        cluster.wait("cluster DNS", 60, lambda: resolves(pid, DNS_SERVICE_ADDRESS, _API_NAME))
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        cluster.wait("default service account", 30, lambda: cluster.api.find(account) is not None)


def _registry_answers(pid: int) -> bool:
    try:
        return registry.Client(pid).ready()
    except OSError:
        return False


def add_node(run: Run, cache: Cache) -> None:
    """One node more, connected to the first one."""
    current = state.require(run)
    cluster = Cluster(run, cache, debian.bundle(cache), current)
    number = current.last_number + 1
    with step(f"node {cluster.plan(number).name}"):
        plan = cluster.create_node(number)
        network.join_node(number, {key: process.pid for key, process in current.nodes.items()})
        node.start_containerd(cluster.starter(number), plan, cluster.bundle)
        _start_node_daemons(cluster, plan)
        pid = current.nodes[number].pid
        cluster.wait("NetworkPolicy", 60, lambda: node.policies_enforced(pid, cluster.bundle))
        cluster.wait("cluster DNS", 60, lambda: resolves(pid, DNS_SERVICE_ADDRESS, _API_NAME))


def kill_node(run: Run, number: int) -> None:
    """End an added node at once, as when its machine loses power: the API server is told nothing."""
    current = state.require(run)
    if number == 1 or number not in current.nodes:
        raise ClusterError(f"there is no added node {number} in cluster {run.name}")
    kill_all([current.nodes.pop(number)], 10)
    current.daemons = [daemon for daemon in current.daemons if not daemon.name.endswith(f"-{number}")]
    state.save(run, current)


def down(run: Run) -> None:
    """End everything that `up` started, in whatever state it is; nothing there is no error."""
    start = time.monotonic()
    current = state.load(run)
    if current is not None and current.boot == state.boot_id():
        _end_processes(current)
        if busy := cgroups.remove(current.cgroups):
            raise ClusterError(f"cgroups of cluster {run.name} stay busy: {', '.join(busy)}")
    existed = run.root.exists()
    _remove_tree(run.root)
    if existed:
        say(f"cluster {run.name} is down after {time.monotonic() - start:.1f} s")
    else:
        say(f"cluster {run.name} is not up")


def _end_processes(current: State) -> None:
    """A node's first process takes all others in its namespaces along; then come those outside of them."""
    guests = [guest for first in current.nodes.values() for guest in namespaces.processes_in_network_of(first)]
    kill_all(current.nodes.values(), 10)
    outside = [*current.forwards.values(), *(daemon.process for daemon in current.daemons)]
    kill_all([*outside, *guests, *marked(current.token)], 5)
    if left := kill_all(map(identify, cgroups.members(current.cgroups)), 5):
        raise ClusterError(f"processes that do not end: {', '.join(str(process.pid) for process in left)}")
    _await_reaping([*outside, *current.nodes.values()])


def _await_reaping(ended: list[Process]) -> None:
    """Ended processes belong to the host's init, which may take a second to clear them away."""
    deadline = time.monotonic() + 2
    while any(Path(f"/proc/{process.pid}").exists() for process in ended) and time.monotonic() < deadline:
        time.sleep(0.02)


def _remove_tree(root: Path) -> None:
    """A mount that dies with its namespace can keep a directory busy for a moment. `rm` is much faster than Python."""
    deadline = time.monotonic() + 5
    while root.exists():
        try:
            run_program(["rm", "-rf", "--one-file-system", root], what=f"removing {root}")
        except ClusterError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def running_processes(current: State) -> list[tuple[str, Process]]:
    """What `status` shows: every part and its process."""
    nodes = [(f"node {number}", process) for number, process in current.nodes.items()]
    forwards = [(f"forward {name}", process) for name, process in current.forwards.items()]
    return [*nodes, *((daemon.name, daemon.process) for daemon in current.daemons), *forwards]
