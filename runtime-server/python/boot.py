def boot():
    import sys

    sys.path.pop(0)  # the working directory belongs to user code
    import importlib.machinery
    import json
    import socket
    import types

    control = socket.socket(fileno=0)
    line = bytearray()
    while not line.endswith(b"\n"):
        received = control.recv(1 << 16)
        if not received:
            return
        line += received
    bundle = json.loads(line)
    sources, config = bundle["sources"], bundle["config"]

    class Sources:
        @classmethod
        def find_spec(cls, name, path=None, target=None):
            package, _, module = name.rpartition(".")
            if package == "rexec_worker" and module in sources:
                return importlib.machinery.ModuleSpec(name, cls)
            return None

        @staticmethod
        def create_module(spec):
            return None

        @staticmethod
        def exec_module(module):
            source = sources[module.__name__.rpartition(".")[2]]
            exec(compile(source, f"<{module.__name__}>", "exec"), module.__dict__)

    sys.path.append(config["library"])
    package = sys.modules["rexec_worker"] = types.ModuleType("rexec_worker")
    package.__path__ = []
    sys.meta_path.insert(0, Sources)
    from rexec_worker import body, bytecode, child, native, outcome, output, parent, wire  # noqa: F401 - none can be found later

    sys.meta_path.remove(Sources)
    # What calls see as their own `__main__` must be empty.
    del sys.modules["__main__"].__dict__["boot"]
    parent.main(control, config)


boot()
