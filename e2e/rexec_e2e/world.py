"""The tests' cluster with everything deployed, and what the tests do with it."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import crane, deploy, images, venvs
from .client import Client
from .cluster import Cluster, LocalCluster
from .environments import KIND, SYSTEM, condition, conditions_table, namespace_of
from .errors import E2eError
from .idp import PREFIX
from .paths import E2E
from .steps import eventually, step

# Things of the tests' own: the identity provider, and pods that probe.
NAMESPACE = "rexec-test"
IDP_PORT = 8080
REGISTRY_PORT = 5000
REGISTRY_PREFIX = "test"
PYTHON_IMAGE = "docker.io/library/python:3.11-slim"

# A pod that may run anywhere, under Pod Security `restricted` too.
_CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_POD_SECURITY = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}


@dataclass
class World:
    """A cluster with operator, gateway and identity provider."""

    cluster: LocalCluster
    python: Path
    gateway_address: str
    call_port: int
    api_port: int
    touched: list[str] = field(default_factory=list)

    @property
    def api_url(self) -> str:
        """The gateway's deploy API."""
        return f"http://{self.gateway_address}:{self.api_port}"

    def client(self, user: str, address: tuple[str, int] | None = None) -> Client:
        """The public clients with a user's token."""
        where = address or (self.gateway_address, self.call_port)
        environment = {**self.cluster.environment, "API": self.api_url}
        return Client(self.cluster.command, self.python, where, PREFIX + user, environment)

    def create(self, name: str, requirements: Sequence[str] = (), python: str = "3.11", **spec: Any) -> None:
        """Create an environment by kubectl, for the user of the same name."""
        self.touched.append(name)
        manifest = {
            "apiVersion": "rexec.dev/v1alpha1",
            "kind": "RexecEnvironment",
            "metadata": {"name": name},
            "spec": {"user": name, "python": python, "requirements": list(requirements), **spec},
        }
        self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(manifest))

    def get(self, name: str) -> Any:
        """The environment, or None."""
        return self.cluster.get(KIND, name)

    def of_user(self, user: str) -> Any:
        """The environment of a user, whoever made it and whatever it is called; None where there is none."""
        found = [item for item in self.cluster.get(KIND)["items"] if item["spec"]["user"] == user]
        if found:
            self.touched.append(found[0]["metadata"]["name"])
        return found[0] if found else None

    def wait(self, name: str, kind: str, status: str = "True", seconds: float = 180) -> Any:
        """Wait until a condition has a status for the spec as it is now."""

        def probe() -> Any:
            environment = self.get(name)
            found = condition(environment, kind)
            current = found.get("observedGeneration") == environment["metadata"]["generation"] if environment else False
            if current and kind == "Ready" and found.get("reason") == "CrashLoop":
                raise E2eError(f"{name} will not get {kind}={status}")
            return environment if found.get("status") == status and current else None

        try:
            return eventually(f"{kind}={status} of {name}", seconds, probe, pause=0.2)
        except E2eError as error:
            raise E2eError(f"{error}\n{conditions_table(self.get(name))}") from None

    def wait_reason(self, name: str, kind: str, reason: str, seconds: float = 120) -> dict[str, Any]:
        """Wait until a condition has a reason, and return the condition."""

        def probe() -> dict[str, Any] | None:
            found = condition(self.get(name), kind)
            return found if found.get("reason") == reason else None

        try:
            return eventually(f"{kind} of {name} for the reason {reason}", seconds, probe, pause=0.2)
        except E2eError as error:
            raise E2eError(f"{error}\n{conditions_table(self.get(name))}") from None

    def delete(self, name: str) -> None:
        """Delete an environment and wait until its namespace is gone."""
        environment = self.get(name)
        if environment is None:
            return
        self.cluster.kubectl("delete", KIND, name, "--wait=false")
        namespace = environment.get("status", {}).get("namespace")
        if namespace:
            self.wait_namespace_gone(namespace)

    def wait_namespace_gone(self, namespace: str, seconds: float = 120) -> None:
        """Wait until a namespace is gone."""
        eventually(f"namespace {namespace} is gone", seconds, lambda: self.cluster.get("namespace", namespace) is None)

    def pod(self, name: str) -> Any:
        """The pod of an environment."""
        return self.cluster.get("pod", "-n", namespace_of(self.get(name)), "server")

    @contextmanager
    def gateway_with(self, name: str, *flags: str) -> Iterator[tuple[str, int]]:
        """Another gateway pod with other flags; it is asked by its own address and is in no Service."""
        deployment = self.cluster.get("deployment", "-n", SYSTEM, "rexec-gateway")
        template = deployment["spec"]["template"]
        container = template["spec"]["containers"][0]
        container["args"] = [*container.get("args", []), *flags]
        # Never ready, so never behind the Service, whose selector it must match for the policies to let it through.
        container["readinessProbe"] = {"httpGet": {"path": "/never", "port": 1}}
        template["metadata"]["labels"]["rexec.dev/test"] = name
        template["metadata"].pop("creationTimestamp", None)
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": SYSTEM, "labels": template["metadata"]["labels"]},
            "spec": template["spec"],
        }
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
        try:
            yield self._pod_address(SYSTEM, name), self._container_port(container)
        finally:
            self.cluster.kubectl("delete", "pod", "-n", SYSTEM, name, "--grace-period=1")

    def _container_port(self, container: Any) -> int:
        return next(int(port["containerPort"]) for port in container["ports"] if port["name"] == "zmtp")

    def _pod_address(self, namespace: str, name: str) -> str:
        def probe() -> str | None:
            status = self.cluster.get("pod", "-n", namespace, name)["status"]
            running = any("running" in item["state"] for item in status.get("containerStatuses", []))
            return status.get("podIP") if running else None

        return eventually(f"pod {name} runs", 60, probe)

    @contextmanager
    def prober(self, namespace: str, name: str, labels: dict[str, str]) -> Iterator["Prober"]:
        """A pod with nothing but Python, with the labels of whatever it stands for."""
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(_probe_pod(namespace, name, labels)))
        try:
            self._pod_address(namespace, name)
            yield Prober(self.cluster, namespace, name)
        finally:
            self.cluster.kubectl("delete", "pod", "-n", namespace, name, "--grace-period=0", "--force")


