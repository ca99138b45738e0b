"""A Python that holds what the runtime's warm parent holds, and times one bare fork, `_exit` and `waitpid` when asked.

Run by the environment's Python: `forker.py LIBRARY WORKER MODULE…`. A byte on its standard input asks; the answer is a line
with the milliseconds. What it does is the least that a process for each call can cost.
"""

import contextlib
import gc
import importlib
import importlib.machinery
import os
import sys
import time
import types


class WorkerModules:
    """Imports the worker's modules as the runtime server has them: from text, without files."""

    directory = ""

    @classmethod
    def find_spec(cls, name, path=None, target=None):  # type: ignore[no-untyped-def]
        """The modules of the package `rexec_worker`."""
        package, _, module = name.rpartition(".")
        known = package == "rexec_worker" and os.path.exists(f"{cls.directory}/{module}.py")
        return importlib.machinery.ModuleSpec(name, cls) if known else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(_spec):  # type: ignore[no-untyped-def]
        """An ordinary module."""

    @classmethod
    def exec_module(cls, module):  # type: ignore[no-untyped-def]
        """Run its text."""
        name = module.__name__.rpartition(".")[2]
        with open(f"{cls.directory}/{name}.py") as file:
            exec(compile(file.read(), f"<{module.__name__}>", "exec"), module.__dict__)  # noqa: S102


def main(library: str, worker: str, modules: "list[str]") -> None:
    """Import, freeze as the warm parent does, and answer."""
    sys.path.append(library)
    WorkerModules.directory = os.path.join(worker, "rexec_worker")
    package = sys.modules["rexec_worker"] = types.ModuleType("rexec_worker")
    package.__path__ = []
    sys.meta_path.insert(0, WorkerModules)
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
