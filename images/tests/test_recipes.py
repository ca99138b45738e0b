"""What the images hold, and what is refused."""

import struct
import zipfile
from pathlib import Path

import pytest

from rexec_images import recipes
from rexec_images.binaries import is_static, program
from rexec_images.errors import ImagesError
from rexec_images.wheels import library, member, project_of


def elf(*segments: int) -> bytes:
    """A 64-bit ELF header with program headers of the given types."""
    header = b"\x7fELF\x02\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHH", 2, 62, 1, 0, 64, 0, 0, 64, 56, len(segments)
    )
    return header.ljust(64, b"\0") + b"".join(struct.pack("<I", kind).ljust(56, b"\0") for kind in segments)


@pytest.fixture
def binaries(tmp_path: Path) -> Path:
    for name in ("rexec-operator", "rexec-gateway", "rexec-runtime-server"):
        (tmp_path / name).write_bytes(elf(1, 2) + name.encode())
    return tmp_path


@pytest.fixture
def wheels(tmp_path: Path) -> dict[str, Path]:
    contents = {
        "certifi-1-py3-none-any.whl": ["certifi/cacert.pem", "certifi-1.dist-info/licenses/LICENSE"],
        "dill-1-py3-none-any.whl": ["dill/__init__.py", "dill/tests/test_a.py", "dill-1.dist-info/LICENSE"],
        "uv-1-py3-none-musllinux_1_1_x86_64.whl": ["uv-1.data/scripts/uv", "uv-1.dist-info/licenses/LICENSE-APACHE"],
    }
    for name, members in contents.items():
        with zipfile.ZipFile(tmp_path / name, "w") as wheel:
            for path in members:
                wheel.writestr(path, path)
    return {project_of(name): tmp_path / name for name in contents}


def test_a_program_with_a_dynamic_linker_is_refused(tmp_path: Path) -> None:
    assert is_static(elf(1, 2, 4))
    assert not is_static(elf(1, 3, 2))
    (tmp_path / "tool").write_bytes(elf(6, 3))
    with pytest.raises(ImagesError, match=r"crt-static"):
        program(tmp_path, "tool")


def test_a_program_that_was_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(ImagesError, match="make build"):
        program(tmp_path, "tool")


def test_a_file_that_is_no_program_is_refused() -> None:
    with pytest.raises(ImagesError, match="ELF"):
        is_static(b"#!/bin/sh\n")


def test_the_runtime_image_has_the_server_the_installer_and_the_library(
    binaries: Path, wheels: dict[str, Path]
) -> None:
    image = next(image for image in recipes.images(binaries, wheels) if image.name == "rexec-runtime")
    files = {path: file for layer in image.layers for path, file in layer.items()}
    assert {path for path, file in files.items() if file.executable} == {
        "/rexec/bin/rexec-runtime-server",
        "/rexec/bin/uv",
    }
    assert {path for path in files if path.startswith("/rexec/lib/")} == {
        "/rexec/lib/python/dill/__init__.py",
        "/rexec/lib/python/dill-1.dist-info/LICENSE",
        "/rexec/lib/python/rexec/__init__.py",
        "/rexec/lib/python/rexec/remote_obj.py",
    }
    assert image.entrypoint == ("/rexec/bin/rexec-runtime-server",)


@pytest.mark.parametrize("name", ["rexec-operator", "rexec-gateway"])
def test_a_service_image_has_its_program_and_the_public_authorities(
    binaries: Path, wheels: dict[str, Path], name: str
) -> None:
    image = next(image for image in recipes.images(binaries, wheels) if image.name == name)
    files = {path: file for layer in image.layers for path, file in layer.items()}
    assert [path for path, file in files.items() if file.executable] == [f"/{name}"]
    assert files[image.environment["SSL_CERT_FILE"]].content == b"certifi/cacert.pem"


def test_every_pin_has_a_hash() -> None:
    pins = [line for line in recipes.PINS.read_text().splitlines() if line and not line.startswith("#")]
    assert {line.partition("==")[0] for line in pins} == {"certifi", "dill", "uv"}
    assert all(" --hash=sha256:" in line for line in pins)


def test_a_wheel_that_is_not_laid_out_as_thought_is_refused(wheels: dict[str, Path]) -> None:
    with pytest.raises(ImagesError, match="0 files"):
        member(wheels["uv"], r"bin/uv")
    assert set(library(wheels["dill"], leave_out="dill/tests/")) == {"dill/__init__.py", "dill-1.dist-info/LICENSE"}
