"""Calls of the unmodified public client, in an environment that was made by `kubectl apply` of the example."""

import time

import pytest

from rexec_e2e.client import Client
from rexec_e2e.world import World, column


@pytest.fixture
def user(world: World, alice: str) -> Client:
    """Alice's client."""
    return world.client(alice)


def test_the_example_is_ready_and_get_reads_as_a_sentence(world: World, alice: str) -> None:
    table = world.cluster.kubectl("get", "rxe", alice)
    seen = {title: column(table, title) for title in ("NAME", "READY", "STATE", "ACTIVE", "PYTHON", "USER")}
    assert seen == {
        "NAME": "alice",
        "READY": "True",
        "STATE": "Serving",
        "ACTIVE": "True",
        "PYTHON": "3.11",
        "USER": "alice",
    }


def test_what_the_requirements_say_is_there(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def version():
            import numpy
            return numpy.__version__, float(numpy.arange(4).mean())
        attempt(version)
    """)
    assert answer.ok().returned == "('2.1.3', 1.5)"


def test_the_pages_good_bad_and_train_examples(user: Client) -> None:
    answer = user.run("""
        import math
        SCALE = 3
        @remote_func
        def bad(x):
            return math.sqrt(x) * SCALE
        @remote_func
        def good(x, scale=SCALE):
            import math
            return math.sqrt(x) * scale
        @remote_func
        def train(epochs):
            import time
            for epoch in range(epochs):
                time.sleep(0.5)
                print(f"epoch {epoch}: done")
            return epochs
        attempt(good, 16)
        attempt(lambda: good(x=16))
        attempt(bad, 16)
        attempt(train, 3)
    """)
    good, keyword, bad, train = answer.ok().shown
    assert good == {"returned": "12.0"}
    assert isinstance(keyword, dict)
    assert keyword["raised"] == "TypeError"
    assert isinstance(bad, dict)
    assert bad["raised"] == "RuntimeError"
    assert "NameError: name 'math' is not defined" in bad["message"]
    assert train == {"returned": "3"}
    assert answer.stdout == "epoch 0: done\nepoch 1: done\nepoch 2: done\n"


def test_output_arrives_while_the_call_runs(user: Client) -> None:
    script = user.start("""
        @remote_func
        def f():
            import time
            print("first")
            time.sleep(2)
            print("second")
        f()
    """)
    script.wait_for("first")
    start = time.monotonic()
    script.wait_for("second")
    assert time.monotonic() - start > 1
    script.finish().ok()


def test_standard_error_comes_out_on_the_clients_standard_error(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            import subprocess, sys
            print("out")
            print("err", file=sys.stderr, flush=True)
            subprocess.run([sys.executable, "-c", "import sys; print('child', file=sys.stderr)"], check=True)
        f()
    """)
    assert answer.ok().stdout == "out\n"
    assert answer.stderr == "err\nchild\n"


def test_an_exception_is_a_runtime_error_with_type_text_and_traceback(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            return {}["missing"]
        attempt(f)
    """)
    raised = answer.ok().raised
    assert raised.kind == "RuntimeError"
    assert "KeyError: 'missing'" in raised.message
    assert "Traceback" in raised.message


def test_files_persist_between_calls_and_sessions(user: Client) -> None:
    user.run("""
        @remote_func
        def write():
            import pathlib
            pathlib.Path("notes.txt").write_text("kept")
        write()
    """).ok()
    answer = user.run("""
        @remote_func
        def read():
            import pathlib
            return pathlib.Path("notes.txt").read_text(), str(pathlib.Path("notes.txt").absolute())
        attempt(read)
    """)
    assert answer.ok().returned == "('kept', '/home/rexec/notes.txt')"


def test_a_call_is_a_user_with_a_home_and_a_place_for_temporary_files(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def who():
            import getpass, os, tempfile
            with tempfile.NamedTemporaryFile() as file:
                file.write(b"x")
                return [getpass.getuser(), os.path.expanduser("~"), os.getcwd(), os.path.dirname(file.name)]
        show(who())
    """)
    assert answer.ok().one == ["rexec", "/home/rexec", "/home/rexec", "/tmp"]


def test_ctrl_c_ends_the_call_and_the_next_one_runs(user: Client) -> None:
    script = user.start("""
        @remote_func
        def hang():
            import time
            print("running")
            time.sleep(300)
        @remote_func
        def next_call():
            return "next"
        try:
            hang()
        except KeyboardInterrupt:
            start = time.monotonic()
            show([next_call(), time.monotonic() - start < 2])
    """)
    script.wait_for("running")
    script.interrupt()
    assert script.finish(20).ok().one == ["next", True]


def test_shared_memory_and_processes_work_in_the_pod(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            import multiprocessing, numpy
            from multiprocessing import shared_memory
            block = shared_memory.SharedMemory(create=True, size=100_000_000)
            array = numpy.ndarray((100_000_000,), dtype="uint8", buffer=block.buf)
            array[:] = 1
            total = int(array.sum(dtype="int64"))
            del array
            block.close()
            block.unlink()
            with multiprocessing.Pool(2) as pool:
                return total, pool.map(abs, [-1, -2])
        attempt(f)
    """)
    assert answer.ok().returned == "(100000000, [1, 2])"


def test_a_wrong_token_is_refused_in_a_sentence(world: World, alice: str) -> None:
    user = world.client(alice)
    answer = user.run("""
        remote_func.set_exec_token("nobody's")
        attempt(remote_func(len), [])
    """)
    raised = answer.ok().raised
    assert raised.kind == "RuntimeError"
    assert "token" in raised.message.lower()


def test_a_user_without_an_environment_gets_the_pages_literal(world: World) -> None:
    answer = world.client("nobody-in-particular").run("attempt(remote_func(len), [])", seconds=120)
    assert answer.ok().returned == "None"
    assert answer.stdout == "Server not ready/available for user nobody-in-particular.\n"
