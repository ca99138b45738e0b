"""Versions, names and addresses: what other parts of the project may rely on.

Every cluster has the same addresses. They do not clash, because each cluster has a network namespace of its own that is
connected to nothing.
"""

from ipaddress import IPv4Address, IPv4Network

KUBERNETES_VERSION = "1.36.3"
GO_VERSION = (1, 26)

NODE_NETWORK = IPv4Network("10.77.0.0/24")
POD_NETWORK = IPv4Network("10.244.0.0/16")
SERVICE_NETWORK = IPv4Network("10.96.0.0/16")
API_SERVICE_ADDRESS = "10.96.0.1"
DNS_SERVICE_ADDRESS = "10.96.0.10"

API_PORT = 6443
REGISTRY_PORT = 5000
INDEX_PORT = 8088
ARTIFACTS_PORT = 9790

REGISTRY_NAME = f"registry.rexec.local:{REGISTRY_PORT}"
INDEX_NAME = "index.rexec.local"

PAUSE_IMAGE = f"{REGISTRY_NAME}/cluster/pause:1"
COREDNS_IMAGE = f"{REGISTRY_NAME}/cluster/coredns:1"

DEFAULT_PYTHON_IMAGES = ("3.11", "3.12")

# Every file that is put into an image carries this time, so that the same content has the same digest.
IMAGE_TIME = 1_700_000_000


def node_address(number: int) -> str:
    """The address of the node with this number; the first node has the number 1."""
    return str(IPv4Address(int(NODE_NETWORK.network_address) + 1 + number))


def pod_network(number: int) -> str:
    """The addresses of the pods on the node with this number."""
    return str(list(POD_NETWORK.subnets(new_prefix=24))[number - 1])


FIRST_NODE_ADDRESS = node_address(1)
API_URL = f"https://{FIRST_NODE_ADDRESS}:{API_PORT}"
REGISTRY_ADDRESS = f"{FIRST_NODE_ADDRESS}:{REGISTRY_PORT}"
INDEX_URL = f"http://{FIRST_NODE_ADDRESS}:{INDEX_PORT}/simple/"
