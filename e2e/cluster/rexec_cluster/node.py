"""One node: its files, its namespaces and its daemons."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from . import configs, pki, registry, unpacked
from .build import KUBE_ROUTER, kubernetes_program
from .configs import CONTAINERD_SOCKET, NodePlan
from .debian import Bundle
from .namespaces import inside
from .paths import Cache, Run
from .processes import run as run_program
from .settings import FIRST_NODE_ADDRESS, SERVICE_NETWORK

Start = Callable[[str, Sequence[str | Path]], None]
Check = Callable[[], bool]


def write_files(plan: NodePlan, run: Run, bundle: Bundle, storage: Path) -> None:
    """Everything the node's daemons read."""
    for name in ("config/cni", "kubelet", "pod-logs", "containerd"):
        (plan.directory / name).mkdir(parents=True, exist_ok=True)
    unpacked.give(storage, plan.directory / "containerd" / "root")
    certificate = pki.kubelet_certificate(plan.name, plan.address)
    pki.issue(run.pki, certificate)
    pki.write_kubeconfig(run.pki, certificate.name, plan.config / "kubelet.kubeconfig")
    proxy_kubeconfig = run.pki / "kube-proxy.kubeconfig"
    (plan.config / "containerd.toml").write_text(configs.containerd(plan, bundle))
    (plan.config / "cni" / "10-bridge.conflist").write_text(json.dumps(configs.cni(plan)))
    (plan.config / "kubelet.json").write_text(json.dumps(configs.kubelet(plan, run.pki)))
    (plan.config / "kube-proxy.json").write_text(json.dumps(configs.kube_proxy(plan, proxy_kubeconfig)))
    (plan.config / "resolv.conf").write_text(f"nameserver {FIRST_NODE_ADDRESS}\n")
    for host, content in registry.containerd_hosts().items():
        directory = plan.config / "certs.d" / host
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "hosts.toml").write_text(content)


def start_containerd(start: Start, plan: NodePlan, bundle: Bundle) -> None:
    start("containerd", [bundle.program("usr/bin/containerd"), "--config", plan.config / "containerd.toml"])


def containerd_ready(pid: int) -> bool:
    """Seen through the node's root directory: the socket lies in a file system of the node's own."""
    return Path(f"/proc/{pid}/root{CONTAINERD_SOCKET}").is_socket()


def start_kubelet(start: Start, plan: NodePlan, cache: Cache) -> None:
    start(
        "kubelet",
        [
            kubernetes_program(cache, "kubelet"),
            f"--config={plan.config}/kubelet.json",
            f"--kubeconfig={plan.config}/kubelet.kubeconfig",
            f"--root-dir={plan.directory}/kubelet",
            f"--hostname-override={plan.name}",
            f"--node-ip={plan.address}",
            "--v=2",
        ],
    )


def start_kube_proxy(start: Start, plan: NodePlan, cache: Cache) -> None:
    start("kube-proxy", [kubernetes_program(cache, "kube-proxy"), f"--config={plan.config}/kube-proxy.json"])


def start_kube_router(start: Start, plan: NodePlan, run: Run, cache: Cache) -> None:
    """The enforcer of NetworkPolicies and nothing else; it gives up on a node that is not registered yet."""
    start(
        "kube-router",
        [
            KUBE_ROUTER.path(cache),
            "--run-firewall=true",
            "--run-router=false",
            "--run-service-proxy=false",
            "--run-loadbalancer=false",
            "--enable-cni=false",
            f"--kubeconfig={run.admin_kubeconfig}",
            f"--hostname-override={plan.name}",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
        ],
    )


def policies_enforced(pid: int, bundle: Bundle) -> bool:
    """Whether traffic to and through the node passes the enforcer's chains."""
    listed = run_program(
        inside(pid, bundle.program("usr/local/bin/iptables-save"), "-t", "filter"),
        what="reading the node's packet filter",
        environment=bundle.environment(),
    )
    return all(f"-A {chain} " in listed and f"-j KUBE-ROUTER-{chain}" in listed for chain in ("FORWARD", "INPUT"))


def import_image(pid: int, bundle: Bundle, archive: Path) -> None:
    """Give an image to the node's containerd. The archive must be a file that the node sees, so not in a new mount."""
    run_program(
        inside(pid, bundle.program("usr/bin/ctr"), "-n", "k8s.io", "images", "import", archive),
        what="importing the image",
        environment=bundle.environment(),
    )
