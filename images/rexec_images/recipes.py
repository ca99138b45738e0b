"""What is in each of our images."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from .binaries import program
from .errors import ImagesError
from .oci import File, Image, Layer
from .wheels import library, member

SOURCE = Path(__file__).resolve().parent.parent
PINS = SOURCE / "wheels.txt"

_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


def version() -> str:
    """The version that all our parts share."""
    manifest = tomllib.loads((SOURCE.parent / "Cargo.toml").read_text())
    return str(manifest["workspace"]["package"]["version"])


def images(binaries: Path, wheels: Mapping[str, Path]) -> list[Image]:
    """Our images, in the order in which they are shown."""
    return [
        _service("rexec-operator", "Rexec operator", binaries, wheels),
        _service("rexec-gateway", "Rexec gateway", binaries, wheels),
        _runtime(binaries, wheels),
    ]


def _service(name: str, title: str, binaries: Path, wheels: Mapping[str, Path]) -> Image:
    """One static program, and the public certificate authorities for the servers that it asks."""
    certificates = {
        _BUNDLE: File(member(wheels["certifi"], r"certifi/cacert\.pem")),
        "/usr/share/licenses/certifi/LICENSE": File(member(wheels["certifi"], r"certifi-.*/licenses/LICENSE")),
    }
    own = {f"/{name}": program(binaries, name), "/usr/share/licenses/rexec/LICENSE": _license()}
    return Image(name, version(), title, (certificates, own), (f"/{name}",), {"SSL_CERT_FILE": _BUNDLE})


def _runtime(binaries: Path, wheels: Mapping[str, Path]) -> Image:
    """What an init container copies into a stock Python image: the server, the installer and the library.

    The largest and steadiest comes first, so that a new version of ours is a small pull.
    """
    name = "rexec-runtime-server"
    path = f"/rexec/bin/{name}"
    own = {path: program(binaries, name), "/rexec/licenses/rexec/LICENSE": _license()}
    layers = (installer_layer(wheels), library_layer(wheels), own)
    return Image("rexec-runtime", version(), "Rexec runtime", layers, (path,))


def installer_layer(wheels: Mapping[str, Path]) -> Layer:
    """`uv`, static."""
    wheel = wheels["uv"]
    installer = File(member(wheel, r"uv-[^/]*\.data/scripts/uv"), executable=True)
    licence = File(member(wheel, r"uv-[^/]*/licenses/LICENSE-APACHE"))
    return {"/rexec/bin/uv": installer, "/rexec/licenses/uv/LICENSE": licence}


def library_layer(wheels: Mapping[str, Path]) -> Layer:
    """What stands beside the user's packages, last on the path: dill and the package `rexec`."""
    own = SOURCE / "runtime" / "python"
    files = {str(path.relative_to(own)): File(path.read_bytes()) for path in own.rglob("*.py")}
    if not files:
        raise ImagesError(f"{own} is empty: the checkout is not complete")
    files.update(library(wheels["dill"], leave_out="dill/tests/"))
    return {f"/rexec/lib/python/{path}": file for path, file in files.items()}


def _license() -> File:
    return File((SOURCE.parent / "LICENSE").read_bytes())
