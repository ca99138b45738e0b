"""containerd's storage with the first images unpacked in it: made once, and given to every node by hard links.

Unpacking takes seconds of both processor and disk, and removing it again as long; links cost a fraction. containerd
never writes to a file of an image again, only to its databases, and those are copied.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import archives
from .catalogue import Catalogue, Entry
from .debian import Bundle
from .errors import ClusterError
from .names import parse_image_name
from .paths import Cache, content_key
from .processes import run, tail
from .progress import step, wait_until

_LAYOUT = b"1"


def ensure(cache: Cache, bundle: Bundle, images: list[Entry]) -> Path:
    """The storage with exactly these images, made unless the cache has it."""
    described = "\n".join(f"{name} {entry.top.digest}" for entry in images for name in entry.names)
    target = cache.unpacked / content_key(_LAYOUT, described.encode(), bundle.root.name.encode())
    if not target.exists():
        with step("unpacking the images once, for all nodes to come"):
            cache.unpacked.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache.unpacked, prefix=".new-") as scratch:
                _unpack(Path(scratch), cache, bundle, images)
                os.rename(Path(scratch) / "root", target)
    return target


def give(storage: Path, target: Path) -> None:
    """A node's own containerd storage, made of links to the shared one."""
    run(["cp", "--archive", "--link", storage, target], what="linking the unpacked images")
    for database in target.rglob("*.db"):
        database.unlink()
        shutil.copy2(storage / database.relative_to(target), database)


def _unpack(scratch: Path, cache: Cache, bundle: Bundle, images: list[Entry]) -> None:
    store = Catalogue(cache).store
    with _containerd(scratch, bundle) as ctr:
        for entry in images:
            first, *others = entry.names
            archive = scratch / "image.tar"
            archives.write(archive, store, entry.top, first)
            run([*ctr, "images", "import", archive], what=f"unpacking {first}", environment=bundle.environment())
            name = parse_image_name(first)
            others.append(f"{name.registry}/{name.repository}@{entry.top.digest}")
            run([*ctr, "images", "tag", first, *others], what=f"naming {first}", environment=bundle.environment())


@contextmanager
def _containerd(scratch: Path, bundle: Bundle) -> Iterator[list[str | Path]]:
    """A containerd that serves nobody else; its mounts are not seen on the host."""
    socket, config, log = scratch / "s", scratch / "config.toml", scratch / "log"
    config.write_text(
        f'version = 2\nroot = "{scratch}/root"\nstate = "{scratch}/state"\noom_score = 0\n'
        f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "{socket}"\n'
        f'[plugins."io.containerd.internal.v1.opt"]\npath = "{scratch}/opt"\n'
    )
    unshare = ["unshare", "--mount", "--propagation", "private"]
    command = [*unshare, str(bundle.program("usr/bin/containerd")), "--config", str(config)]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, env=bundle.environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
        ) as daemon,
    ):

        def ready() -> bool:
            if daemon.poll() is not None:
                raise ClusterError(f"containerd ended by itself:\n{tail(log)}")
            return socket.is_socket()

        try:
            wait_until("containerd", 20, ready)
            yield [bundle.program("usr/bin/ctr"), "--address", socket, "--namespace", "k8s.io"]
        finally:
            daemon.terminate()
