"""Endings that user code makes hard: each call still has the one that is its own."""

from rexec_e2e import processes
from rexec_e2e.call_api import Call

from .conftest import Runtime

FORKS = """
import os, sys
pid = os.fork()
{child}
os.waitpid(pid, 0)
print("parent goes on")
"""


def test_a_process_that_the_function_forked_does_not_answer_for_the_call(shared: Runtime) -> None:
    for child in ("if pid == 0: sys.exit(0)", "if pid == 0: raise ValueError('child')"):
        outcome = shared.run(FORKS.format(child=child))
        assert outcome.ending == {"state": "succeeded"}
        assert outcome.stdout == b"parent goes on\n"


def test_a_copy_that_comes_back_from_the_function_has_no_say(shared: Runtime) -> None:
    for _ in range(10):
        outcome = shared.call(eval, "(__import__('os').fork() != 0) or 'child'").finish()
        assert outcome.result is True


def test_a_copy_forked_while_a_thread_prints_can_print(shared: Runtime) -> None:
    outcome = shared.run(
        "import os, sys, threading\n"
        "def chatter():\n"
        "    while True: sys.stdout.write('.'); sys.stderr.write('.')\n"
        "threading.Thread(target=chatter, daemon=True).start()\n"
        "for _ in range(20):\n"
        "    pid = os.fork()\n"
        "    if pid == 0: print('c'); os._exit(0)\n"
        "    os.waitpid(pid, 0)\n",
        {"rexec-timeout-seconds": "30"},
    )
    assert outcome.ending == {"state": "succeeded"}


def test_texts_that_json_cannot_carry_keep_their_error(shared: Runtime) -> None:
    for text in ("bad \\ud800 text", "\\x00" * 10, "é" * 3):
        outcome = shared.run(f"raise ValueError('{text}')")
        assert (outcome.code, outcome.ending["error"]["type"]) == ("exception", "ValueError")
    assert shared.run("import sys; sys.exit('\\ud800')").code == "exit"


def test_a_text_of_any_length_keeps_its_error(shared: Runtime) -> None:
    for letter in ("é", "\\x00", "😀"):
        outcome = shared.run(f"raise ValueError('{letter}' * 5_000_000)")
        assert outcome.ending["error"]["type"] == "ValueError"
        assert "characters left out" in outcome.message


def test_exceptions_whose_own_methods_fail_are_still_told(shared: Runtime) -> None:
    for method in ("__reduce__(self): raise SystemExit(3)", "__str__(self): raise KeyboardInterrupt"):
        outcome = shared.run(f"class Odd(Exception):\n  def {method}\nraise Odd('x')")
        assert (outcome.code, outcome.ending["error"]["type"]) == ("exception", "Odd")
    shy = "class Shy:\n  def __repr__(self): raise ValueError\nraise SystemExit(Shy())"
    assert shared.run(shy).code == "exit"


def test_all_output_comes_before_an_ending_that_has_no_value(shared: Runtime) -> None:
    for _ in range(20):  # the pipe and the socket are read in either order
        for last in ("sys.exit(3)", "raise type('Local', (Exception,), {'__reduce__': None})"):
            outcome = shared.run(f"import os, sys\nos.write(1, b'x' * 50_000)\n{last}")
            assert outcome.ending["state"] == "failed"
            assert len(outcome.stdout) == 50_000


def test_an_empty_body_is_no_call(shared: Runtime) -> None:
    assert Call(shared.port, b"").finish().code == "invalid_body"


def test_a_call_does_not_outlive_its_server(own: Runtime) -> None:
    call = own.start("import os, time; os.write(1, str(os.getpid()).encode()); time.sleep(600)")
    pid = int(call.until("O"))
    processes.kill(own.server.process.pid)
    assert processes.gone(pid, 5) is not None


def test_a_parent_that_was_stopped_is_replaced(own: Runtime) -> None:
    parent = own.python_parent
    own.run("import os, signal; os.kill(os.getppid(), signal.SIGSTOP)", {"rexec-timeout-seconds": "5"})
    for _ in range(3):  # the first has the spare that was there, the next ones need a parent
        assert own.run("print('again')").stdout == b"again\n"
    assert not processes.is_alive(parent)
