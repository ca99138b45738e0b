"""`e2e-trivial-call`: one call of a trivial function by the unmodified public client, through gateway and runtime.

The limit is what cannot be avoided by a system that gives each call a process of its own: a bare fork, exit and wait of a
Python that holds what the warm parent holds, and the client's own time. The three are measured in turn, call by call, each
after the same pause, so that whatever else the machine does meets all of them alike.
"""

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rexec_e2e import paths, processes, venvs
from rexec_e2e.errors import E2eError

from .report import Row, against_limit, percentile

SAMPLES = 600
WARM_UP = 30
PAUSE_SECONDS = 0.02
GOAL = 0.8

# Run by the client's Python; the forker is its child, so that one loop times all three.
_SCRIPT = """
import subprocess
forker = subprocess.Popen(json.loads(os.environ["FORKER"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(forker.stdout.readline().decode(), end="")

@remote_func
def one():
    return 1

def call(port):
    remote_func.set_remote_port(port)
    start = time.perf_counter()
    value = one()
    took = (time.perf_counter() - start) * 1e3
    assert value == 1, value
    return took

def fork():
    os.write(forker.stdin.fileno(), b"f")
    return float(forker.stdout.readline())

ours, floor = os.environ["GATEWAY_PORT"], os.environ["ECHO_PORT"]
turns = [("ours", call, (ours,)), ("fork", fork, ()), ("floor", call, (floor,))]
samples = {name: [] for name, _, _ in turns}
for number in range(int(os.environ["SAMPLES"]) + int(os.environ["WARM_UP"])):
    for name, measure, arguments in turns:
        time.sleep(float(os.environ["PAUSE"]))
        samples[name].append(measure(*arguments))
forker.stdin.close()
show({name: taken[int(os.environ["WARM_UP"]):] for name, taken in samples.items()})
"""

_MODULES = """
@remote_func
def modules():
    import sys
    return sorted(name for name in sys.modules if name not in ("__main__", "__mp_main__"))
show(modules())
"""


def measure() -> tuple[list[Row], Mapping[str, Sequence[float]]]:
    """Measure and judge."""
    server_python = venvs.venv("server") / "bin" / "python"
    with processes.stack(server_python) as stack, _echo() as echo_port:
        user = stack.client()
        modules: Any = user.run(_MODULES).ok().one
        forker = _forker_command(server_python, modules)
        answer = user.run(
            _SCRIPT,
            seconds=600,
            FORKER=forker,
            ECHO_PORT=echo_port,
            SAMPLES=str(SAMPLES),
            WARM_UP=str(WARM_UP),
            PAUSE=str(PAUSE_SECONDS),
        ).ok()
    _, held, _, wanted, *missing = answer.stdout.split()
    if held != wanted:
        raise E2eError(
            f"the limit would be too low: its Python cannot hold {' '.join(missing)} as the warm parent does"
        )
    samples: Any = answer.one
    return rows(samples), samples


def rows(samples: Mapping[str, Sequence[float]]) -> list[Row]:
    """The median decides; the 99th percentile is shown."""
    result = []
    for suffix, share in (("", 0.5), ("-p99", 0.99)):
        ours, fork, floor = (percentile(samples[name], share) for name in ("ours", "fork", "floor"))
        what = f"a trivial call, 20 ms apart, p{share * 100:.0f}; limit: fork {fork:.2f} + client {floor:.2f}"
        if suffix:
            result.append(Row(f"e2e-trivial-call{suffix}", what, "ms", ours, limit=fork + floor))
        else:
            result.append(against_limit("e2e-trivial-call", what, "ms", ours, fork + floor, GOAL))
    return result


def _forker_command(python: Path, modules: Sequence[str]) -> str:
    here = Path(__file__).parent
    worker = paths.ROOT / "runtime-server" / "python"
    words = [python, "-P", here / "forker.py", processes.library(), worker, *modules]
    return json.dumps([str(word) for word in words])


@contextlib.contextmanager
def _echo() -> Iterator[str]:
    """The listener that answers at once, as a process of its own; its port."""
    python = venvs.venv("server") / "bin" / "python"
    script = Path(__file__).with_name("zmtp_echo.py")
    with subprocess.Popen([python, "-P", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            if not port.isdigit():
                raise E2eError("the echo listener did not start")
            yield port
        finally:
            process.kill()
