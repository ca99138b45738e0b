"""Images like the official `python:X.Y-slim`, made from Debian packages and an interpreter found on the machine.

The interpreter is laid out under /usr/local as in the official image: no `.pyc`, no test directories, pip from the
interpreter's own wheel. All versions share the base layer.
"""

import os
import shutil
import tempfile
from pathlib import Path

from . import interpreters
from .catalogue import Catalogue, Entry
from .debian import Bundle
from .errors import ClusterError
from .images import Layer, tar_of_tree
from .interpreters import Interpreter
from .paths import Cache, content_key
from .processes import run
from .progress import step
from .settings import IMAGE_TIME

_ASSEMBLE = Path(__file__).resolve().parent / "python-assemble.sh"

BASE_PACKAGES = (
    "ca-certificates,netbase,tzdata,libbz2-1.0,libcrypt1,libdb5.3,libexpat1,libffi8,libgdbm6,libgdbm-compat4,liblzma5,"
    "libncursesw6,libnsl2,libreadline8,libsqlite3-0,libssl3,libtirpc3,libuuid1,zlib1g"
)
_LAYOUT = b"3"

_IN_MEMORY = 'mount -t tmpfs -o mode=755 tmpfs "$1" && shift && exec "$@"'
_PATH = "/usr/local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def image_names(interpreter: Interpreter, newest: bool) -> tuple[str, ...]:
    """`X.Y.Z-slim`, and `X.Y-slim` for the newest release of a minor version."""
    tags = [interpreter.version, interpreter.minor] if newest else [interpreter.version]
    return tuple(f"docker.io/library/python:{tag}-slim" for tag in tags)


def _recipe_key(interpreter: Interpreter, newest: bool) -> str:
    recipe = [_LAYOUT, BASE_PACKAGES.encode(), _ASSEMBLE.read_bytes(), _base_key().encode()]
    origin = f"{interpreter.version} {interpreter.prefix} {newest}"
    return content_key(*recipe, origin.encode())


def _base_key() -> str:
    return content_key(_LAYOUT, BASE_PACKAGES.encode())


def python_image(cache: Cache, bundle: Bundle, wanted: str) -> Entry:
    """The image for `X.Y` or `X.Y.Z`, made unless the cache has it."""
    found = interpreters.find(Path(os.path.expanduser("~")))
    interpreter = interpreters.choose(found, wanted)
    newest = interpreters.choose(found, interpreter.minor) == interpreter
    catalogue = Catalogue(cache)
    key = _recipe_key(interpreter, newest)
    if entry := catalogue.find(key):
        return entry
    root, base = _base(cache, bundle, catalogue)
    with step(f"making the image python:{interpreter.minor}-slim from Python {interpreter.version}"):
        top = catalogue.store.add_image(
            [base, _python_layer(cache, catalogue, root, interpreter)],
            {
                "Env": [f"PATH={_PATH}", "LANG=C.UTF-8", f"PYTHON_VERSION={interpreter.version}"],
                "Cmd": ["python3"],
                "WorkingDir": "/",
            },
        )
    entry = Entry(key, image_names(interpreter, newest), top)
    catalogue.add(entry)
    return entry


def _base(cache: Cache, bundle: Bundle, catalogue: Catalogue) -> tuple[Path, Layer]:
    """A minimal Debian as a directory, to build upon, and as the layer that all versions share."""
    directory = cache.rootfs / _base_key()
    if not directory.exists():
        with step("making the base layer with mmdebstrap"):
            cache.rootfs.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache.rootfs, prefix=".new-") as scratch:
                unpacked = Path(scratch) / "base" / "root"
                unpacked.mkdir(parents=True)
                tar = _bootstrap(bundle, unpacked.parent / "layer.tar")
                run(["tar", "-C", unpacked, "--numeric-owner", "-xf", tar], what="unpacking the base layer")
                os.rename(tar.parent, directory)
    return directory / "root", catalogue.store.add_layer(directory / "layer.tar")


