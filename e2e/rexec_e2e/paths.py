"""Where things lie: the checkout, and the cache outside of it."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
E2E = ROOT / "e2e"
OUT = ROOT / "target"
IMAGES = OUT / "images"


def cache() -> Path:
    """`REXEC_CACHE`, else `rexec` in the XDG cache directory, else `~/.cache/rexec`."""
    if chosen := os.environ.get("REXEC_CACHE"):
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "rexec"


def binaries() -> Path:
    """Where the release build leaves the static programs."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or cache() / "target")
    return target / "x86_64-unknown-linux-gnu" / "release"
