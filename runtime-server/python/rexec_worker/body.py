"""The body of a call as a file for the unpickler."""

import io
from typing import Any

from rexec_worker import native

# Page by page, making room for an argument takes longer than copying it.
_LARGE = 4 << 20


class BodyReader(io.BufferedReader):
    """Reads the body from the runtime server's socket, large values straight into their own memory."""

    def __init__(self, descriptor: int) -> None:
        # Closed by the end of the process, not by the end of this object.
        super().__init__(io.FileIO(descriptor, "rb", closefd=False), 1 << 16)

    def readinto(self, buffer: Any) -> int:
        """Fills ``buffer`` as far as the body goes; the unpickler asks so for what it could not find in what it has read ahead."""
        view = memoryview(buffer)
        if view.nbytes >= _LARGE:
            native.use_huge_pages(view)
        return super().readinto(buffer)
