"""The archives are well formed, hold what they should, and are the same bytes for the same content."""

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rexec_images import oci


@pytest.fixture
def image() -> oci.Image:
    layers = (
        {"/etc/conf": oci.File(b"a=1\n")},
        {"/rexec/bin/tool": oci.File(b"#!", executable=True), "/rexec/a": oci.File(b"")},
    )
    return oci.Image("tool", "1.2.3", "A tool", layers, ("/rexec/bin/tool",), {"LANG": "C.UTF-8"})


def test_a_layer_has_every_parent_directory_before_its_files_and_belongs_to_root(image: oci.Image) -> None:
    with tarfile.open(fileobj=io.BytesIO(oci.layer_tar(image.layers[1]))) as tar:
        members = tar.getmembers()
    assert [(member.name, oct(member.mode)) for member in members] == [
        ("rexec", "0o755"),
        ("rexec/bin", "0o755"),
        ("rexec/a", "0o644"),
        ("rexec/bin/tool", "0o755"),
    ]
    assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, oci.TIME)}


def test_the_order_in_which_files_are_named_changes_nothing(image: oci.Image) -> None:
    turned = replace(image, layers=tuple(dict(reversed(list(layer.items()))) for layer in image.layers))
    assert oci.build(turned) == oci.build(image)


@pytest.mark.parametrize(
    "change",
    [
        {"layers": ({"/etc/conf": oci.File(b"a=2\n")},)},
        {"environment": {"LANG": "C"}},
        {"entrypoint": ("/other",)},
    ],
)
def test_another_content_has_another_tag(image: oci.Image, change: dict[str, Any]) -> None:
    assert oci.build(replace(image, **change)).tag != oci.build(image).tag


def test_the_tag_does_not_depend_on_the_compressor(image: oci.Image, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = oci.build(image)
    monkeypatch.setattr("gzip.compress", lambda data, compresslevel, mtime: b"%d %d" % (compresslevel, mtime) + data)
    other = oci.build(image)
    assert other.tag == usual.tag
    assert other.digest != usual.digest


def test_a_tag_names_the_version_and_is_never_latest(image: oci.Image) -> None:
    version, _, content = oci.build(image).tag.partition("-")
    assert version == "1.2.3"
    assert len(content) == 12
    assert int(content, 16) >= 0


def test_every_digest_in_an_archive_is_that_of_its_blob(image: oci.Image, tmp_path: Path) -> None:
    built = oci.build(image)
    target = tmp_path / "tool.tar"
    oci.write_archive(built, "registry.example/tool", target)
    with tarfile.open(target) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar.getmembers()}  # type: ignore[union-attr]
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == f"registry.example/tool:{built.tag}"
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == built.tag
    manifest = json.loads(files["blobs/" + entry["digest"].replace(":", "/")])
    for blob in (entry, manifest["config"], *manifest["layers"]):
        content = files["blobs/" + blob["digest"].replace(":", "/")]
        assert blob["digest"] == "sha256:" + hashlib.sha256(content).hexdigest()
        assert blob["size"] == len(content)
    config = json.loads(files["blobs/" + manifest["config"]["digest"].replace(":", "/")])
    unpacked = [gzip.decompress(files["blobs/" + layer["digest"].replace(":", "/")]) for layer in manifest["layers"]]
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(tar).hexdigest() for tar in unpacked]
    assert config["config"]["User"] == "65532:65532"
    assert "LANG=C.UTF-8" in config["config"]["Env"]


def test_an_archive_is_the_same_bytes_each_time(image: oci.Image, tmp_path: Path) -> None:
    for name in ("one.tar", "two.tar"):
        oci.write_archive(oci.build(image), "registry.example/tool", tmp_path / name)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
