"""The user's pod: without privilege, and out of reach. Each probe that is refused stands beside one that is let through."""

from typing import Any

import pytest

from rexec_e2e.client import Client
from rexec_e2e.environments import SYSTEM, namespace_of
from rexec_e2e.world import IDP_PORT, NAMESPACE, World

CALL_PORT = 8080
CONTROL_PORT = 8081

CONNECTS = """
    @remote_func
    def connects(host, port):
        import socket
        try:
            socket.create_connection((host, port), 3).close()
            return True
        except OSError:
            return False
"""


@pytest.fixture
def user(world: World, alice: str) -> Client:
    """Alice's client."""
    return world.client(alice)


@pytest.fixture
def pod(world: World, alice: str) -> Any:
    """Alice's pod."""
    return world.pod(alice)


def test_the_namespace_enforces_the_restricted_profile(world: World, alice: str) -> None:
    namespace = world.cluster.get("namespace", namespace_of(world.get(alice)))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_no_container_has_privilege_and_every_root_is_read_only(pod: Any) -> None:
    spec = pod["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    containers = [*spec["initContainers"], *spec["containers"]]
    assert len(containers) >= 3
    for container in containers:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False, container["name"]
        assert security["readOnlyRootFilesystem"] is True, container["name"]
        assert security["capabilities"] == {"drop": ["ALL"]}, container["name"]


def test_a_call_has_no_privilege_no_token_and_cannot_write_outside_its_places(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def look():
            import os, pathlib
            status = dict(line.split(":\\t", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines() if ":\\t" in line)
            def writable(directory):
                try:
                    path = pathlib.Path(directory) / "probe"
                    path.write_text("x")
                    path.unlink()
                    return True
                except OSError:
                    return False
            return {
                "uid": os.getuid(),
                "capabilities": int(status["CapEff"], 16) | int(status["CapBnd"], 16),
                "no new privileges": status["NoNewPrivs"],
                "seccomp": status["Seccomp"],
                "token": os.path.exists("/var/run/secrets/kubernetes.io"),
                "services": sorted(name for name in os.environ if name.endswith("_SERVICE_HOST")),
                "writable": [at for at in ("/", "/usr/local", "/opt/rexec", "/etc/rexec", "/run", "/home/rexec", "/tmp") if writable(at)],
            }
        show(look())
    """)
    assert answer.ok().one == {
        "uid": 65532,
        "capabilities": 0,
        "no new privileges": "1",
        "seccomp": "2",
        "token": False,
        "services": ["KUBERNETES_SERVICE_HOST"],  # the kubelet always tells of this one
        "writable": ["/home/rexec", "/tmp"],
    }


def test_the_service_account_has_no_token_either(world: World, alice: str, pod: Any) -> None:
    account = world.cluster.get(
        "serviceaccount", "-n", namespace_of(world.get(alice)), pod["spec"]["serviceAccountName"]
    )
    assert account["automountServiceAccountToken"] is False
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["enableServiceLinks"] is False


def test_the_call_port_is_reached_from_a_gateway_and_from_nowhere_else(world: World, pod: Any) -> None:
    address = pod["status"]["podIP"]
    gateway = {"app.kubernetes.io/name": "rexec-gateway", "app.kubernetes.io/part-of": "rexec"}
    operator = {**gateway, "app.kubernetes.io/name": "rexec-operator"}
    with world.prober(SYSTEM, "as-gateway", gateway) as allowed:
        assert allowed.connects(address, CALL_PORT)
        assert not allowed.connects(address, CONTROL_PORT)
    with world.prober(NAMESPACE, "as-gateway", gateway) as elsewhere:
        assert not elsewhere.connects(address, CALL_PORT), "the right labels in another namespace"
        assert not elsewhere.connects(address, CONTROL_PORT)
    with world.prober(SYSTEM, "as-operator", operator) as control:
        assert control.connects(address, CONTROL_PORT)
        assert not control.connects(address, CALL_PORT)


def test_a_neighbours_server_is_out_of_reach(world: World, user: Client) -> None:
    world.create("neighbour", ["six==1.16.0"])
    try:
        world.wait("neighbour", "Ready")
        address = world.pod("neighbour")["status"]["podIP"]
        gateway = {"app.kubernetes.io/name": "rexec-gateway", "app.kubernetes.io/part-of": "rexec"}
        with world.prober(SYSTEM, "as-gateway", gateway) as allowed:
            assert allowed.connects(address, CALL_PORT)
        answer = user.run(
            CONNECTS, f"show([connects({address!r}, {CALL_PORT}), connects({address!r}, {CONTROL_PORT})])"
        )
        assert answer.ok().one == [False, False]
    finally:
        world.delete("neighbour")


def test_a_call_reaches_the_package_index_and_nothing_inside_the_cluster(world: World, user: Client) -> None:
    index = world.cluster.network().egress_allow
    assert index is not None
    index_host, index_port = index.split("/")[0], int(index.rsplit(":", 1)[1])
    pods = world.cluster.get("pods", "-n", NAMESPACE, "-l", "app=idp")["items"]
    idp = pods[0]["status"]["podIP"]
    service = world.cluster.get("service", "-n", "default", "kubernetes")["spec"]["clusterIP"]
    targets = [(index_host, index_port), (idp, IDP_PORT), (service, 443), (world.cluster.node_address(), 6443)]
    answer = user.run(CONNECTS, f"show([connects(host, port) for host, port in {targets!r}])")
    assert answer.ok().one == [True, False, False, False]
    with world.prober(NAMESPACE, "unbound", {"app": "unbound"}) as free:
        assert [free.connects(host, port) for host, port in targets] == [True] * len(targets)


def test_names_are_resolved_in_a_call(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def resolve():
            import socket
            return socket.gethostbyname("kubernetes.default.svc.cluster.local")
        attempt(resolve)
    """)
    assert answer.ok().returned.count(".") == 3