@dataclass(frozen=True)
class Prober:
    """A pod that tries connections."""

    cluster: Cluster
    namespace: str
    name: str

    def connects(self, host: str, port: int) -> bool:
        """Whether a TCP connection is made within 3 seconds."""
        program = (
            "import socket, sys\n"
            "try:\n"
            f"    socket.create_connection(({host!r}, {port}), 3).close()\n"
            "    print('connected')\n"
            "except OSError as error:\n"
            "    print('refused', error)\n"
        )
        answer = self.cluster.kubectl("exec", "-n", self.namespace, self.name, "--", "python3", "-c", program)
        return answer.startswith("connected")


def _probe_pod(namespace: str, name: str, labels: dict[str, str]) -> dict[str, Any]:
    container = {
        "name": "probe",
        "image": PYTHON_IMAGE,
        "command": ["python3", "-c", "import signal; signal.pause()"],
        "securityContext": _CONTAINER_SECURITY,
        # Never ready: a pod with the labels of a server of ours must not be sent that server's traffic.
        "readinessProbe": {"exec": {"command": ["python3", "-c", "raise SystemExit(1)"]}, "periodSeconds": 60},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": _POD_SECURITY,
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
        },
    }


class Watch:
    """Looks at `kubectl get rxe NAME` every 0.2 s and keeps the sequence of what STATE says."""

    PAUSE = 0.2

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._end = threading.Event()
        self.states: list[str] = []
        self.looks = 0
        self.problems: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._end.is_set():
            start = time.monotonic()
            done = self._world.cluster.try_kubectl("get", "rxe", self._name, "--ignore-not-found")
            if done.returncode:
                self.problems.append(done.stderr.strip())
            elif done.stdout:
                self.looks += 1
                state = column(done.stdout, "STATE")
                if not self.states or self.states[-1] != state:
                    self.states.append(state)
            self._end.wait(max(0.0, self.PAUSE - (time.monotonic() - start)))


