"""The cluster's image registry: Debian's docker-registry on the first node's address.

It starts with the images in the cache, put into its storage by hard links, so that a start costs nothing; what is
pushed later is the cluster's alone. containerd asks it for images of every registry, so manifests keep the official
names, and an image that is not there is a real "not found".
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from .catalogue import Entry
from .errors import ClusterError
from .images import Descriptor, Store
from .inside_http import InsideConnection
from .names import parse_image_name
from .settings import FIRST_NODE_ADDRESS, REGISTRY_ADDRESS, REGISTRY_NAME, REGISTRY_PORT


def config(storage: Path) -> str:
    """docker-registry's configuration."""
    return f"""version: 0.1
log: {{level: warn, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {storage}}}
  delete: {{enabled: true}}
http:
  addr: {REGISTRY_ADDRESS}
  secret: one-process-alone
"""


def containerd_hosts() -> Mapping[str, str]:
    """containerd's `certs.d`, as directory → hosts.toml.

    `_default` is every registry that has no entry of its own: answered here too, since there is no way out.
    """
    hosts = f'server = "http://{REGISTRY_ADDRESS}"\n\n[host."http://{REGISTRY_ADDRESS}"]\n'
    hosts += '  capabilities = ["pull", "resolve"]\n'
    return dict.fromkeys(("docker.io", REGISTRY_NAME, REGISTRY_ADDRESS, "_default"), hosts)


def seed(storage: Path, store: Store, entries: list[Entry]) -> None:
    """Put images into the storage of a registry that does not run yet."""
    root = storage / "docker" / "registry" / "v2"
    for entry in entries:
        for name in map(parse_image_name, entry.names):
            repository = root / "repositories" / name.repository
            for digest in store.content(entry.top):
                _blob(root, store, digest)
                _link(repository / "_layers" / digest.replace(":", "/") / "link", digest)
            for manifest in store.manifests(entry.top):
                _blob(root, store, manifest.digest)
                revision = manifest.digest.replace(":", "/")
                _link(repository / "_manifests" / "revisions" / revision / "link", manifest.digest)
            tag = repository / "_manifests" / "tags" / name.tag
            _link(tag / "current" / "link", entry.top.digest)
            _link(tag / "index" / entry.top.digest.replace(":", "/") / "link", entry.top.digest)


def _blob(root: Path, store: Store, digest: str) -> None:
    algorithm, value = digest.split(":")
    target = root / "blobs" / algorithm / value[:2] / value / "data"
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(store.path(digest), target)
    except OSError:
        shutil.copyfile(store.path(digest), target)


def _link(target: Path, digest: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(digest)


class Client:
    """Pushes to the registry of a running cluster, from outside of its network."""

    def __init__(self, pid: int) -> None:
        self._connection = InsideConnection(pid, FIRST_NODE_ADDRESS, REGISTRY_PORT, timeout=60)

    def ready(self) -> bool:
        return self._request("GET", "/v2/")[0] == 200

    def push(self, store: Store, top: Descriptor, name: str) -> str:
        """Push an image and return its name by digest."""
        target = parse_image_name(name)
        for digest in store.content(top):
            self._push_blob(target.repository, store, digest)
        manifests = store.manifests(top)
        for manifest in manifests:
            reference = target.tag if manifest is manifests[-1] else manifest.digest
            self._expect(
                201,
                "PUT",
                f"/v2/{target.repository}/manifests/{reference}",
                store.path(manifest.digest).read_bytes(),
                {"Content-Type": manifest.media_type},
            )
        return f"{target.registry}/{target.repository}@{top.digest}"

    def _push_blob(self, repository: str, store: Store, digest: str) -> None:
        status, _ = self._request("HEAD", f"/v2/{repository}/blobs/{digest}")
        if status == 200:
            return
        location = self._expect(202, "POST", f"/v2/{repository}/blobs/uploads/")["Location"]
        path = location[location.index("/v2/") :]
        size = str(store.path(digest).stat().st_size)
        with store.path(digest).open("rb") as content:
            self._expect(
                201,
                "PUT",
                f"{path}{'&' if '?' in path else '?'}digest={digest}",
                content,
                {"Content-Type": "application/octet-stream", "Content-Length": size},
            )

    def _expect(
        self, wanted: int, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, str]:
        status, answer = self._request(method, path, body, headers)
        if status != wanted:
            raise ClusterError(f"the registry answered {status} to {method} {path}")
        return answer

    def _request(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, str]]:
        self._connection.request(method, path, body, headers or {})  # type: ignore[arg-type]
        response = self._connection.getresponse()
        response.read()
        return response.status, response.headers  # type: ignore[return-value]
