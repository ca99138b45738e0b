"""RexecEnvironments as the tests and the demo see them: their conditions, and everything that explains a failure."""

from collections.abc import Iterable
from typing import Any

from .cluster import Cluster

KIND = "rexecenvironments.rexec.dev"
SYSTEM = "rexec-system"


def condition(environment: Any, kind: str) -> dict[str, Any]:
    """One condition; empty where it is not there."""
    conditions = (environment or {}).get("status", {}).get("conditions", [])
    return next((item for item in conditions if item["type"] == kind), {})


def namespace_of(environment: Any) -> str:
    """The namespace that the operator made for it, as its status says."""
    return str(environment["status"]["namespace"])


def conditions_table(environment: Any) -> str:
    """All conditions for people."""
    rows = [("TYPE", "STATUS", "REASON", "MESSAGE")]
    for item in (environment or {}).get("status", {}).get("conditions", []):
        rows.append((item["type"], item["status"], item.get("reason", ""), item.get("message", "")))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join("  ".join([*(row[at].ljust(widths[at]) for at in range(3)), row[3]]).rstrip() for row in rows)


def report(cluster: Cluster, names: Iterable[str]) -> list[tuple[str, str]]:
    """What helps to understand why something failed: titles and texts."""
    sections = []
    for name in names:
        environment = cluster.get(KIND, name)
        if environment is None:
            sections.append((f"environment {name}", "is not there"))
            continue
        sections.append((f"conditions of {name}", conditions_table(environment)))
        namespace = environment.get("status", {}).get("namespace")
        if namespace:
            sections += _namespace(cluster, str(namespace))
    for workload in ("rexec-operator", "rexec-gateway"):
        sections.append((f"log of {workload}", _log(cluster, SYSTEM, f"deployment/{workload}")))
    return sections


def _namespace(cluster: Cluster, namespace: str) -> list[tuple[str, str]]:
    pods = cluster.try_kubectl("-n", namespace, "get", "pods", "-o", "wide").stdout
    events = cluster.try_kubectl("-n", namespace, "get", "events", "--sort-by=.lastTimestamp").stdout
    sections = [(f"pods in {namespace}", pods), (f"events in {namespace}", _last_lines(events, 15))]
    for container in ("install", "server"):
        sections.append(
            (f"log of {namespace}/server {container}", _log(cluster, namespace, "pod/server", "-c", container))
        )
    return sections


def _log(cluster: Cluster, namespace: str, *what: str) -> str:
    done = cluster.try_kubectl("-n", namespace, "logs", "--tail=40", *what)
    return done.stdout or done.stderr


def _last_lines(text: str, count: int) -> str:
    return "\n".join(text.splitlines()[-count:])