def _bootstrap(bundle: Bundle, tar: Path) -> Path:
    """/dev is left out, as in the official image: the runtime fills it.

    It works in memory, in a mount of its own: dpkg makes sure of every file, which takes a disk twice the time.
    """
    excluded = ["usr/share/doc/*", "usr/share/man/*", "usr/share/info/*", "usr/share/locale/*", "usr/share/lintian/*"]
    options = [f"--dpkgopt=path-exclude=/{pattern}" for pattern in excluded]
    work = tar.parent / "work"
    work.mkdir()
    environment = {**os.environ, **bundle.environment(), "SOURCE_DATE_EPOCH": str(IMAGE_TIME), "TMPDIR": str(work)}
    options += ["--quiet", "--mode=root", "--variant=minbase", "--skip=output/dev,check/empty"]
    options += [f"--include={BASE_PACKAGES}", "bookworm", str(tar)]
    program = bundle.program("usr/bin/mmdebstrap")
    in_memory = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _IN_MEMORY, "sh", str(work)]
    run([*in_memory, "perl", str(program), *options], what="mmdebstrap", environment=environment)
    work.rmdir()
    return tar


def _python_layer(cache: Cache, catalogue: Catalogue, root: Path, interpreter: Interpreter) -> Layer:
    """What changes when the interpreter is put on top of the base: the upper directory of an overlay."""
    with tempfile.TemporaryDirectory(dir=cache.rootfs, prefix=".new-") as scratch:
        upper = Path(scratch) / "upper"
        _copy_interpreter(interpreter, upper / "usr" / "local")
        run(
            [
                "unshare",
                "--mount",
                "--propagation",
                "private",
                _ASSEMBLE,
                root,
                scratch,
                interpreter.minor,
                _pip(interpreter),
            ],
            what=f"assembling Python {interpreter.version}",
        )
        _require_no_bytecode(upper)
        tar = Path(scratch) / "layer.tar"
        tar_of_tree(tar, upper)
        return catalogue.store.add_layer(tar)


def _pip(interpreter: Interpreter) -> str:
    """Debian's own interpreter refuses to install pip for itself, and does without."""
    return "without-pip" if interpreter.debian else "with-pip"


def _copy_interpreter(interpreter: Interpreter, target: Path) -> None:
    """Copy what `make install` would have put there; site-packages is left empty, since it has been used here."""
    library = target / "lib" / f"python{interpreter.minor}"
    shutil.copytree(interpreter.library, library, symlinks=True, ignore=_left_out)
    (library / "site-packages").mkdir()
    binaries = target / "bin"
    binaries.mkdir(parents=True)
    for name in _binaries(interpreter):
        source = interpreter.prefix / "bin" / name
        if source.exists():
            shutil.copy2(source, binaries / name, follow_symlinks=False)
    if interpreter.debian:
        return
    shutil.copytree(interpreter.prefix / "include", target / "include", symlinks=True)
    for shared in (interpreter.prefix / "lib").glob("libpython*.so*"):
        shutil.copy2(shared, target / "lib" / shared.name, follow_symlinks=False)
    _forget_prefix(target, str(interpreter.prefix))


def _left_out(_: str, names: list[str]) -> set[str]:
    """What the official slim image removes, and everything that was installed since."""
    dropped = {"__pycache__", "site-packages", "dist-packages", "test", "tests", "idle_test"}
    return {name for name in names if name in dropped or name.endswith((".pyc", ".pyo", ".a"))}


def _binaries(interpreter: Interpreter) -> list[str]:
    minor = interpreter.minor
    own = [f"python{minor}", f"python{minor}-config", f"idle{minor}", f"pydoc{minor}", f"2to3-{minor}"]
    return own if interpreter.debian else [*own, "python3", "python3-config", "idle3", "pydoc3", "2to3"]


def _forget_prefix(target: Path, prefix: str) -> None:
    """Scripts' first lines, sysconfig's data and pkg-config files name the place the interpreter was built for."""
    old, new = prefix.encode(), b"/usr/local"
    places = [target / "bin", *target.glob("lib/python3.*/config-*"), *target.glob("lib/python3.*/_sysconfigdata*")]
    for place in places:
        for file in [place] if place.is_file() else sorted(place.rglob("*")):
            if file.is_file() and not file.is_symlink() and b"\0" not in (content := file.read_bytes()):
                file.write_bytes(content.replace(old, new))


def _require_no_bytecode(upper: Path) -> None:
    if compiled := next(upper.rglob("*.pyc"), None):
        raise ClusterError(f"the image would have byte code in it, which the official one has not: {compiled}")
