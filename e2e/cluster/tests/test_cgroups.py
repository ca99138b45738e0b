"""Where a cluster's cgroups go, on hosts of both kinds."""

from pathlib import Path

import pytest

from rexec_cluster import cgroups
from rexec_cluster.cgroups import Cgroups, parse_membership, parse_mounts, plan
from rexec_cluster.errors import ClusterError

V1_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/memory rw,relatime shared:7 - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V1_MEMBERSHIP = "4:memory:/session/7\n2:cpu,cpuacct:/\n1:name=systemd:/session/7/scope\n0::/\n"


def test_v1_hierarchies_are_found_with_their_controllers() -> None:
    found = {str(mount.path): mount for mount in parse_mounts(V1_MOUNTS)}
    assert found["/sys/fs/cgroup/cpu,cpuacct"].controllers >= {"cpu", "cpuacct"}
    assert "systemd" in found["/sys/fs/cgroup/systemd"].controllers
    assert found["/sys/fs/cgroup/unified"].unified
    assert "/sys/fs/cgroup" not in found


def test_membership_names_controllers() -> None:
    assert parse_membership(V1_MEMBERSHIP) == {
        "memory": "/session/7",
        "cpu": "",
        "cpuacct": "",
        "systemd": "/session/7/scope",
        "": "",
    }


def test_on_v1_the_memory_cgroup_gives_the_path() -> None:
    planned = plan("demo", parse_mounts(V1_MOUNTS), parse_membership(V1_MEMBERSHIP))
    assert planned.base == "/session/7/rexec-demo"
    assert "/sys/fs/cgroup/unified" not in planned.hierarchies
    assert "/sys/fs/cgroup/unified" in planned.swept
    assert planned.borrowed == ("/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/unified")


def test_a_cluster_started_inside_another_lies_beside_it() -> None:
    membership = parse_membership("4:memory:/session/7/rexec-demo/daemons\n")
    assert plan("test", parse_mounts(V1_MOUNTS), membership).base == "/session/7/rexec-test"


def v2_host(root: Path, processes: dict[str, str]) -> str:
    """A v2 hierarchy in a directory, with these processes in its cgroups."""
    for path, pids in processes.items():
        cgroup = root / path
        cgroup.mkdir(parents=True, exist_ok=True)
        (cgroup / "cgroup.procs").write_text(pids)
        (cgroup / "cgroup.controllers").write_text("cpu cpuset io memory pids\n")
        (cgroup / "cgroup.subtree_control").write_text("")
    return f"30 23 0:26 / {root} rw,nosuid - cgroup2 cgroup2 rw\n"


def test_on_v2_a_cgroup_with_processes_is_no_parent(tmp_path: Path) -> None:
    mounts = v2_host(tmp_path, {"user.slice": "", "user.slice/session.scope": "12\n"})
    planned = plan("demo", parse_mounts(mounts), parse_membership("0::/user.slice/session.scope\n"))
    assert (planned.base, planned.unified) == ("/user.slice/rexec-demo", True)


def test_on_v2_the_root_is_the_last_resort(tmp_path: Path) -> None:
    mounts = v2_host(tmp_path, {"": "1\n", "a": "12\n"})
    assert plan("demo", parse_mounts(mounts), parse_membership("0::/a\n")).base == "/rexec-demo"


def test_on_v2_controllers_are_handed_on(tmp_path: Path) -> None:
    v2_host(tmp_path, {"": "", "rexec-demo": "", "rexec-demo/daemons": ""})
    created = Cgroups("/rexec-demo", (str(tmp_path),), (str(tmp_path),), (), unified=True)
    cgroups.create(created, "daemons")
    for parent in ("", "rexec-demo"):
        assert "+memory" in (tmp_path / parent / "cgroup.subtree_control").read_text()
    assert (tmp_path / "rexec-demo/daemons/cgroup.subtree_control").read_text() == ""


def test_on_v2_a_busy_parent_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    v2_host(tmp_path, {"": "1\n"})

    def busy(*_: object) -> int:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "write_text", busy)
    with pytest.raises(ClusterError, match="move its processes"):
        cgroups.create(Cgroups("/rexec-demo", (str(tmp_path),), (str(tmp_path),), (), unified=True), "daemons")


def test_missing_controllers_are_named(tmp_path: Path) -> None:
    assert cgroups.missing_controllers(parse_mounts(V1_MOUNTS)) == ["cpuset", "devices", "freezer", "pids"]
    assert cgroups.missing_controllers(parse_mounts(v2_host(tmp_path, {"": ""}))) == []
    assert cgroups.missing_controllers([]) == ["cpu", "cpuset", "memory", "pids"]


def test_removal_takes_borrowed_parents_along_but_not_shared_ones(tmp_path: Path) -> None:
    memory, cpu = tmp_path / "memory", tmp_path / "cpu"
    for hierarchy in (memory, cpu):
        (hierarchy / "session" / "7" / "rexec-demo" / "node-1" / "kubepods").mkdir(parents=True)
    (cpu / "session" / "7" / "rexec-test").mkdir()
    roots = (str(memory), str(cpu))
    demo = Cgroups("/session/7/rexec-demo", roots, roots, (str(cpu),), unified=False)
    assert cgroups.remove(demo) == []
    assert (memory / "session" / "7").exists()
    assert (cpu / "session" / "7" / "rexec-test").exists()
    test = Cgroups("/session/7/rexec-test", roots, roots, (str(cpu),), unified=False)
    assert cgroups.remove(test) == []
    assert not (cpu / "session").exists()
