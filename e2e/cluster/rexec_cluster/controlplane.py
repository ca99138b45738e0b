"""The control plane: etcd, API server, controller manager and scheduler, all in the first node's namespaces."""

from collections.abc import Callable, Sequence
from pathlib import Path

from .build import kubernetes_program
from .debian import Bundle
from .paths import Cache, Run
from .settings import API_PORT, FIRST_NODE_ADDRESS, SERVICE_NETWORK

Start = Callable[[str, Sequence[str | Path]], None]

_ETCD = "http://127.0.0.1:2379"
_ETCD_PEER = "http://127.0.0.1:2380"


def etcd_command(run: Run, bundle: Bundle) -> list[str | Path]:
    """No fsync: the data lives no longer than the cluster."""
    return [
        bundle.program("usr/bin/etcd"),
        f"--data-dir={run.etcd}",
        "--name=local",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        f"--listen-peer-urls={_ETCD_PEER}",
        f"--initial-advertise-peer-urls={_ETCD_PEER}",
        f"--initial-cluster=local={_ETCD_PEER}",
        "--unsafe-no-fsync",
    ]


def apiserver_command(run: Run, cache: Cache) -> list[str | Path]:
    pki = run.pki
    return [
        kubernetes_program(cache, "kube-apiserver"),
        f"--etcd-servers={_ETCD}",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={FIRST_NODE_ADDRESS}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--anonymous-auth=true",
        "--profiling=false",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--kubelet-client-certificate={pki}/apiserver-kubelet-client.crt",
        f"--kubelet-client-key={pki}/apiserver-kubelet-client.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={pki}/front-proxy-client.crt",
        f"--proxy-client-key-file={pki}/front-proxy-client.key",
    ]


def controller_manager_command(run: Run, cache: Cache) -> list[str | Path]:
    """With the default client limits the controllers need five seconds more until the cluster can be used."""
    pki = run.pki
    return [
        kubernetes_program(cache, "kube-controller-manager"),
        *_client_flags(pki / "kube-controller-manager.kubeconfig"),
        f"--service-account-private-key-file={pki}/sa.key",
        f"--root-ca-file={pki}/ca.crt",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
        f"--client-ca-file={pki}/ca.crt",
        "--use-service-account-credentials=true",
        f"--flex-volume-plugin-dir={run.root}/flex-volumes",
        "--controllers=*,bootstrapsigner,tokencleaner",
    ]


def scheduler_command(run: Run, cache: Cache) -> list[str | Path]:
    return [kubernetes_program(cache, "kube-scheduler"), *_client_flags(run.pki / "kube-scheduler.kubeconfig")]


def _client_flags(kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def start_store_and_server(start: Start, run: Run, cache: Cache, bundle: Bundle) -> None:
    """The API server tries again until etcd answers, so neither waits for the other here."""
    start("etcd", etcd_command(run, bundle))
    start("kube-apiserver", apiserver_command(run, cache))


def start_controllers(start: Start, run: Run, cache: Cache) -> None:
    start("kube-controller-manager", controller_manager_command(run, cache))
    start("kube-scheduler", scheduler_command(run, cache))
