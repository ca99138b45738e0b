"""Images and archives: the same content gives the same bytes, and what others write can be read."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from rexec_cluster import archives, registry
from rexec_cluster.catalogue import Catalogue, Entry
from rexec_cluster.errors import ClusterError
from rexec_cluster.images import INDEX, Descriptor, Layer, Store, tar_of_files, tar_of_tree
from rexec_cluster.paths import Cache


def layer_in(store: Store, scratch: Path, content: bytes = b"x") -> Layer:
    program = scratch / "program"
    program.write_bytes(content)
    tar = scratch / "layer.tar"
    tar_of_files(tar, {"program": program})
    return store.add_layer(tar)


def image_in(store: Store, scratch: Path) -> Descriptor:
    return store.add_image([layer_in(store, scratch)], {"Entrypoint": ["/program"]})


def test_the_same_content_is_the_same_image(tmp_path: Path) -> None:
    tops = []
    for name in ("a", "b"):
        scratch = tmp_path / name
        scratch.mkdir()
        tops.append(image_in(Store(scratch / "store"), scratch))
    assert tops[0] == tops[1]


def test_other_content_is_another_image(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    assert layer_in(store, tmp_path, b"x") != layer_in(store, tmp_path, b"y")


def test_a_tree_is_written_without_owner_and_time(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "b").mkdir(parents=True)
    (tree / "b" / "file").write_text("x")
    (tree / "a").symlink_to("b")
    tar_of_tree(tmp_path / "tar", tree)
    with tarfile.open(tmp_path / "tar") as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == ["a", "b", "b/file"]
    assert {(member.uid, member.uname, member.mtime) for member in members} == {(0, "", 1_700_000_000)}


def test_an_image_is_an_index_as_the_official_ones(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    top = image_in(store, tmp_path)
    assert top.media_type == INDEX
    manifest, index = store.manifests(top)
    assert index == top
    assert len(store.content(top)) == 2
    assert store.read_json(top.digest)["manifests"][0]["digest"] == manifest.digest


def test_an_archive_can_be_read_again(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "store"), Store(tmp_path / "other")
    top = image_in(store, tmp_path)
    archive = tmp_path / "image.tar"
    archives.write(archive, store, top, "docker.io/rexec/x:1")
    assert archives.read(archive, other) == [archives.Archived(("docker.io/rexec/x:1",), top)]
    assert all(other.path(digest).exists() for digest in other.content(top))


def docker_archive(target: Path, tags: list[str]) -> None:
    files = {
        "config.json": json.dumps({"rootfs": {"type": "layers", "diff_ids": ["sha256:0"]}}).encode(),
        "0/layer.tar": b"plain",
        "manifest.json": json.dumps([{"Config": "config.json", "RepoTags": tags, "Layers": ["0/layer.tar"]}]).encode(),
    }
    with tarfile.open(target, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def test_a_docker_archive_is_read_with_its_names(tmp_path: Path) -> None:
    docker_archive(tmp_path / "image.tar", ["rexec/x:1"])
    store = Store(tmp_path / "store")
    (archived,) = archives.read(tmp_path / "image.tar", store)
    assert archives.named([archived], tmp_path, None) == [("docker.io/rexec/x:1", archived.top)]
    assert archives.named([archived], tmp_path, "y") == [("docker.io/library/y:latest", archived.top)]
    assert store.read_json(archived.top.digest)["layers"][0]["mediaType"].endswith(".tar")


def test_an_archive_without_a_name_needs_one(tmp_path: Path) -> None:
    docker_archive(tmp_path / "image.tar", [])
    archived = archives.read(tmp_path / "image.tar", Store(tmp_path / "store"))
    with pytest.raises(ClusterError, match="give a NAME"):
        archives.named(archived, tmp_path, None)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ClusterError, match="cannot be read"):
        archives.read(tmp_path / "text", Store(tmp_path / "store"))
    tarfile.open(tmp_path / "empty.tar", "w").close()
    with pytest.raises(ClusterError, match="no image archive"):
        archives.read(tmp_path / "empty.tar", Store(tmp_path / "store"))


def test_the_catalogue_finds_what_was_added(tmp_path: Path) -> None:
    catalogue = Catalogue(Cache(tmp_path))
    entry = Entry("key", ("docker.io/library/x:1",), Descriptor(INDEX, "sha256:0", 1))
    catalogue.add(entry)
    assert catalogue.find("key") == entry
    assert catalogue.find("other") is None


def test_a_registry_is_seeded_with_links_to_blobs(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    top = image_in(store, tmp_path)
    registry.seed(tmp_path / "registry", store, [Entry("k", ("docker.io/library/x:1",), top)])
    root = tmp_path / "registry/docker/registry/v2"
    repository = root / "repositories/library/x"
    assert (repository / "_manifests/tags/1/current/link").read_text() == top.digest
    assert len(list((repository / "_manifests/revisions/sha256").iterdir())) == 2
    assert len(list((repository / "_layers/sha256").iterdir())) == 2
    value = top.digest.removeprefix("sha256:")
    assert (root / "blobs/sha256" / value[:2] / value / "data").samefile(store.path(top.digest))
