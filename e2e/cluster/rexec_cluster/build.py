"""Programs built from source: Kubernetes, CoreDNS, kube-router, Flux (Go modules) and the pause program (C)."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .errors import ClusterError
from .paths import SOURCE, Cache, content_key
from .processes import run
from .progress import say, step
from .settings import KUBERNETES_VERSION

PAUSE_SOURCE = SOURCE / "images" / "pause.c"
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.split(".")
_VERSION = "k8s.io/component-base/version"

KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)


@dataclass(frozen=True)
class GoProgram:
    """A program of a Go module under `go/`, built with the versions its go.mod and go.sum name."""

    name: str
    module: str
    package: str = "."
    linker_flags: str = "-s -w"

    @property
    def source(self) -> Path:
        return SOURCE / "go" / self.module

    def key(self) -> str:
        files = sorted(path for path in self.source.iterdir() if path.suffix in (".go", ".mod", ".sum"))
        return content_key(self.package.encode(), self.linker_flags.encode(), *(f.read_bytes() for f in files))

    def path(self, cache: Cache) -> Path:
        return cache.programs / f"{self.name}-{self.key()}" / self.name


# Without the version flags the API server calls itself v0.0.0, and clients object.
KUBERNETES = GoProgram(
    "kubernetes",
    "kubernetes",
    linker_flags=(
        f"-s -w -X {_VERSION}.gitVersion=v{KUBERNETES_VERSION}"
        f" -X {_VERSION}.gitMajor={_MAJOR} -X {_VERSION}.gitMinor={_MINOR}"
    ),
)
COREDNS = GoProgram("coredns", "coredns")
KUBE_ROUTER = GoProgram("kube-router", "kube-router", "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router")
FLUX = GoProgram("kustomize-controller", "flux", "github.com/fluxcd/kustomize-controller")

CLUSTER_PROGRAMS = (KUBERNETES, COREDNS, KUBE_ROUTER)


def kubernetes_program(cache: Cache, name: str) -> Path:
    """One of the Kubernetes programs: the combined binary does what the name it is called by says."""
    return KUBERNETES.path(cache).parent / name


def pause_program(cache: Cache) -> Path:
    return cache.programs / f"pause-{content_key(PAUSE_SOURCE.read_bytes())}" / "pause"


def missing(cache: Cache) -> list[GoProgram]:
    return [program for program in CLUSTER_PROGRAMS if not program.path(cache).exists()]


@contextmanager
def only_one_builder(cache: Cache) -> Iterator[None]:
    """Two clusters that come up at once must not build the same things twice."""
    cache.root.mkdir(parents=True, exist_ok=True)
    with (cache.root / ".build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("  waiting for another build …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_programs(cache: Cache) -> None:
    """Build what the cache lacks."""
    build_pause(cache)
    for program in missing(cache):
        build_go(cache, program)


def build_go(cache: Cache, program: GoProgram) -> Path:
    target = program.path(cache)
    if target.exists():
        return target
    with step(f"building {program.name} (minutes, the first time)"), _fresh(target) as directory:
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
        command = ["go", "build", "-mod=readonly", "-trimpath", "-ldflags", program.linker_flags]
        run(
            [*command, "-o", directory / program.name, program.package],
            what=f"building {program.name}",
            environment=environment,
            directory=program.source,
        )
        if program is KUBERNETES:
            for name in KUBERNETES_PROGRAMS:
                (directory / name).symlink_to(program.name)
    return target


def build_pause(cache: Cache) -> Path:
    target = pause_program(cache)
    if not target.exists():
        with _fresh(target) as directory:
            run(["gcc", "-static", "-Os", "-s", "-o", directory / "pause", PAUSE_SOURCE], what="building pause")
    return target


@contextmanager
def _fresh(target: Path) -> Iterator[Path]:
    """A directory that takes its final name only when it is complete: what exists in the cache is whole."""
    target.parent.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent.parent, prefix=".new-") as scratch:
        directory = Path(scratch) / "content"
        directory.mkdir()
        yield directory
        try:
            os.rename(directory, target.parent)
        except OSError as error:
            raise ClusterError(f"{target.parent} cannot be put in place ({error.strerror})") from error
