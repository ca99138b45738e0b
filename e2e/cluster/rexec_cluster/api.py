"""A few requests to the cluster's API server, from outside of its network, without starting kubectl for each."""

import http.client
import json
import socket
import ssl
import struct
from pathlib import Path
from typing import Any

from .errors import ClusterError
from .inside_http import InsideConnection
from .namespaces import open_socket
from .settings import API_PORT, FIRST_NODE_ADDRESS


class Api:
    """The API server as the administrator sees it."""

    def __init__(self, pid: int, pki: Path) -> None:
        self._pid = pid
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body; an API server that does not answer has the status 0."""
        connection = InsideConnection(self._pid, FIRST_NODE_ADDRESS, API_PORT, 5, self._tls)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def find(self, path: str) -> dict[str, Any] | None:
        status, body = self.get(path)
        if status != 200:
            return None
        found: dict[str, Any] = json.loads(body)
        return found

    def ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def node_ready(self, name: str) -> bool:
        return condition(self.find(f"/api/v1/nodes/{name}"), "Ready") == "True"


def condition(resource: dict[str, Any] | None, kind: str) -> str:
    """The status of one of a resource's conditions; empty when it is not there."""
    conditions = (resource or {}).get("status", {}).get("conditions", [])
    return next((str(item["status"]) for item in conditions if item["type"] == kind), "")


def dns_query(name: str, identity: int = 0x5245) -> bytes:
    """A DNS question for the IPv4 address of a name."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.rstrip(".").split("."))
    return struct.pack(">6H", identity, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 1, 1)


def resolves(pid: int, server: str, name: str) -> bool:
    """Whether a DNS server inside the cluster's network answers with an address."""
    try:
        with open_socket(pid, socket.SOCK_DGRAM) as connection:
            connection.settimeout(0.5)
            connection.sendto(dns_query(name), (server, 53))
            answer = connection.recv(512)
    except (OSError, ClusterError):
        return False
    _, flags, _, answers = struct.unpack(">4H", answer[:8])
    return bool(flags & 0x000F == 0 and answers > 0)
