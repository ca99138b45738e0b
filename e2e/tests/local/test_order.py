"""Order, interruption, and what happens to a caller when something goes away."""

import signal
import time
from pathlib import Path

from rexec_e2e import processes
from rexec_e2e.client import Client
from rexec_e2e.processes import Stack
from rexec_e2e.steps import eventually

HANGING = """
    @remote_func
    def hang(seconds, marker):
        import os, pathlib, subprocess, time
        child = subprocess.Popen(["sleep", str(seconds)], start_new_session=True)
        pathlib.Path(marker).write_text(f"{os.getpid()} {child.pid}")
        print("running")
        time.sleep(seconds)
        return "woke"
"""


def pids(marker: Path) -> list[int]:
    """The call's process, and the one that it started in a session of its own."""
    return [int(word) for word in marker.read_text().split()]


def test_ctrl_c_returns_at_once_and_ends_all_that_the_call_started(user: Client, tmp_path: Path) -> None:
    script = user.start(HANGING, f"hang(300, {str(tmp_path / 'marker')!r})\n")
    script.wait_for("running")
    start = time.monotonic()
    script.interrupt()
    answer = script.finish(10)
    assert time.monotonic() - start < 1
    assert "KeyboardInterrupt" in answer.stderr
    for pid in pids(tmp_path / "marker"):
        assert processes.gone(pid, 2) is not None, "wire_f06: something that the call started lives on"


def test_wire_f07_the_next_call_starts_at_once_after_ctrl_c(user: Client, tmp_path: Path) -> None:
    script = user.start(
        HANGING,
        f"""
        @remote_func
        def next_call():
            return "next"
        try:
            hang(300, {str(tmp_path / "marker")!r})
        except KeyboardInterrupt:
            start = time.monotonic()
            show([next_call(), time.monotonic() - start])
    """,
    )
    script.wait_for("running")
    script.interrupt()
    result = script.finish(20).ok().one
    assert isinstance(result, list)
    assert result[0] == "next"
    assert result[1] < 0.4


