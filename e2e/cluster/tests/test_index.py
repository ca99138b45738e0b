"""The package index's pages, and which lines pip is given together."""

import hashlib
import zipfile
from pathlib import Path

from rexec_cluster import index
from rexec_cluster.index import Wheel, normalise, project_page, requirements, root_page, rounds


def wheel_in(directory: Path, name: str) -> bytes:
    project, version = name.split("-")[:2]
    metadata = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n".encode()
    with zipfile.ZipFile(directory / name, "w") as wheel:
        wheel.writestr(f"{project}-{version}.dist-info/METADATA", metadata)
    return metadata


def test_comments_and_blank_lines_name_nothing() -> None:
    assert requirements("# a\n\nsix==1.16.0  # old\nnumpy\n") == ["six==1.16.0", "numpy"]


def test_two_versions_of_a_project_are_fetched_apart() -> None:
    lines = ["six==1.16.0", "numpy", "six==1.17.0", "Six>=1", "pandas[x]>2"]
    assert rounds(lines) == [["six==1.16.0", "numpy", "pandas[x]>2"], ["six==1.17.0"], ["Six>=1"]]


def test_project_names_are_normalised() -> None:
    assert normalise("Foo__Bar.baz") == "foo-bar-baz"
    assert Wheel("scikit_learn-1-py3-none-any.whl", "", "").project == "scikit-learn"


def test_a_project_page_has_digests() -> None:
    page = project_page("six", [Wheel("six-1.16.0-py2.py3-none-any.whl", "ab", "cd")])
    assert 'href="../../wheels/six-1.16.0-py2.py3-none-any.whl#sha256=ab"' in page
    assert 'data-core-metadata="sha256=cd"' in page


def test_names_are_escaped() -> None:
    assert "<script>" not in project_page("x", [Wheel("<script>-1-py3-none-any.whl", "", "")])


def test_the_root_page_lists_projects() -> None:
    assert '<a href="numpy/">numpy</a>' in root_page(["numpy", "six"])


def test_a_whole_index_is_written_and_written_anew(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    metadata = wheel_in(wheels, "six-1.16.0-py2.py3-none-any.whl")
    index.write_pages(tmp_path)
    assert (wheels / "six-1.16.0-py2.py3-none-any.whl.metadata").read_bytes() == metadata
    page = (tmp_path / "simple/six/index.html").read_text()
    assert hashlib.sha256((wheels / "six-1.16.0-py2.py3-none-any.whl").read_bytes()).hexdigest() in page
    wheel_in(wheels, "Foo_Bar-1-py3-none-any.whl")
    index.write_pages(tmp_path)
    assert sorted(path.name for path in (tmp_path / "simple").iterdir()) == ["foo-bar", "index.html", "six"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
