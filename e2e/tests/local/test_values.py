"""What travels to a call and back: the public client's behaviour matrix, with the outcome that a user expects."""

import pytest

from rexec_e2e.client import Client
from rexec_e2e.processes import Stack

# Every test here leaves the pair of servers as it was, and says so by a call at its end where it might not have.
STILL_WORKS = """
    @remote_func
    def still(x):
        return x + 1
    assert still(1) == 2
"""


def test_the_pages_good_example_returns(user: Client) -> None:
    answer = user.run("""
        SCALE = 3
        @remote_func
        def good(x, scale=SCALE):
            import math
            return math.sqrt(x) * scale
        attempt(good, 16)
    """)
    assert answer.ok().returned == "12.0"


def test_the_pages_bad_example_raises_a_name_error(user: Client) -> None:
    answer = user.run("""
        import math
        SCALE = 3
        @remote_func
        def bad(x):
            return math.sqrt(x) * SCALE
        attempt(bad, 16)
    """)
    raised = answer.ok().raised
    assert raised.kind == "RuntimeError"
    assert "NameError: name 'math' is not defined" in raised.message


def test_a_keyword_argument_is_the_clients_own_type_error(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def good(x):
            return x
        attempt(good, x=16)
    """)
    assert answer.ok().raised.kind == "TypeError"


@pytest.mark.parametrize(
    "name", ["os", "sys", "logging", "argparse", "args", "parser", "server", "boot", "parent", "dill"]
)
def test_wire_f20_no_name_of_the_server_is_visible_to_a_call(user: Client, name: str) -> None:
    answer = user.run(f"""
        @remote_func
        def peek():
            return {name}
        attempt(peek)
    """)
    assert f"NameError: name '{name}' is not defined" in answer.ok().raised.message


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("def outer(n):\n    def inner(x):\n        return x + n\n    return inner\nf = remote_func(outer(10))", "15"),
        ("f = remote_func(lambda x: x * 3)", "15"),
        ("def helper(x):\n    return x + 1\n@remote_func\ndef f(x, helper=helper):\n    return helper(x)", "6"),
        ("import functools\nf = remote_func(functools.partial(pow, 2))", "32"),
        ("f = remote_func(hex)", "'0x5'"),
        ("import math\nf = remote_func(math.factorial)", "120"),
    ],
    ids=["closure", "lambda", "helper as default", "partial", "builtin", "module function"],
)
def test_every_kind_of_callable_travels(user: Client, definition: str, expected: str) -> None:
    answer = user.run(definition + "\nattempt(f, 5)\n")
    assert answer.ok().returned == expected


def test_an_instance_of_a_class_of_the_script_travels_both_ways(user: Client) -> None:
    answer = user.run("""
        class Point:
            def __init__(self, x):
                self.x = x
        @remote_func
        def move(point):
            point.x += 1
            return point
        show(move(Point(4)).x)
    """)
    assert answer.ok().one == 5


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("raise KeyError('x')", "KeyError: 'x'"),
        ("raise MemoryError", "MemoryError"),
        ("raise ValueError('two\\nlines')", "two\nlines"),
        ("{}['missing']", "KeyError: 'missing'"),
        ("class Own(Exception): pass\n    raise Own('mine')", "Own: mine"),
    ],
)
def test_wire_f14_an_exception_tells_its_type_its_text_and_where(user: Client, body: str, expected: str) -> None:
    answer = user.run(f"@remote_func\ndef fail():\n    {body}\nattempt(fail)\n")
    raised = answer.ok().raised
    assert raised.kind == "RuntimeError"
    assert expected in raised.message
    assert "Traceback (most recent call last)" in raised.message
    assert "in fail" in raised.message


def test_wire_f14_the_cause_of_an_exception_is_told_too(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def fail():
            try:
                1 / 0
            except ZeroDivisionError as error:
                raise ValueError("no average") from error
        attempt(fail)
    """)
    message = answer.ok().raised.message
    assert "ValueError: no average" in message
    assert "ZeroDivisionError: division by zero" in message


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("import sys; sys.exit(3)", "3"),
        ("import sys; sys.exit()", "sys.exit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import os; os._exit(0)", "0"),
        ("import os; os._exit(3)", "Execution process exited unexpectedly with code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "-9"),
        ("import ctypes; ctypes.string_at(0)", "-11"),
    ],
)
def test_wire_f12_a_call_that_ends_without_a_value_is_an_error(user: Client, body: str, expected: str) -> None:
    answer = user.run(f"@remote_func\ndef f():\n    {body}\nattempt(f)\n", STILL_WORKS)
    raised = answer.ok().raised
    assert raised.kind == "RuntimeError"
    assert expected in raised.message


