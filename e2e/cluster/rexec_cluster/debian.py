"""Programs from Debian packages, unpacked into the cache: nothing is installed, no service is started."""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .errors import ClusterError
from .paths import Cache, content_key
from .processes import run
from .progress import step

PROGRAMS = (
    "conntrack containerd containernetworking-plugins docker-registry etcd-server ipset iptables mmdebstrap nftables "
    "python3-pip-whl runc"
).split()

# What the programs link and a Debian system need not have; the C library is the host's own.
LIBRARIES = (
    "libbsd0 libedit2 libgmp10 libip4tc2 libip6tc2 libipset13 libjansson4 libmd0 libmnl0 libnetfilter-conntrack3 "
    "libnfnetlink0 libnftables1 libnftnl11 libseccomp2 libxtables12"
).split()

# The package leaves these names to Debian's "alternatives", which an unpacked package does not take part in.
_IPTABLES_NAMES = [family + action for family in ("iptables", "ip6tables") for action in ("", "-save", "-restore")]
_LAYOUT = b"1"


@dataclass(frozen=True)
class Bundle:
    """The unpacked packages."""

    root: Path

    def program(self, path: str) -> Path:
        return self.root / path

    @property
    def cni_plugins(self) -> Path:
        return self.root / "usr/lib/cni"

    @property
    def pip(self) -> Path:
        """pip as a wheel, which Python runs as it is."""
        return next((self.root / "usr/share/python-wheels").glob("pip-*.whl")) / "pip"

    def environment(self) -> dict[str, str]:
        """What the unpacked programs need in order to find each other, their libraries and their extensions."""
        own = [str(self.root / place) for place in ("usr/local/bin", "usr/sbin", "usr/bin")]
        return {
            "PATH": ":".join([*own, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]),
            "LD_LIBRARY_PATH": str(self.root / "usr/lib/x86_64-linux-gnu"),
            "XTABLES_LIBDIR": str(self.root / "usr/lib/x86_64-linux-gnu/xtables"),
            "LANG": "C.UTF-8",
        }


def bundle(cache: Cache) -> Bundle:
    key = content_key(" ".join(PROGRAMS + LIBRARIES).encode(), _LAYOUT)
    return Bundle(cache.bundles / key)


def fetch(cache: Cache) -> Bundle:
    """Fetch and unpack the packages unless the cache has them."""
    wanted = bundle(cache)
    if wanted.root.exists():
        return wanted
    with step("fetching programs from Debian packages"):
        cache.bundles.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.bundles, prefix=".new-") as scratch:
            unpacked = Path(scratch) / "root"
            unpack(PROGRAMS + LIBRARIES, Path(scratch), unpacked)
            _link_iptables(unpacked)
            _require_libraries(Bundle(unpacked))
            os.rename(unpacked, wanted.root)
    return wanted


def unpack(packages: list[str], scratch: Path, target: Path) -> None:
    """Download packages and unpack them; the package lists are the host's own, or else a private, fresh copy."""
    archives = scratch / "archives"
    archives.mkdir()
    if not _download(packages, archives, []):
        lists = scratch / "lists"
        (lists / "partial").mkdir(parents=True)
        private = ["-o", f"Dir::State::Lists={lists}"]
        # One unreachable third-party source must not matter, so only the download itself decides.
        subprocess.run(["apt-get", *_APT, *private, "-qq", "update"], capture_output=True, check=False)
        if not _download(packages, archives, private):
            raise ClusterError(
                "Debian packages could not be downloaded: apt-get needs a reachable mirror of Debian 12 (bookworm)"
            )
    for archive in sorted(archives.glob("*.deb")):
        run(["dpkg-deb", "-x", archive, target], what=f"unpacking {archive.name}")
    shutil.rmtree(archives)


_APT = ["-o", "APT::Sandbox::User=root"]


def _download(packages: list[str], directory: Path, options: list[str]) -> bool:
    try:
        run(["apt-get", *_APT, *options, "-q", "download", *packages], what="apt-get download", directory=directory)
    except ClusterError:
        return False
    return True


def _link_iptables(root: Path) -> None:
    links = root / "usr/local/bin"
    links.mkdir(parents=True)
    for name in _IPTABLES_NAMES:
        (links / name).symlink_to("../../sbin/xtables-nft-multi")


def _require_libraries(unpacked: Bundle) -> None:
    programs = [path for place in ("usr/bin", "usr/sbin", "usr/lib/cni") for path in (unpacked.root / place).iterdir()]
    for program in programs:
        if program.is_symlink() or program.read_bytes()[:4] != b"\x7fELF":
            continue
        listed = run(["ldd", program], what=f"ldd {program.name}", environment=unpacked.environment())
        if "not found" in listed:
            raise ClusterError(f"{program.name} of Debian 12 does not find its libraries here:\n{listed}")
