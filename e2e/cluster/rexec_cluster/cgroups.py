"""The cluster's own cgroups: one path, below the caller's, in every hierarchy of the host (cgroup v1 or v2).

The kubelet and runc expect a pod's path to be the same in every v1 hierarchy, while the caller may have a cgroup of its
own in just one of them (usually memory). So the caller's memory cgroup gives the path, and its parents are made in the
hierarchies that lack them.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from .errors import ClusterError

V2_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
V1_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "pids")
_PREFIX = "rexec-"


@dataclass(frozen=True)
class Mount:
    """A mounted hierarchy: where, which controllers (v1), and whether it is the unified one."""

    path: Path
    controllers: frozenset[str]
    unified: bool


@dataclass(frozen=True)
class Cgroups:
    """Where a cluster's cgroups are.

    `hierarchies` are those the processes join. `swept` has in addition the empty v2 tree of a hybrid host: runc makes
    the path there too. `borrowed` are those where the parents of `base` exist for our sake alone.
    """

    base: str
    hierarchies: tuple[str, ...]
    swept: tuple[str, ...]
    borrowed: tuple[str, ...]
    unified: bool

    def path(self, name: str) -> str:
        return f"{self.base}/{name}"

    def files(self, name: str) -> list[Path]:
        """The files a process writes its pid to in order to join the cgroup `name`."""
        return [Path(root + self.path(name)) / "cgroup.procs" for root in self.hierarchies]


def parse_mounts(mountinfo: str) -> list[Mount]:
    """The cgroup hierarchies among the lines of /proc/self/mountinfo; bind mounts of parts of one are left out."""
    found: dict[Path, Mount] = {}
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        root, point = fields.split(" ")[3:5]
        if kind not in ("cgroup", "cgroup2") or root.startswith("/.."):
            continue
        names = frozenset(option.removeprefix("name=") for option in options.split(","))
        found[Path(point)] = Mount(Path(point), names, kind == "cgroup2")
    return list(found.values())


def parse_membership(text: str) -> dict[str, str]:
    """/proc/self/cgroup as controller → path; the unified hierarchy has the controller ''."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller.removeprefix("name=")] = path.rstrip("/")
    return paths


def missing_controllers(mounts: list[Mount]) -> list[str]:
    """The controllers a kubelet needs that no mounted hierarchy offers."""
    legacy = [mount for mount in mounts if not mount.unified]
    if legacy:
        offered = frozenset().union(*(mount.controllers for mount in legacy))
        return [name for name in V1_CONTROLLERS if name not in offered]
    unified = [mount for mount in mounts if mount.unified]
    if not unified:
        return list(V2_CONTROLLERS)
    offered = frozenset((unified[0].path / "cgroup.controllers").read_text().split())
    return [name for name in V2_CONTROLLERS if name not in offered]


def plan(cluster: str, mounts: list[Mount], membership: dict[str, str]) -> Cgroups:
    """Decide where the cgroups of a cluster go; nothing is made yet."""
    legacy = [mount for mount in mounts if not mount.unified]
    unified = [mount for mount in mounts if mount.unified]
    if not legacy:
        return _plan_unified(cluster, unified[0], membership)
    parent = _outside_of_clusters(membership.get("memory", ""))
    return Cgroups(
        base=f"{parent}/{_PREFIX}{cluster}",
        hierarchies=tuple(str(mount.path) for mount in legacy),
        swept=tuple(str(mount.path) for mount in mounts),
        borrowed=tuple(str(mount.path) for mount in mounts if _is_borrowed(mount, parent, membership)),
        unified=False,
    )


def _plan_unified(cluster: str, mount: Mount, membership: dict[str, str]) -> Cgroups:
    """v2: below the nearest ancestor that may have children with controllers.

    A cgroup that contains processes cannot hand controllers to its children ("no internal processes"), and the caller's
    own contains at least the caller. Only the root of the whole hierarchy is exempt, which has no `cgroup.type`.
    """
    parent = _outside_of_clusters(membership.get("", ""))
    while parent and (mount.path / parent.lstrip("/") / "cgroup.procs").read_text().strip():
        parent = parent.rpartition("/")[0]
    return Cgroups(f"{parent}/{_PREFIX}{cluster}", (str(mount.path),), (str(mount.path),), (), True)


