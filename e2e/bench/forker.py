"""A Python that holds what the runtime's warm parent holds, and times one bare fork, `_exit` and `waitpid` when asked.

Run by the environment's Python: `forker.py LIBRARY WORKER MODULE…`. A byte on its standard input asks; the answer is a line
with the milliseconds. What it does is the least that a process for each call can cost.
"""

import contextlib
import gc
import importlib
import os
import sys
import time


def main(library: str, worker: str, modules: "list[str]") -> None:
    """Import, freeze as the warm parent does, and answer."""
    sys.path += [worker, library]
    for module in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()
    gc.disable()
    missing = [module for module in modules if module not in sys.modules]
    print("holds", len(modules) - len(missing), "of", len(modules), *missing, flush=True)
    while os.read(0, 1):
        start = time.perf_counter()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        os.write(1, b"%.6f\n" % ((time.perf_counter() - start) * 1e3))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
