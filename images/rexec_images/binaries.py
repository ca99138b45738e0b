"""Our programs, as the release build left them."""

import struct
from pathlib import Path

from .errors import ImagesError
from .oci import File

_PT_INTERP = 3
_ELF64_LITTLE = b"\x7fELF\x02\x01"


def program(directory: Path, name: str) -> File:
    """Read a program and make sure that it runs in an image that has nothing else in it."""
    path = directory / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ImagesError(f"{path} cannot be read ({error.strerror}): run `make build` first") from error
    if not is_static(content):
        raise ImagesError(
            f"{path} needs a dynamic linker, which the image does not have: build it with "
            'RUSTFLAGS="-C target-feature=+crt-static" and --target named, as `make build` does'
        )
    return File(content, executable=True)


def is_static(elf: bytes) -> bool:
    """Whether a 64-bit x86 ELF file asks for no interpreter (its dynamic linker)."""
    if not elf.startswith(_ELF64_LITTLE):
        raise ImagesError("not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    types = (struct.unpack_from("<I", elf, table + number * size)[0] for number in range(count))
    return _PT_INTERP not in types
