"""The module that the public client's pickles name; DataSpaces itself is not here."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rexec_images.recipes import SOURCE

FILE = SOURCE / "runtime" / "python" / "rexec" / "remote_obj.py"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("rexec_remote_obj_under_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def remote_obj(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("DSPACES_API_ADDR", raising=False)
    monkeypatch.delitem(sys.modules, "dxspaces", raising=False)
    return load(FILE)


class Server:
    """Stands for the client of a DataSpaces server."""

    def __init__(self, address: str) -> None:
        self.address = address

    def GetNDArray(self, name: str, *rest: object) -> object:  # noqa: N802 - the real client's name
        return None if name == "missing" else (self.address, name, *rest)


def test_without_the_package_the_error_names_the_requirement(remote_obj: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dxspaces", None)
    with pytest.raises(remote_obj.DataSpacesError, match="add the line 'dxspaces'"):
        remote_obj.DSDataObj.resolve("temperature", 1, (0,), (3,))


def test_without_an_address_the_error_names_the_variable(remote_obj: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dxspaces", SimpleNamespace(DXSpacesClient=Server))
    with pytest.raises(remote_obj.DataSpacesError, match="DSPACES_API_ADDR"):
        remote_obj.DSDataObj.resolve("temperature", 1, (0,), (3,))


def test_with_both_the_array_is_fetched_with_its_namespace(remote_obj: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dxspaces", SimpleNamespace(DXSpacesClient=Server))
    monkeypatch.setenv("DSPACES_API_ADDR", "http://dataspaces.example")
    expected = ("http://dataspaces.example", "temperature", 1, (0,), (3,), "climate")
    assert remote_obj.DSDataObj("temperature", 1, (0,), (3,), "climate") == expected
    assert remote_obj.DSDataObj.resolve("temperature", 1, (0,), (3,), "climate") == expected


def test_an_object_that_is_not_there_is_an_error_and_not_none(remote_obj: Any) -> None:
    remote_obj.DSDataObj.dspaces_client = Server("")
    with pytest.raises(remote_obj.DataSpacesError, match="no object 'missing'"):
        remote_obj.DSDataObj.resolve("missing", 1, (0,), (3,))