@pytest.mark.parametrize("ending", ["os._exit(3)", "os.kill(os.getpid(), 9)", "ctypes.string_at(0)"])
def test_wire_f11_all_that_was_printed_before_a_crash_arrives(user: Client, ending: str) -> None:
    answer = user.run(f"""
        @remote_func
        def f():
            import ctypes, os
            for number in range(2000):
                print("line", number)
            {ending}
        attempt(f)
    """)
    assert answer.ok().stdout == "".join(f"line {number}\n" for number in range(2000))
    assert answer.raised.kind == "RuntimeError"


def test_wire_f12_a_value_that_cannot_be_pickled_is_an_error_that_names_its_type(user: Client) -> None:
    answer = user.run(
        """
        @remote_func
        def f():
            import socket
            return {"connection": [socket.socket()]}
        attempt(f)
    """,
        STILL_WORKS,
    )
    raised = answer.ok().raised
    assert raised.kind == "RuntimeError"
    assert "socket" in raised.message


@pytest.mark.parametrize(
    ("body", "use", "expected"),
    [
        ("return lambda x: x + 1", "f()(1)", 2),
        ("class Local:\n        x = 7\n    return Local()", "f().x", 7),
    ],
    ids=["lambda", "instance of a local class"],
)
def test_wire_f12_what_only_dill_can_pickle_comes_back(user: Client, body: str, use: str, expected: object) -> None:
    answer = user.run(f"@remote_func\ndef f():\n    {body}\nshow({use})\n")
    assert answer.ok().one == expected


def test_wire_f12_a_generators_items_come_back_as_a_list(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def numbers(n):
            for number in range(n):
                yield number * number
        attempt(numbers, 4)
        @remote_func
        def none():
            return
            yield
        attempt(none)
    """)
    assert answer.ok().shown == [{"returned": "[0, 1, 4, 9]"}, {"returned": "[]"}]


def test_a_generator_that_raises_in_the_middle_is_an_error(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def numbers():
            yield 1
            raise ValueError("enough")
        attempt(numbers)
    """)
    assert "ValueError: enough" in answer.ok().raised.message


def test_wire_f12_a_coroutine_is_awaited(user: Client) -> None:
    answer = user.run("""
        @remote_func
        async def later(x):
            import asyncio
            await asyncio.sleep(0)
            return x + 1
        attempt(later, 1)
    """)
    assert answer.ok().returned == "2"


def test_none_comes_back_as_none_without_an_error(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def nothing():
            pass
        attempt(nothing)
    """)
    assert answer.ok().returned == "None"


@pytest.mark.parametrize(
    "value", ["socket.create_server(('127.0.0.1', 0))", "urllib.error.HTTPError('u', 404, 'm', {}, None)"]
)
def test_wire_f09_no_return_value_takes_the_server_down(user: Client, value: str) -> None:
    answer = user.run(
        f"""
        @remote_func
        def f():
            import socket, urllib.error
            return {value}
        try:
            f()
        except Exception as error:
            print("raised", type(error).__name__)
    """,
        STILL_WORKS,
    )
    answer.ok()


@pytest.mark.parametrize("action", ["os._exit(1)", "sys.exit(1)", "os.kill(os.getpid(), 9)", "raise ValueError('no')"])
def test_wire_f10_no_argument_takes_the_server_down(user: Client, action: str) -> None:
    answer = user.run(
        f"""
        def explode():
            import os, sys
            {action}
        class Bomb:
            def __reduce__(self):
                return (explode, ())
        @remote_func
        def f(x):
            return x
        attempt(f, Bomb())
    """,
        STILL_WORKS,
    )
    assert answer.ok().raised.kind == "RuntimeError"


def test_wire_f10_unpickling_leaves_nothing_behind_for_the_next_call(user: Client) -> None:
    answer = user.run("""
        def leave():
            import builtins
            builtins.LEAK = getattr(builtins, "LEAK", 0) + 1
            return builtins.LEAK
        class Trace:
            def __reduce__(self):
                return (leave, ())
        @remote_func
        def f(x):
            return x
        for _ in range(3):
            show(f(Trace()))
    """)
    assert answer.ok().shown == [1, 1, 1]


def test_an_argument_whose_module_is_missing_names_the_module(user: Client) -> None:
    answer = user.run("""
        import types
        module = types.ModuleType("nowhere_to_be_found")
        sys.modules["nowhere_to_be_found"] = module
        exec("class Thing: pass", module.__dict__)
        module.Thing.__module__ = "nowhere_to_be_found"
        @remote_func
        def f(x):
            return x
        attempt(f, module.Thing())
    """)
    raised = answer.ok().raised
    assert raised.kind == "RuntimeError"
    assert "nowhere_to_be_found" in raised.message


def test_a_function_of_a_missing_module_names_the_module(user: Client) -> None:
    answer = user.run("""
        import types
        module = types.ModuleType("nowhere_to_be_found")
        sys.modules["nowhere_to_be_found"] = module
        exec("def thing(x): return x", module.__dict__)
        attempt(remote_func(module.thing), 1)
    """)
    raised = answer.ok().raised
    assert raised.kind == "RuntimeError"
    assert "nowhere_to_be_found" in raised.message


def test_a_result_whose_module_the_caller_lacks_is_the_callers_own_error(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            import importlib, pathlib, sys
            pathlib.Path("only_on_the_server.py").write_text("class Thing: pass")
            sys.path.insert(0, "")
            importlib.invalidate_caches()
            return importlib.import_module("only_on_the_server").Thing()
        attempt(f)
    """)
    assert answer.ok().raised.kind == "ModuleNotFoundError"
    assert "only_on_the_server" in answer.raised.message


