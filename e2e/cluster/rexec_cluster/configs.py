"""The configuration files of a node, as text and data: nothing here touches the machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .debian import Bundle
from .settings import DNS_SERVICE_ADDRESS, PAUSE_IMAGE, POD_NETWORK, node_address, pod_network

# In the node's own tmpfs: a Unix socket's path may have 107 characters, which a cache in a deep home can exceed.
CONTAINERD_SOCKET = Path("/run/containerd/containerd.sock")


@dataclass(frozen=True)
class NodePlan:
    """One node of a cluster: its name, its number, its directory and its cgroup."""

    cluster: str
    number: int
    directory: Path
    cgroup: str

    @property
    def name(self) -> str:
        return f"{self.cluster}-{self.number}"

    @property
    def address(self) -> str:
        return node_address(self.number)

    @property
    def config(self) -> Path:
        return self.directory / "config"


def containerd(node: NodePlan, bundle: Bundle) -> str:
    """containerd 1.6 with runc; no AppArmor, and OOM scores as far as the caller may set them."""
    disabled = ", ".join(
        f'"{plugin}"'
        for plugin in (
            *(f"io.containerd.snapshotter.v1.{name}" for name in ("aufs", "btrfs", "devmapper", "zfs")),
            "io.containerd.internal.v1.tracing",
            "io.containerd.tracing.processor.v1.otlp",
        )
    )
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{node.directory}/containerd/root"
state = "/run/containerd/state"
oom_score = 0
disabled_plugins = [{disabled}]

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
path = "{node.directory}/containerd/opt"

[{cri}]
sandbox_image = "{PAUSE_IMAGE}"
restrict_oom_score_adj = true
disable_apparmor = true
tolerate_missing_hugetlb_controller = true
max_concurrent_downloads = 6

[{cri}.cni]
bin_dir = "{bundle.cni_plugins}"
conf_dir = "{node.config}/cni"

[{cri}.registry]
config_path = "{node.config}/certs.d"

[{cri}.containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[{cri}.containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = "{bundle.program("usr/sbin/runc")}"
"""


def cni(node: NodePlan) -> dict[str, Any]:
    """A bridge for the node's pods.

    `isGateway` with an explicit route: `isDefaultGateway` would add a second default route, which fails every sandbox.
    """
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": pod_network(node.number)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {
        "cniVersion": "0.4.0",
        "name": "rexec",
        "plugins": [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }


def kubelet(node: NodePlan, pki: Path) -> dict[str, Any]:
    """The kubelet's configuration: cgroupfs below our own cgroup, and images that are never collected."""
    certificate = pki / f"kubelet-{node.name}"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{certificate}.crt",
        "tlsPrivateKeyFile": f"{certificate}.key",
        "address": node.address,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": node.cgroup,
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "maxOpenFiles": 20000,
        "clusterDomain": "cluster.local",
        "clusterDNS": [DNS_SERVICE_ADDRESS],
        "resolvConf": str(node.config / "resolv.conf"),
        "podLogsDir": str(node.directory / "pod-logs"),
        "volumePluginDir": str(node.directory / "kubelet" / "volume-plugins"),
        "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi"},
        "imageGCHighThresholdPercent": 100,
        "imageMinimumGCAge": "1000h",
        "serializeImagePulls": False,
        "registryPullQPS": 0,
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "30s",
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "shutdownGracePeriod": "0s",
    }


def kube_proxy(node: NodePlan, kubeconfig: Path) -> dict[str, Any]:
    """nftables mode; the conntrack limits are left alone, since they hold for the whole machine."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "mode": "nftables",
        "hostnameOverride": node.name,
        "clusterCIDR": str(POD_NETWORK),
        "bindAddress": node.address,
        "healthzBindAddress": "",
        "metricsBindAddress": "127.0.0.1:10249",
        "oomScoreAdj": 0,
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
