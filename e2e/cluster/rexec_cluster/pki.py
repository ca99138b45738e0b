"""Keys and certificates of one cluster, made by openssl, and the kubeconfigs that carry them."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from .processes import run
from .settings import API_SERVICE_ADDRESS, API_URL, FIRST_NODE_ADDRESS

DAYS = "3650"


@dataclass(frozen=True)
class Certificate:
    """What a certificate is to say."""

    name: str
    subject: str
    usages: tuple[str, ...]
    names: tuple[str, ...] = ()
    issuer: str = "ca"


AUTHORITIES = ("ca", "front-proxy-ca")

API_SERVER_NAMES = (
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    "DNS:kubernetes.default.svc.cluster.local",
    "DNS:localhost",
    "IP:127.0.0.1",
    f"IP:{FIRST_NODE_ADDRESS}",
    f"IP:{API_SERVICE_ADDRESS}",
)

CONTROL_PLANE = (
    Certificate("apiserver", "/CN=kube-apiserver", ("serverAuth",), API_SERVER_NAMES),
    Certificate("apiserver-kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client", ("clientAuth",)),
    Certificate("front-proxy-client", "/CN=front-proxy-client", ("clientAuth",), issuer="front-proxy-ca"),
)

USERS = (
    Certificate("admin", "/O=system:masters/CN=admin", ("clientAuth",)),
    Certificate("kube-controller-manager", "/CN=system:kube-controller-manager", ("clientAuth",)),
    Certificate("kube-scheduler", "/CN=system:kube-scheduler", ("clientAuth",)),
    Certificate("kube-proxy", "/CN=system:kube-proxy", ("clientAuth",)),
)


def kubelet_certificate(node: str, address: str) -> Certificate:
    """One certificate for both of a kubelet's parts: client of the API server, and server for logs and exec."""
    return Certificate(
        f"kubelet-{node}",
        f"/O=system:nodes/CN=system:node:{node}",
        ("clientAuth", "serverAuth"),
        (f"DNS:{node}", "DNS:localhost", "IP:127.0.0.1", f"IP:{address}"),
    )


def authority_config() -> str:
    """The openssl configuration of a certificate authority."""
    return _config(["basicConstraints = critical,CA:TRUE", "keyUsage = critical,digitalSignature,keyCertSign,cRLSign"])


def certificate_config(certificate: Certificate) -> str:
    """The openssl configuration of a certificate that an authority signs."""
    extensions = [
        "basicConstraints = CA:FALSE",
        "keyUsage = critical,digitalSignature,keyEncipherment",
        f"extendedKeyUsage = {','.join(certificate.usages)}",
    ]
    if certificate.names:
        extensions.append(f"subjectAltName = {','.join(certificate.names)}")
    return _config(extensions)


def _config(extensions: list[str]) -> str:
    head = ["[req]", "distinguished_name = name", "x509_extensions = extensions", "[name]", "[extensions]"]
    return "\n".join([*head, *extensions, ""])


def create(directory: Path) -> None:
    """Make everything the control plane needs."""
    directory.mkdir(parents=True, mode=0o700)
    for authority in AUTHORITIES:
        _openssl(directory, authority, f"/CN={authority}", authority_config(), [])
    for certificate in CONTROL_PLANE:
        issue(directory, certificate)
    for user in USERS:
        issue(directory, user)
        write_kubeconfig(directory, user.name, directory / f"{user.name}.kubeconfig")
    run(["openssl", "genrsa", "-out", directory / "sa.key", "2048"], what="making the service account key")
    run(
        ["openssl", "rsa", "-in", directory / "sa.key", "-pubout", "-out", directory / "sa.pub"],
        what="making the service account key",
    )


def issue(directory: Path, certificate: Certificate) -> None:
    issuer = directory / certificate.issuer
    signing = ["-CA", f"{issuer}.crt", "-CAkey", f"{issuer}.key"]
    _openssl(directory, certificate.name, certificate.subject, certificate_config(certificate), signing)


def _openssl(directory: Path, name: str, subject: str, config: str, signing: list[str]) -> None:
    """`req -x509` with `-CA` issues a certificate in one go, without a request in between."""
    key_options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key"]
    content = ["-subj", subject, "-days", DAYS, "-out", f"{name}.crt"]
    run(
        ["openssl", "req", "-x509", "-config", "/dev/stdin", *key_options, *signing, *content],
        what=f"making the certificate {name}",
        stdin=config,
        directory=directory,
    )


def kubeconfig(directory: Path, user: str) -> str:
    """A kubeconfig that needs no other file; as JSON, which every reader of YAML takes."""

    def embedded(file: str) -> str:
        return base64.b64encode((directory / file).read_bytes()).decode()

    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "local", "cluster": {"server": API_URL, "certificate-authority-data": embedded("ca.crt")}}
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": embedded(f"{user}.crt"),
                    "client-key-data": embedded(f"{user}.key"),
                },
            }
        ],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": user}}],
        "current-context": "local",
    }
    return json.dumps(content, indent=2) + "\n"


def write_kubeconfig(directory: Path, user: str, target: Path) -> None:
    target.write_text(kubeconfig(directory, user))
    target.chmod(0o600)