def column(table: str, title: str) -> str:
    """A cell of the first row of what kubectl prints, by its column's title."""
    head, row = table.splitlines()[:2]
    start = head.index(title)
    following = head[start:].split()
    end = head.index(following[1], start + len(title)) if len(following) > 1 else None
    return row[start:end].strip()


def _idp_manifests() -> list[dict[str, Any]]:
    labels = {"app": "idp"}
    program = (E2E / "rexec_e2e" / "idp.py").read_text()
    container = {
        "name": "idp",
        "image": PYTHON_IMAGE,
        "command": ["python3", "/program/idp.py", str(IDP_PORT)],
        "ports": [{"containerPort": IDP_PORT}],
        "readinessProbe": {"httpGet": {"path": "/", "port": IDP_PORT}, "periodSeconds": 1},
        "volumeMounts": [{"name": "program", "mountPath": "/program"}],
        "securityContext": _CONTAINER_SECURITY,
    }
    pod = {
        "automountServiceAccountToken": False,
        "securityContext": _POD_SECURITY,
        "containers": [container],
        "volumes": [{"name": "program", "configMap": {"name": "idp"}}],
        "terminationGracePeriodSeconds": 0,
    }
    meta = {"name": "idp", "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"idp.py": program}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"selector": labels, "ports": [{"port": IDP_PORT}]},
        },
    ]


def deploy_tool(cluster: LocalCluster, action: str) -> None:
    """`make deploy` or `make undeploy` as a person does it for a cluster of their own, with its registry and kubeconfig."""
    registry = f"{cluster.node_address()}:{REGISTRY_PORT}/{REGISTRY_PREFIX}"
    crane.program()  # Its first build downloads its module, which the cluster's own network cannot.
    command = cluster.command([sys.executable, "-m", "rexec_e2e.deploy", "--registry", registry, action])
    done = subprocess.run(command, env={**cluster.environment, "PYTHONPATH": str(E2E)}, check=False, timeout=600)
    if done.returncode:
        raise E2eError(f"deploy {action} ended with status {done.returncode}")


def set_up(cluster: LocalCluster, overlay: Path) -> World:
    """Deploy everything for the tests, and wait until it can be used."""
    python = venvs.venv("client") / "bin" / "python"
    deploy_tool(cluster, "apply")
    references = images.references(f"{cluster.node_address()}:{REGISTRY_PORT}/{REGISTRY_PREFIX}")
    with step("identity provider of the tests"):
        manifests = {"apiVersion": "v1", "kind": "List", "items": _idp_manifests()}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifests))
        cluster.kubectl("rollout", "status", "-n", NAMESPACE, "deployment/idp", "--timeout=120s", timeout=130)
    network = cluster.network()
    operator = [f"--index-url={network.index_url}"] if network.index_url else []
    operator += [f"--egress-allow={network.egress_allow}"] if network.egress_allow else []
    gateway = [f"--introspection-url=http://idp.{NAMESPACE}.svc:{IDP_PORT}/"]
    deployment = deploy.Deployment(overlay, "test", {"rexec-operator": operator, "rexec-gateway": gateway})
    deploy.apply(cluster, deployment, references)
    service = cluster.get("service", "-n", SYSTEM, "rexec-gateway")["spec"]
    ports = {port["name"]: int(port["port"]) for port in service["ports"]}
    return World(cluster, python, service["clusterIP"], ports["zmtp"], ports["http"])


@contextmanager
def local_cluster(name: str, keep: bool) -> Iterator[LocalCluster]:
    """A cluster that is taken down at the end, unless it is to be kept for the next run."""
    cluster = LocalCluster(name)
    with step(f"local Kubernetes '{name}'"):
        cluster.tool("up")
    try:
        yield cluster
    finally:
        if not keep:
            with suppress(E2eError), step(f"take the local Kubernetes '{name}' down"):
                cluster.tool("down", quiet=True)
