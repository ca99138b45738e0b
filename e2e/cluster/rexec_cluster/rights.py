"""What the host must have and allow, asked before anything is started, each lack in one clear sentence."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import build, cgroups
from .debian import Bundle
from .errors import ClusterError
from .paths import Cache
from .settings import GO_VERSION

NEEDED = """\
root (uid 0), able to make mount, network, pid, uts and ipc namespaces; overlayfs, bridge, veth, nftables and ipset in
the kernel; cgroups (v1 or v2) that it may write; nothing is changed outside of namespaces and cgroups of its own"""

_TOOLS = {
    "apt-get": "fetches Debian packages (package apt)",
    "dpkg-deb": "unpacks Debian packages (package dpkg)",
    "ip": "sets up the node's network (package iproute2)",
    "mount": "package mount",
    "nsenter": "package util-linux",
    "openssl": "makes certificates (package openssl)",
    "unshare": "package util-linux",
}
_DISK = {"building": 12 << 30, "running": 3 << 30}


@dataclass(frozen=True)
class Check:
    """A named question; the answer is what is wrong, or nothing."""

    name: str
    ask: Callable[[], str | None]


def tool_checks(cache: Cache) -> list[Check]:
    """What can be asked before anything is fetched."""
    checks = [
        Check("root", _root),
        Check("machine", _machine),
        Check("tools", _tools),
        Check("cgroups", _cgroups),
        Check("bridge netfilter", _bridge_netfilter),
        Check("disk", lambda: _disk(cache)),
    ]
    if build.missing(cache):
        checks.append(Check("Go", _go))
    if not build.pause_program(cache).exists():
        checks.append(Check("C compiler", _static_c))
    return checks


def host_checks(cache: Cache, bundle: Bundle) -> list[Check]:
    """What must be tried, in namespaces that end with the trial."""
    trials = [Check(name, _trial(script, lack, cache, bundle)) for name, script, lack in _TRIALS]
    return [Check("Perl", lambda: _perl(bundle)), *trials]


def require_tools(cache: Cache) -> None:
    _require(tool_checks(cache))


def require_host(cache: Cache, bundle: Bundle) -> None:
    _require(host_checks(cache, bundle))


def require_go(cache: Cache, program: build.GoProgram) -> None:
    """Ask for Go, unless the program is built already."""
    if not program.path(cache).exists():
        _require([Check("Go", _go)])


def _require(checks: list[Check]) -> None:
    for check in checks:
        if lack := check.ask():
            raise ClusterError(f"nothing was started: {lack}")


def _root() -> str | None:
    return None if os.geteuid() == 0 else "the cluster needs root (run it with sudo): it makes namespaces and cgroups"


def _machine() -> str | None:
    system = os.uname()
    if (system.sysname, system.machine) == ("Linux", "x86_64"):
        return None
    return f"the cluster runs on Linux x86_64, and this is {system.sysname} {system.machine}"


def _tools() -> str | None:
    lacking = [f"`{tool}` ({why})" for tool, why in _TOOLS.items() if shutil.which(tool) is None]
    return f"not found: {', '.join(lacking)}" if lacking else None


def _cgroups() -> str | None:
    mounts = cgroups.parse_mounts(Path("/proc/self/mountinfo").read_text())
    if lacking := cgroups.missing_controllers(mounts):
        return f"the kernel's cgroup controllers {', '.join(lacking)} are not available under /sys/fs/cgroup"
    plan = cgroups.host_plan("doctor-trial")
    try:
        cgroups.create(plan, "trial")
    except (OSError, ClusterError) as error:
        return f"cgroups below {plan.base} cannot be made ({error})"
    finally:
        cgroups.remove(plan)
    return None


def _bridge_netfilter() -> str | None:
    if Path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists():
        return None
    return "bridged traffic passes no packet filter, so no NetworkPolicy would hold: run `modprobe br_netfilter`"


def _disk(cache: Cache) -> str | None:
    existing = next(path for path in [cache.root, *cache.root.parents] if path.exists())
    what = "building" if build.missing(cache) else "running"
    free = shutil.disk_usage(existing).free
    if free >= _DISK[what]:
        return None
    return f"{what} the cluster needs {_DISK[what] >> 30} GiB free in {existing}, and there are {free / (1 << 30):.1f}"


def go_version(text: str) -> tuple[int, int]:
    match = re.search(r"go(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _go() -> str | None:
    wanted = ".".join(map(str, GO_VERSION))
    lack = f"Go {wanted} or later is needed to build Kubernetes (https://go.dev/dl)"
    if shutil.which("go") is None:
        return f"{lack}, and there is no `go` on the PATH"
    said = subprocess.run(["go", "version"], capture_output=True, text=True).stdout.strip()
    return None if go_version(said) >= GO_VERSION else f"{lack}, and `go version` says {said!r}"


def _static_c() -> str | None:
    """Only for the pause program, which has to be static."""
    command = ["gcc", "-static", "-x", "c", "-o", "/dev/null", "-"]
    try:
        done = subprocess.run(command, input="int main(void) { return 0; }\n", capture_output=True, text=True)
    except OSError:
        return "`gcc` is needed to build the pause program (package gcc), and it is not on the PATH"
    return None if done.returncode == 0 else "gcc cannot link a static program (package libc6-dev)"


_UNSHARE = ("unshare", "--mount", "--propagation", "private", "--net", "--pid", "--uts", "--ipc", "--fork")

# Name, shell commands (the first argument is a directory in the cache), what it means when they fail.
_TRIALS = (
    ("namespaces", "true", "mount, network, pid, uts and ipc namespaces cannot be made here (capability SYS_ADMIN)"),
    (
        "overlayfs",
        'cd "$1" && mkdir l u w m && mount -t overlay o -o lowerdir=l,upperdir=u,workdir=w m',
        "overlayfs cannot be mounted in the cache (`modprobe overlay`, or a REXEC_CACHE on a plain file system)",
    ),
    (
        "bridge and veth",
        "ip link add name trial0 type bridge && ip link add name trial1 type veth peer name trial2"
        " && ip link set trial1 master trial0",
        "bridge and veth interfaces cannot be made (`modprobe bridge veth`)",
    ),
    ("nftables", "nft add table ip trial", "nftables cannot be used (`modprobe nf_tables`): Services need it"),
    (
        "iptables and ipset",
        "ipset create trial hash:ip && iptables -A INPUT -m set --match-set trial src -m comment --comment t -j ACCEPT",
        "iptables with ipset matches cannot be used (`modprobe ip_set nft_compat xt_set`): NetworkPolicy needs it",
    ),
)


def _trial(script: str, lack: str, cache: Cache, bundle: Bundle) -> Callable[[], str | None]:
    def ask() -> str | None:
        with tempfile.TemporaryDirectory(dir=cache.root, prefix=".trial-") as scratch:
            command = [*_UNSHARE, "--mount-proc", "/bin/sh", "-c", script, "trial", scratch]
            done = subprocess.run(command, capture_output=True, text=True, env=bundle.environment())
        return None if done.returncode == 0 else f"{lack}: {done.stderr.strip()}"

    return ask


def _perl(bundle: Bundle) -> str | None:
    """Debian's base system has a part of Perl's modules only."""
    command = ["perl", "-c", str(bundle.program("usr/bin/mmdebstrap"))]
    try:
        good = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        good = False
    return None if good else "mmdebstrap, which makes the Python images' base layer, needs Perl (package perl)"