def test_a_generator_as_an_argument_is_the_clients_own_type_error(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f(x):
            return x
        attempt(f, (number for number in range(3)))
    """)
    assert answer.ok().raised.kind == "TypeError"


def test_arrays_pass_both_ways_between_numpy_1_and_2(user: Client) -> None:
    answer = user.run("""
        import numpy
        @remote_func
        def double(array):
            import numpy
            return array * 2, numpy.__version__
        array, version = double(numpy.arange(6).reshape(2, 3))
        show([array.tolist(), version.split(".")[0], numpy.__version__.split(".")[0]])
    """)
    assert answer.ok().one == [[[0, 2, 4], [6, 8, 10]], "2", "1"]


def test_wire_f18_100_mb_pass_both_ways_unharmed(user: Client) -> None:
    answer = user.run("""
        import hashlib
        data = os.urandom(1 << 20) * 100
        @remote_func
        def echo(data):
            return data
        show(hashlib.sha256(echo(data)).hexdigest() == hashlib.sha256(data).hexdigest())
    """)
    assert answer.ok().one is True


def test_wire_f19_a_dataspaces_object_names_what_is_missing(user: Client) -> None:
    answer = user.run("""
        from rexec.remote_obj import DSDataObj
        @remote_func
        def f(x):
            return x
        attempt(f, DSDataObj("temperature", 1, (0,), (3,)))
    """)
    raised = answer.ok().raised
    assert raised.kind == "RuntimeError"
    assert "dxspaces" in raised.message


def test_recursion_by_name_is_a_name_error_as_the_page_says(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def count(n):
            return 0 if n == 0 else 1 + count(n - 1)
        attempt(count, 3)
    """)
    assert "NameError: name 'count' is not defined" in answer.ok().raised.message


def test_without_a_token_the_client_says_so_itself(user: Client) -> None:
    answer = user.run("""
        remote_func.set_exec_token("")
        attempt(remote_func(len), [])
    """)
    assert "Execution token not set" in answer.ok().raised.message


def test_in_memory_state_ends_with_the_call_and_files_stay(user: Client, shared_stack: Stack) -> None:
    answer = user.run("""
        @remote_func
        def first():
            import builtins, os, pathlib, tempfile
            builtins.STATE = 1
            os.environ["STATE"] = "1"
            pathlib.Path("kept").write_text("in the working directory")
            (pathlib.Path.home() / "kept2").write_text("at home")
            (pathlib.Path(tempfile.gettempdir()) / "kept3").write_text("among temporary files")
        @remote_func
        def second():
            import builtins, os, pathlib, tempfile
            kept = [pathlib.Path("kept"), pathlib.Path.home() / "kept2", pathlib.Path(tempfile.gettempdir()) / "kept3"]
            return [path.read_text() for path in kept], hasattr(builtins, "STATE"), "STATE" in os.environ
        first()
        show(second())
    """)
    assert answer.ok().one == [
        ["in the working directory", "at home", "among temporary files"],
        False,
        False,
    ]
    assert (shared_stack.home / "kept2").is_file()
