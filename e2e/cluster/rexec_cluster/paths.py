"""Where things lie: the cache that all clusters share, and the directory of one cluster's run."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import ClusterError

SOURCE = Path(__file__).resolve().parent.parent

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True)
class Cache:
    """What is built or fetched once, outside every checkout, and shared by all clusters."""

    root: Path

    @property
    def programs(self) -> Path:
        return self.root / "programs"

    @property
    def bundles(self) -> Path:
        return self.root / "debian"

    @property
    def images(self) -> Path:
        return self.root / "images"

    @property
    def rootfs(self) -> Path:
        return self.root / "rootfs"

    @property
    def unpacked(self) -> Path:
        return self.root / "unpacked"

    @property
    def index(self) -> Path:
        return self.root / "index"

    @property
    def runs(self) -> Path:
        return self.root / "run"


@dataclass(frozen=True)
class Run:
    """The directory of one cluster: gone after `down`."""

    name: str
    root: Path

    @property
    def lock(self) -> Path:
        """Beside the directory, not in it: it must outlive `down`. No cluster's name begins with a dot."""
        return self.root.parent / f".{self.name}.lock"

    @property
    def trash(self) -> Path:
        """Directories of earlier runs that are still to be removed."""
        return self.root.parent / f".{self.name}.trash"

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        return self.root / "log"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def etcd(self) -> Path:
        return self.root / "etcd"

    @property
    def registry(self) -> Path:
        return self.root / "registry"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.pki / "admin.kubeconfig"

    @property
    def kubectl_cache(self) -> Path:
        """Every cluster has the same address, by which kubectl tells clusters apart in its usual cache."""
        return self.root / "kubectl-cache"

    def node(self, number: int) -> Path:
        return self.root / "nodes" / str(number)


def cache_from(environment: Mapping[str, str]) -> Cache:
    """`REXEC_CACHE`, else the XDG cache directory, else `~/.cache`."""
    if chosen := environment.get("REXEC_CACHE"):
        base = Path(chosen)
    else:
        home = environment.get("HOME") or os.path.expanduser("~")
        base = Path(environment.get("XDG_CACHE_HOME") or Path(home) / ".cache") / "rexec"
    return Cache(base.absolute() / "cluster")


def run_from(environment: Mapping[str, str], cache: Cache) -> Run:
    """The run of the cluster that `CLUSTER_NAME` names; without it, the demo's."""
    name = environment.get("CLUSTER_NAME") or "demo"
    if not _DNS_LABEL.fullmatch(name):
        raise ClusterError(f"CLUSTER_NAME must be a DNS label of at most 40 characters (a-z, 0-9, '-'), not {name!r}")
    return Run(name, cache.runs / name)


def content_key(*parts: bytes) -> str:
    """A short name for exactly this content; anything cached under it never goes stale."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:16]
