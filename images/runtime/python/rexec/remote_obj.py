"""Objects in DataSpaces, as the caller's side refers to them.

The public client pickles a `DSDataObj` as a call of `DSDataObj.resolve`, so unpickling one here fetches the array. That
needs the package `dxspaces` among the environment's requirements and the address of a DataSpaces server; where either
is missing, the call fails with a sentence that says so. It never becomes a silent None.
"""

import importlib
import os
from typing import Any, Optional

ADDRESS_VARIABLE = "DSPACES_API_ADDR"


class DataSpacesError(RuntimeError):
    """A DataSpaces object could not be fetched."""


class DSDataObj:
    """A box of an array in DataSpaces; inside an environment, making one fetches it.

    `lb` and `ub` are the lower and upper corner, both inclusive, one number a dimension.
    """

    dspaces_client: Any = None
    """A client to use in place of one made from the environment's variables: anything with `GetNDArray`."""

    def __new__(
        cls, name: str, version: int, lb: "tuple[int, ...]", ub: "tuple[int, ...]", namespace: Optional[str] = None
    ) -> Any:
        """Fetch the array, as the public server does."""
        return cls.resolve(name, version, lb, ub, namespace)

    @staticmethod
    def resolve(
        name: str, version: int, lb: "tuple[int, ...]", ub: "tuple[int, ...]", namespace: Optional[str] = None
    ) -> Any:
        """Fetch the array; raises `DataSpacesError` where there is no way to, or no such object."""
        client = DSDataObj.dspaces_client or _client(name)
        array = client.GetNDArray(name, version, lb, ub, namespace)
        if array is None:
            raise DataSpacesError(f"DataSpaces has no object {name!r} of version {version} within {lb} to {ub}")
        return array


def _client(name: str) -> Any:
    try:
        dxspaces = importlib.import_module("dxspaces")
    except ImportError as error:
        raise DataSpacesError(
            f"the DataSpaces object {name!r} cannot be fetched: this environment cannot import 'dxspaces' ({error}); "
            "add the line 'dxspaces' to its requirements"
        ) from error
    address = os.environ.get(ADDRESS_VARIABLE)
    if not address:
        raise DataSpacesError(
            f"the DataSpaces object {name!r} cannot be fetched: no DataSpaces server is configured; set the "
            f"environment's variable {ADDRESS_VARIABLE} to the server's address"
        )
    return dxspaces.DXSpacesClient(address)
