"""x"""

from pathlib import Path

from .paths import Cache, Run


def publish(run: Run, cache: Cache, directory: Path) -> None: ...
