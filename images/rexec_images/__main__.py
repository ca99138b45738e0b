"""`python -m rexec_images build` writes the archives; `library` lays out what the runtime needs on a laptop."""

import argparse
import json
import sys
from pathlib import Path

from . import oci, recipes, wheels
from .errors import ImagesError

# The registry of archives that were not pushed anywhere: it cannot be resolved, so nothing is ever pulled from it.
LOCAL_REGISTRY = "local.rexec.invalid"


def main(arguments: list[str]) -> int:
    """Parse the command line and run one sub-command."""
    parser = argparse.ArgumentParser(prog="rexec_images", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="write an OCI archive of each image, and images.json")
    build.add_argument("--binaries", type=Path, required=True, help="directory with the static programs")
    build.add_argument("--out", type=Path, required=True)
    library = commands.add_parser("library", help="lay out bin/uv and lib/python below a directory")
    library.add_argument("--to", type=Path, required=True)
    for command in (build, library):
        command.add_argument("--cache", type=Path, required=True, help="where fetched wheels are kept")
    options = parser.parse_args(arguments)
    try:
        found = wheels.fetch(recipes.PINS, options.cache)
        if options.command == "build":
            build_all(recipes.images(options.binaries, found), options.out)
        else:
            lay_out({**recipes.installer_layer(found), **recipes.library_layer(found)}, options.to)
    except ImagesError as error:
        print(f"rexec_images: {error}", file=sys.stderr)
        return 1
    return 0


def build_all(images: list[oci.Image], out: Path) -> None:
    """Write the archives and `images.json` (name → archive, tag, digest), and remove archives of other contents."""
    out.mkdir(parents=True, exist_ok=True)
    index = {}
    for image in images:
        built = oci.build(image)
        archive = out / f"{built.name}-{built.tag}.tar"
        if not archive.exists():
            oci.write_archive(built, f"{LOCAL_REGISTRY}/{built.name}", archive)
        index[built.name] = {"archive": archive.name, "tag": built.tag, "digest": built.digest}
        print(f"    {built.name}:{built.tag}  {built.size / 1e6:.1f} MB")
    (out / "images.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    for stale in set(out.glob("*.tar")) - {out / str(entry["archive"]) for entry in index.values()}:
        stale.unlink()


def lay_out(layer: oci.Layer, to: Path) -> None:
    """Write a layer's files below a directory, without the leading `/rexec`."""
    for path, file in layer.items():
        target = to / path.removeprefix("/rexec/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(0o755 if file.executable else 0o644)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
