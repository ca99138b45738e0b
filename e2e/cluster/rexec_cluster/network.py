"""The nodes' network: one bridge in the first node, to which every other node has a cable."""

from .namespaces import in_network
from .processes import run
from .settings import SERVICE_NETWORK, node_address, pod_network

BRIDGE = "node0"


def _ip(pid: int, lines: list[str]) -> None:
    run(in_network(pid, "ip", "-batch", "-"), what="setting up the node's network", stdin="\n".join(lines) + "\n")


def set_up_first_node(pid: int) -> None:
    """The bridge carries the node's address. Service addresses need a route, or the node cannot reach any of them."""
    _ip(
        pid,
        [
            f"link add {BRIDGE} type bridge",
            f"addr add {node_address(1)}/24 dev {BRIDGE}",
            f"link set {BRIDGE} up",
            f"route add {SERVICE_NETWORK} dev {BRIDGE}",
        ],
    )


def join_node(number: int, pids: dict[int, int]) -> None:
    """Connect node `number` to the first node's bridge, and tell all nodes where each other's pods are.

    `pids` has the first process of every node, the new one included.
    """
    _ip(
        pids[1],
        [
            f"link add node{number} type veth peer name {BRIDGE} netns {pids[number]}",
            f"link set node{number} master {BRIDGE} up",
        ],
    )
    others = [other for other in pids if other != number]
    _ip(
        pids[number],
        [
            f"addr add {node_address(number)}/24 dev {BRIDGE}",
            f"link set {BRIDGE} up",
            f"route add {SERVICE_NETWORK} dev {BRIDGE}",
            *(f"route add {pod_network(other)} via {node_address(other)}" for other in others),
        ],
    )
    for other in others:
        _ip(pids[other], [f"route add {pod_network(number)} via {node_address(number)}"])