def _outside_of_clusters(path: str) -> str:
    """The part of a path above the first cgroup of a cluster of ours: clusters lie beside each other, not inside."""
    kept: list[str] = []
    for part in path.strip("/").split("/"):
        if not part or part.startswith(_PREFIX):
            break
        kept.append(part)
    return "".join(f"/{part}" for part in kept)


def _is_borrowed(mount: Mount, parent: str, membership: dict[str, str]) -> bool:
    """Whether the caller's own cgroup in this hierarchy is not `parent` or below it."""
    controllers = {""} if mount.unified else mount.controllers
    own = next((path for name, path in membership.items() if name in controllers), "")
    return not f"{own}/".startswith(f"{parent}/")


def host_plan(cluster: str) -> Cgroups:
    mounts = parse_mounts(Path("/proc/self/mountinfo").read_text())
    return plan(cluster, mounts, parse_membership(Path("/proc/self/cgroup").read_text()))


def create(cgroups: Cgroups, name: str) -> None:
    """Make the cgroup `name` below the base, in every hierarchy, ready to be joined.

    Another cluster that goes down at this moment may take an empty parent away; then it is made once more.
    """
    for attempt in range(5):
        try:
            _create(cgroups, name)
        except FileNotFoundError:
            if attempt == 4:
                raise
        else:
            return


def _create(cgroups: Cgroups, name: str) -> None:
    for root in cgroups.hierarchies:
        current = Path(root)
        for part in cgroups.path(name).strip("/").split("/"):
            if cgroups.unified:
                _delegate(current)
            current = current / part
            current.mkdir(exist_ok=True)
            _inherit_cpuset(current)


def _inherit_cpuset(cgroup: Path) -> None:
    """A new v1 cpuset is empty, and nothing can join it until it names processors and memory nodes."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        own = cgroup / name
        if own.exists() and (cgroup.parent / name).exists() and not own.read_text().strip():
            own.write_text((cgroup.parent / name).read_text())


def _delegate(cgroup: Path) -> None:
    """Hand every controller on to the children of a v2 cgroup."""
    control = cgroup / "cgroup.subtree_control"
    lacking = set((cgroup / "cgroup.controllers").read_text().split()) - set(control.read_text().split())
    if not lacking:
        return
    try:
        control.write_text(" ".join(f"+{name}" for name in sorted(lacking)))
    except OSError as error:
        raise ClusterError(
            f"cgroup {cgroup} cannot hand its controllers to children ({error.strerror}): move its processes to a child"
        ) from error


def members(cgroups: Cgroups) -> list[int]:
    """The pids of all processes in the cluster's cgroups."""
    found: set[int] = set()
    for root in cgroups.hierarchies:
        for file in Path(root + cgroups.base).rglob("cgroup.procs"):
            try:
                found.update(map(int, file.read_text().split()))
            except OSError:
                continue
    return sorted(found)


def remove(cgroups: Cgroups, seconds: float = 5.0) -> list[str]:
    """Remove the cluster's cgroups; those that stay busy all the time given are returned.

    A cgroup remains busy for a moment after the last of its processes has ended.
    """
    deadline = time.monotonic() + seconds
    left = [root + cgroups.base for root in cgroups.swept]
    while left := [path for path in left if not _remove_tree(Path(path))]:
        if time.monotonic() > deadline:
            return left
        time.sleep(0.05)
    for root in cgroups.borrowed:
        _remove_empty_parents(Path(root), cgroups.base)
    return []


def _remove_tree(top: Path) -> bool:
    for directory in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
        _try_rmdir(directory)
    return _try_rmdir(top)


def _try_rmdir(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _remove_empty_parents(root: Path, base: str) -> None:
    """Parents that another cluster still uses refuse to go, and the last cluster takes them along."""
    current = (root / base.lstrip("/")).parent
    while current != root and _try_rmdir(current):
        current = current.parent
