"""x"""
from pathlib import Path
from .paths import Run, Cache
def publish(run: Run, cache: Cache, directory: Path) -> None: ...
