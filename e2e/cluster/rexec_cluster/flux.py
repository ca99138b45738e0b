"""The real Flux kustomize-controller, with a directory of the host's as its source.

The directory is published as an ExternalArtifact, a tarball served on the first node's address, so that no Git server
is needed. Flux's own custom resource definitions come from the modules of the versions that are built.
"""

import gzip
import hashlib
import io
import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path

from . import build, debian, file_server, rights, state
from .errors import ClusterError
from .members import Cluster
from .paths import Cache, Run
from .processes import run as run_program
from .progress import say, step
from .settings import ARTIFACTS_PORT, FIRST_NODE_ADDRESS, IMAGE_TIME

NAMESPACE = "flux-system"
NAME = "app"

# The controller is built from a module that go.sum pins; of this one only the definitions are read.
SOURCE_CONTROLLER = "github.com/fluxcd/source-controller@v1.9.6"
SOURCE_CONTROLLER_SUM = "h1:nG534/bI6nVpyHra7ONAk6xDB3xPsVT+EOLHZHXPrrc="

_OBJECTS = f"""\
apiVersion: source.toolkit.fluxcd.io/v1
kind: ExternalArtifact
metadata: {{name: {NAME}, namespace: {NAMESPACE}}}
spec: {{}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {{name: {NAME}, namespace: {NAMESPACE}}}
spec:
  interval: 5s
  timeout: 60s
  prune: true
  wait: true
  path: ./
  sourceRef: {{kind: ExternalArtifact, name: {NAME}}}
"""
_CRDS = ("kustomizations.kustomize.toolkit.fluxcd.io", "externalartifacts.source.toolkit.fluxcd.io")


def publish(run: Run, cache: Cache, directory: Path) -> None:
    """Start Flux if it does not run yet, and make the directory's content its source."""
    if not directory.is_dir():
        raise ClusterError(f"{directory} is no directory")
    cluster = Cluster(run, cache, debian.bundle(cache), state.require(run))
    if "flux" not in (daemon.name for daemon in cluster.state.daemons):
        _start(cluster)
    archive = tarball(directory)
    digest = hashlib.sha256(archive).hexdigest()
    (run.artifacts / f"{digest}.tar.gz").write_bytes(archive)
    status = artifact_status(digest, len(archive), datetime.now(UTC))
    patch = ["patch", f"externalartifact/{NAME}", "--subresource=status", "--type=merge", "-p", json.dumps(status)]
    cluster.kubectl("-n", NAMESPACE, *patch)
    say(
        f"published {directory} as sha256:{digest[:12]}…; see `cluster kubectl -n {NAMESPACE} get kustomization {NAME}`"
    )


def _start(cluster: Cluster) -> None:
    rights.require_go(cluster.cache, build.FLUX)
    with build.only_one_builder(cluster.cache):
        program = build.build_go(cluster.cache, build.FLUX)
    with step("starting Flux"):
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=_definitions())
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=20s", *(f"crd/{name}" for name in _CRDS))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(namespace))
        cluster.run.artifacts.mkdir(exist_ok=True)
        cluster.start_in_network("artifacts", file_server.command(ARTIFACTS_PORT, cluster.run.artifacts))
        environment = [f"KUBECONFIG={cluster.run.admin_kubeconfig}", f"RUNTIME_NAMESPACE={NAMESPACE}"]
        options = ["--feature-gates=ExternalArtifact=true", "--metrics-addr=127.0.0.1:8085"]
        options.append("--health-addr=127.0.0.1:9441")
        cluster.starter(1)("flux", ["env", *environment, program, *options])
        cluster.kubectl("apply", "-f", "-", stdin=_OBJECTS)


def _definitions() -> str:
    listed = run_program(
        ["go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "github.com/fluxcd/kustomize-controller"],
        what="finding the definitions of kustomize-controller",
        directory=build.FLUX.source,
    )
    downloaded = json.loads(
        run_program(
            ["go", "mod", "download", "-json", SOURCE_CONTROLLER],
            what="fetching the definitions of source-controller",
            directory=build.FLUX.source,
        )
    )
    if downloaded["Sum"] != SOURCE_CONTROLLER_SUM:
        raise ClusterError(f"{SOURCE_CONTROLLER} is not what it was: its checksum is {downloaded['Sum']}")
    files = [
        file
        for module in (Path(listed.strip()), Path(downloaded["Dir"]))
        for file in sorted((module / "config" / "crd" / "bases").glob("*.yaml"))
    ]
    return "\n---\n".join(file.read_text() for file in files)


def tarball(directory: Path) -> bytes:
    """A directory as Flux takes it; the same content always gives the same bytes, and so the same revision."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                member = tarfile.TarInfo(str(path.relative_to(directory)))
                member.size, member.mtime = path.stat().st_size, IMAGE_TIME
                with path.open("rb") as content:
                    tar.addfile(member, content)
    return gzip.compress(plain.getvalue(), mtime=0)


def artifact_status(digest: str, size: int, now: datetime) -> dict[str, object]:
    """The status that a source controller would write."""
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    artifact = {
        "url": f"http://{FIRST_NODE_ADDRESS}:{ARTIFACTS_PORT}/{digest}.tar.gz",
        "path": f"{digest}.tar.gz",
        "digest": f"sha256:{digest}",
        "revision": f"main@sha256:{digest}",
        "size": size,
        "lastUpdateTime": time,
    }
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Published",
        "message": f"sha256:{digest}",
        "lastTransitionTime": time,
    }
    return {"status": {"artifact": artifact, "conditions": [ready]}}
