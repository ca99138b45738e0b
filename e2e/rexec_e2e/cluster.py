"""The clusters that we deploy to: one on this machine, or whichever the caller's kubeconfig points at."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .errors import E2eError
from .paths import E2E

CLUSTER_TOOL = E2E / "cluster" / "cluster"


@dataclass(frozen=True)
class Network:
    """What pods on a cluster need to be told of: the package index, and how to reach it."""

    index_url: str | None = None
    egress_allow: str | None = None


class Cluster:
    """kubectl, and programs that run where the cluster's addresses can be reached."""

    def __init__(self, prefix: Sequence[str], kubectl: Sequence[str], environment: Mapping[str, str]) -> None:
        self._prefix = list(prefix)
        self._kubectl = list(kubectl)
        self.environment = dict(environment)

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        """Run kubectl and return its output; a failure is an error with what it said."""
        done = self.try_kubectl(*arguments, stdin=stdin, timeout=timeout)
        if done.returncode:
            raise E2eError(f"kubectl {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def try_kubectl(
        self, *arguments: str, stdin: str | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl, whatever comes of it."""
        command = [*self._kubectl, *arguments]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=timeout, env=self.environment
        )

    def get(self, *arguments: str) -> Any:
        """`kubectl get … -o json`, decoded; None where the one object that is named is not there."""
        done = self.try_kubectl("get", *arguments, "--output", "json", "--ignore-not-found")
        if done.returncode:
            raise E2eError(f"kubectl get {' '.join(arguments)}: {done.stderr.strip()}")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def command(self, command: Sequence[str | Path]) -> list[str]:
        """The command line that runs a host program where the cluster's addresses can be reached."""
        return [*self._prefix, *map(str, command)]

    def start(self, command: Sequence[str | Path], **options: Any) -> "subprocess.Popen[str]":
        """Start a host program there."""
        options.setdefault("env", self.environment)
        return subprocess.Popen(self.command(command), text=True, **options)

    def network(self) -> Network:
        """What pods need to be told of."""
        return Network()

    def node_address(self) -> str:
        """An address of the first node."""
        addresses = self.get("nodes")["items"][0]["status"]["addresses"]
        return str(next(item["address"] for item in addresses if item["type"] == "InternalIP"))


class LocalCluster(Cluster):
    """A cluster of `e2e/cluster/cluster`."""

    def __init__(self, name: str) -> None:
        self.name = name
        tool = str(CLUSTER_TOOL)
        super().__init__([tool, "exec", "--"], [tool, "kubectl"], {**os.environ, "CLUSTER_NAME": name})

    def tool(self, *arguments: str | Path, quiet: bool = False) -> str:
        """Run one of the cluster tool's own commands; what it says while it works goes to stderr."""
        command = [str(CLUSTER_TOOL), *map(str, arguments)]
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if quiet else None,
            text=True,
            check=False,
            env=self.environment,
        )
        if done.returncode:
            raise E2eError(f"cluster {arguments[0]} failed{': ' + done.stderr.strip() if quiet else ''}")
        return done.stdout

    def network(self) -> Network:
        """The cluster's own package index, since there is no way out of it."""
        url = self.tool("index", quiet=True).strip()
        parts = urlsplit(url)
        return Network(index_url=url, egress_allow=f"{parts.hostname}/32:{parts.port or 80}")


class CurrentCluster(Cluster):
    """The cluster of the caller's kubeconfig."""

    def __init__(self) -> None:
        kubectl = shutil.which("kubectl")
        if kubectl is None:
            raise E2eError("kubectl is needed for the cluster of your kubeconfig and is not on PATH")
        super().__init__([], [kubectl], os.environ)


def wait_for(cluster: Cluster, condition: str, what: str, seconds: float) -> None:
    """`kubectl wait`, which does not wait for an object to appear on every version."""
    deadline = time.monotonic() + seconds
    while True:
        left = max(1, int(deadline - time.monotonic()))
        done = cluster.try_kubectl("wait", what, f"--for={condition}", f"--timeout={left}s", timeout=left + 30)
        if done.returncode == 0:
            return
        if time.monotonic() > deadline - 1:
            raise E2eError(f"{what} does not reach {condition} within {seconds:.0f} s: {done.stderr.strip()}")
        time.sleep(0.2)
