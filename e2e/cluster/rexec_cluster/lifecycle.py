"""Up, and one node more: the order of things."""

import contextlib
import fcntl
import time
from collections.abc import Iterator, Mapping

from . import catalogue, cgroups, controlplane, debian, index, network, node, pki, registry, state, teardown
from .api import resolves
from .configs import NodePlan
from .errors import ClusterError
from .members import Cluster
from .paths import SOURCE, Cache, Run
from .preparation import Prepared, prepare
from .processes import kill_all
from .progress import say, step
from .settings import API_URL, DNS_SERVICE_ADDRESS, INDEX_URL, REGISTRY_ADDRESS, REGISTRY_NAME

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


def up(run: Run, cache: Cache, environment: Mapping[str, str]) -> None:
    """Put the cluster up, and come back when it can be used."""
    start = time.monotonic()
    current = state.load(run)
    if current is not None and current.alive():
        say(f"cluster {run.name} is up already")
        return
    prepared = prepare(cache, environment)
    if current is not None or run.root.exists():
        say(f"cluster {run.name} is half there: clearing it away first")
        teardown.down(run)
    cluster = Cluster(run, cache, prepared.bundle, state.new(cgroups.host_plan(run.name), prepared.storage))
    state.save(run, cluster.state)
    with teardown.start_emptying_trash(run):
        _start_first_node(cluster, prepared)
        _start_services(cluster)
    cluster.state.complete = True
    state.save(run, cluster.state)
    say(f"cluster {run.name} is up after {time.monotonic() - start:.1f} s")
    say(f"  API {API_URL}   registry {REGISTRY_ADDRESS} ({REGISTRY_NAME})   package index {INDEX_URL}")


def _start_first_node(cluster: Cluster, prepared: Prepared) -> None:
    with step("certificates, namespaces and network"):
        cgroups.create(cluster.state.cgroups, "daemons")
        pki.create(cluster.run.pki)
        plan = cluster.create_node(1)
        network.set_up_first_node(cluster.state.pid)
    start = cluster.starter(1)
    with step("API server"):
        controlplane.start_store_and_server(start, cluster.run, cluster.cache, cluster.bundle)
        node.start_containerd(start, plan, cluster.bundle)
        _start_registry(cluster, prepared)
        cluster.start_in_network("index", index.server_command(cluster.cache))
        cluster.wait("API server", 90, cluster.api.ready)
    with step("node"):
        controlplane.start_controllers(start, cluster.run, cluster.cache)
        _start_node_daemons(cluster, plan)


def _start_registry(cluster: Cluster, prepared: Prepared) -> None:
    registry.seed(cluster.run.registry, catalogue.Catalogue(cluster.cache).store, prepared.images)
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
