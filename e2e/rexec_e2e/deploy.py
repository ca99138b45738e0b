"""Applies `config/default`, or an overlay of it, with the images that were built: `make deploy` and `make undeploy`."""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import images
from .cluster import Cluster, CurrentCluster
from .environments import SYSTEM
from .errors import E2eError
from .paths import OUT, ROOT
from .steps import eventually, say, step

DEFAULT = ROOT / "config" / "default"


@dataclass(frozen=True)
class Deployment:
    """An overlay, and flags that only a cluster can tell, for our deployments by name."""

    overlay: Path = DEFAULT
    name: str = "deploy"
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)


def kustomization(directory: Path, deployment: Deployment, references: Mapping[str, str]) -> dict[str, Any]:
    """The kustomization, in `directory`, that gives an overlay its images and flags."""
    patches = [_flags(name, flags) for name, flags in sorted(deployment.flags.items()) if flags]
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(deployment.overlay, directory)],
        "images": [_image(name, reference) for name, reference in sorted(references.items())],
        "patches": patches,
    }


def _image(name: str, reference: str) -> dict[str, str]:
    repository, _, tag = reference.rpartition(":")
    return {"name": name, "newName": repository, "newTag": tag}


def _flags(name: str, flags: Sequence[str]) -> dict[str, Any]:
    added = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": flag} for flag in flags]
    return {"target": {"kind": "Deployment", "name": name}, "patch": json.dumps(added)}


def render(deployment: Deployment, references: Mapping[str, str]) -> Path:
    """Write the kustomization to `target/`; kustomize takes no absolute paths, so it names its base by a relative one."""
    directory = OUT / "kustomize" / deployment.name
    directory.mkdir(parents=True, exist_ok=True)
    content = kustomization(directory, deployment, references)
    (directory / "kustomization.yaml").write_text(json.dumps(content, indent=1) + "\n")
    return directory


def apply(cluster: Cluster, deployment: Deployment, references: Mapping[str, str]) -> None:
    """Apply and wait until our deployments are rolled out."""
    directory = render(deployment, references)
    with step("apply the manifests"):
        manifests = cluster.kubectl("kustomize", str(directory))
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)
    with step("wait for operator and gateway"):
        for item in cluster.get("deployments", "-n", SYSTEM)["items"]:
            _rolled_out(cluster, item["metadata"]["name"])


def _rolled_out(cluster: Cluster, name: str) -> None:
    done = cluster.try_kubectl("-n", SYSTEM, "rollout", "status", f"deployment/{name}", "--timeout=180s", timeout=200)
    if done.returncode:
        pods = cluster.try_kubectl("-n", SYSTEM, "get", "pods", "-o", "wide").stdout
        log = cluster.try_kubectl("-n", SYSTEM, "logs", "--tail=30", f"deployment/{name}")
        raise E2eError(f"{name} is not rolled out: {done.stderr.strip()}\n{pods}\n{log.stdout}{log.stderr}")


def delete(cluster: Cluster, deployment: Deployment) -> None:
    """Delete environments first, while the operator can still tell their servers to end, then everything else."""
    with step("delete the environments"):
        cluster.try_kubectl("delete", "rexecenvironments", "--all", "--wait", timeout=300)
        # The garbage collector deletes their namespaces a moment later.
        owned = ["namespaces", "-l", "app.kubernetes.io/name=rexec-server,app.kubernetes.io/managed-by=rexec-operator"]
        eventually("the environments' namespaces are gone", 180, lambda: not (cluster.get(*owned) or {}).get("items"))
    with step("delete operator, gateway and definitions"):
        cluster.kubectl("delete", "-k", str(deployment.overlay), "--ignore-not-found", timeout=300)


def main(arguments: Sequence[str]) -> int:
    """`make deploy` and `make undeploy`."""
    parser = argparse.ArgumentParser(prog="deploy", description=__doc__)
    parser.add_argument("--registry", default="", help="HOST/PREFIX to push to and to pull from")
    parser.add_argument("action", choices=["apply", "delete"])
    options = parser.parse_args(arguments)
    try:
        cluster = CurrentCluster()
        if options.action == "apply":
            apply(cluster, Deployment(), images.provide(cluster, options.registry))
        else:
            delete(cluster, Deployment())
    except E2eError as error:
        say(f"deploy: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
