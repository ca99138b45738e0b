"""The registry client, built from its Go module once and kept in the cache; it knows every way to sign in."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from .errors import E2eError
from .paths import ROOT, cache
from .steps import step

MODULE = ROOT / "images" / "go"
PACKAGE = "github.com/google/go-containerregistry/cmd/crane"


def program() -> Path:
    """The program, built unless the cache has it for these pins."""
    pins = hashlib.sha256((MODULE / "go.mod").read_bytes() + (MODULE / "go.sum").read_bytes()).hexdigest()[:16]
    target = cache() / "bin" / f"crane-{pins}"
    if not target.exists():
        with step("build the registry client (crane)"):
            _build(target)
    return target


def _build(target: Path) -> None:
    if shutil.which("go") is None:
        raise E2eError("Go is needed to build the registry client and is not on PATH")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    done = subprocess.run(
        ["go", "build", "-trimpath", "-o", str(scratch), PACKAGE],
        cwd=MODULE,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise E2eError(f"the registry client cannot be built: {done.stderr.strip()}")
    scratch.rename(target)