def test_a_call_that_ignores_sigterm_is_killed(user: Client, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    script = user.start(f"""
        @remote_func
        def deaf():
            import os, pathlib, signal, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            pathlib.Path({str(marker)!r}).write_text(str(os.getpid()))
            print("running")
            time.sleep(300)
        deaf()
    """)
    script.wait_for("running")
    pid = int(marker.read_text())
    start = time.monotonic()
    script.interrupt()
    assert processes.gone(pid, 5) is not None
    assert time.monotonic() - start > 0.4, "SIGKILL must leave half a second after SIGTERM"
    script.finish(10)


def test_wire_f10_unpickling_can_be_interrupted(user: Client, tmp_path: Path) -> None:
    script = user.start(f"""
        def slow():
            import pathlib, time
            pathlib.Path({str(tmp_path / "marker")!r}).write_text("unpickling")
            time.sleep(300)
        class Slow:
            def __reduce__(self):
                return (slow, ())
        @remote_func
        def f(x):
            return x
        @remote_func
        def next_call():
            return "next"
        try:
            print("calling")
            f(Slow())
        except KeyboardInterrupt:
            show(next_call())
    """)
    eventually("the argument is being unpickled", 20, (tmp_path / "marker").exists)
    script.interrupt()
    assert script.finish(5).ok().one == "next"


def test_calls_of_several_sessions_run_one_at_a_time_in_order_of_arrival(
    user: Client, shared_stack: Stack, tmp_path: Path
) -> None:
    order, gate = tmp_path / "order", tmp_path / "gate"
    source = f"""
        @remote_func
        def f(name):
            import pathlib, time
            with open({str(order)!r}, "a") as file:
                file.write(f"begin {{name}}\\n")
                file.flush()
                while not pathlib.Path({str(gate)!r}).exists():
                    time.sleep(0.02)
                file.write(f"end {{name}}\\n")
        f(os.environ["NAME"])
    """
    scripts = [user.start(source, NAME="a")]
    eventually("the first call runs", 20, order.exists)
    for waiting, name in enumerate(("b", "c"), start=1):
        scripts.append(user.start(source, NAME=name))
        eventually(f"{waiting} in the queue", 20, lambda wanted=waiting: queued(shared_stack) == wanted)  # type: ignore[misc]
    gate.touch()
    for script in scripts:
        script.finish().ok()
    assert order.read_text().split() == "begin a end a begin b end b begin c end c".split()


def queued(stack: Stack) -> int:
    """Calls that wait at a stack's runtime server."""
    calls = processes.http_json(stack.call_port, "/v1/calls")["calls"]
    return sum(call["state"] == "queued" for call in calls)


def test_wire_f05_ctrl_c_on_a_queued_call_removes_that_call_and_no_other(
    user: Client, shared_stack: Stack, tmp_path: Path
) -> None:
    first = user.start(HANGING, f"show(hang(4, {str(tmp_path / 'first')!r}))\n")
    first.wait_for("running")
    second = user.start(HANGING, f"print('calling'); show(hang(4, {str(tmp_path / 'second')!r}))\n")
    second.wait_for("calling")
    eventually("the second call is in the queue", 10, lambda: queued(shared_stack) == 1)
    second.interrupt()
    assert "KeyboardInterrupt" in second.finish(5).stderr
    eventually("the queue is empty", 5, lambda: queued(shared_stack) == 0)
    assert first.finish(20).ok().one == "woke"
    assert user.run("attempt(remote_func(len), [1])").ok().returned == "1"
    assert not (tmp_path / "second").exists(), "a call that was interrupted in the queue must never run"


def test_wire_f42_a_client_that_is_killed_cancels_its_call(user: Client, tmp_path: Path) -> None:
    script = user.start(HANGING, f"hang(300, {str(tmp_path / 'marker')!r})\n")
    script.wait_for("running")
    script.signal(signal.SIGKILL)
    script.finish(5)
    for pid in pids(tmp_path / "marker"):
        assert processes.gone(pid, 5) is not None


def test_wire_f04_a_runtime_that_dies_ends_its_calls_with_an_error(
    own_user: Client, own_stack: Stack, tmp_path: Path
) -> None:
    script = own_user.start(HANGING, f"attempt(hang, 300, {str(tmp_path / 'marker')!r})\n")
    script.wait_for("running")
    own_stack.runtime.process.kill()
    raised = script.finish(40).ok().raised
    assert raised.kind == "RuntimeError"
    assert raised.message


def test_a_runtime_that_is_stopped_says_so_to_its_caller(own_user: Client, own_stack: Stack, tmp_path: Path) -> None:
    script = own_user.start(HANGING, f"attempt(hang, 300, {str(tmp_path / 'marker')!r})\n")
    script.wait_for("running")
    own_stack.runtime.process.terminate()
    raised = script.finish(15).ok().raised
    assert raised.kind == "RuntimeError"
    assert "stop" in raised.message.lower()
    for pid in pids(tmp_path / "marker"):
        assert processes.gone(pid, 5) is not None


def test_wire_f01_callers_of_a_gateway_that_is_restarted_get_an_error_and_nobody_elses_result(
    own_user: Client, own_stack: Stack, tmp_path: Path
) -> None:
    script = own_user.start(HANGING, f"attempt(hang, 300, {str(tmp_path / 'marker')!r})\n")
    script.wait_for("running")
    own_stack.gateway.process.kill()
    own_stack.gateway.process.wait()
    log = own_stack.gateway.log
    own_stack.gateway = processes.start_gateway(own_stack.call_port, own_stack.zmtp_port, own_stack.http_port, log)
    raised = script.finish(40).ok().raised
    assert raised.kind == "RuntimeError"
    assert raised.message
    assert own_user.run("attempt(remote_func(len), [1, 2])").ok().returned == "2"


def test_the_death_of_the_python_parent_is_repaired(own_user: Client, own_stack: Stack) -> None:
    """The parent is the runtime server's only child that has children or listens to it; user code cannot be in it."""
    server = own_stack.runtime.process.pid
    parent = eventually("a Python parent", 10, lambda: processes.children(server))[0]
    assert own_user.run("attempt(remote_func(len), [])").ok().returned == "0"
    processes.kill(parent)
    assert processes.gone(parent, 5) is not None
    eventually("another parent", 20, lambda: [pid for pid in processes.children(server) if pid != parent])
    assert own_user.run("attempt(remote_func(len), [1])").ok().returned == "1"
