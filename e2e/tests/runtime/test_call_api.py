"""The call API: admission, the stream, inspection, cancellation."""

import http.client
import json
import pickle
import socket
import subprocess
import time
from typing import Any

import pytest

from rexec_e2e import paths, processes
from rexec_e2e.call_api import MEDIA_TYPE, body, request
from rexec_e2e.steps import eventually

from .conftest import Runtime

SLEEP = "import time; print('running'); time.sleep(600)"
HUNDRED_MB = 100_000_000


def test_a_call_streams_its_states_its_output_its_result_and_one_ending(shared: Runtime) -> None:
    outcome = shared.run("print('hello')")
    assert json.loads(outcome.frames[0][1])["state"] == "running"
    assert outcome.stdout == b"hello\n"
    assert outcome.result is None


def test_keyword_arguments_travel_behind_the_positional_ones(shared: Runtime) -> None:
    call = shared.call(int)
    call.finish()
    content = body(int, "ff", base=16)
    connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=10)
    connection.request("POST", "/v1/calls", content, {"content-type": MEDIA_TYPE})
    answer = connection.getresponse().read()
    assert pickle.dumps(255, protocol=4) in answer


@pytest.mark.parametrize(("written", "member"), [("hello", {"text": "hello"}), ("\udcff", {"base64": "/w=="})])
def test_the_stream_comes_as_json_lines_when_asked_for(shared: Runtime, written: str, member: dict[str, str]) -> None:
    source = f"import sys; sys.stdout.write({written!r})"
    call = shared.start(source, {"accept": "application/x-ndjson"})
    events = [json.loads(line) for line in call.response.read().splitlines()]
    assert events[0] == {"event": "state", "id": call.id, "state": "running"}
    assert {"event": "stdout", **member} in events
    assert events[-1] == {"event": "ending", "state": "succeeded"}


@pytest.mark.parametrize(
    ("headers", "status", "code", "word"),
    [
        ({"content-type": "application/json"}, 415, "unsupported_media_type", MEDIA_TYPE),
        ({"rexec-python-version": "3.8.1"}, 409, "python_mismatch", "3.8"),
        ({"rexec-python-version": "new"}, 400, "invalid_request", "rexec-python-version"),
        ({"rexec-timeout-seconds": "-1"}, 400, "invalid_request", "rexec-timeout-seconds"),
        ({"rexec-call-id": "no spaces"}, 400, "invalid_request", "rexec-call-id"),
    ],
)
def test_a_refusal_comes_before_the_body_is_read(
    shared: Runtime, headers: dict[str, str], status: int, code: str, word: str
) -> None:
    head = {"content-type": MEDIA_TYPE, **headers, "content-length": str(HUNDRED_MB), "expect": "100-continue"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    with socket.create_connection(("127.0.0.1", shared.port), timeout=10) as connection:
        connection.sendall(f"POST /v1/calls HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n".encode())
        answer = connection.makefile("rb").read()
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert error["code"] == code
    assert word in error["message"]


def test_unknown_routes_and_methods_are_json_errors(shared: Runtime) -> None:
    assert request(shared.port, "GET", "/nothing")[1]["error"]["code"] == "not_found"
    status, answer = request(shared.port, "PUT", "/v1/calls")
    assert (status, answer["error"]["code"]) == (405, "method_not_allowed")
    assert request(shared.port, "DELETE", "/v1/calls/none")[0] == 404


def test_info_names_the_python_and_the_protocol(shared: Runtime) -> None:
    status, info = request(shared.port, "GET", "/v1/info")
    assert status == 200
    assert info["protocol"] == 1
    assert info["python"]["implementation"] == "cpython"
    assert len(info["installedHash"]) == 64


def test_calls_run_in_the_order_of_arrival_and_show_their_place(own: Runtime) -> None:
    first = own.start(SLEEP, {"rexec-call-id": "first"})
    first.until("O", b"running")
    second = own.start("print('second')", {"rexec-call-id": "second"})
    assert json.loads(second.until("S"))["position"] == 1
    third = own.start("print('third')", {"rexec-call-id": "third"})
    assert json.loads(third.until("S"))["position"] == 2
    listed = request(own.port, "GET", "/v1/calls")[1]["calls"]
    assert [(call["id"], call["state"]) for call in listed] == [
        ("first", "running"),
        ("second", "queued"),
        ("third", "queued"),
    ]
    assert request(own.port, "DELETE", "/v1/calls/second")[0] == 202
    assert second.finish().code == "cancelled"
    assert json.loads(third.until("S"))["position"] == 1
    assert request(own.port, "DELETE", "/v1/calls/first")[0] == 202
    assert first.finish().ending["state"] == "cancelled"
    assert third.finish().stdout == b"third\n"


def test_as_many_run_and_wait_as_are_allowed(two_at_once: Runtime) -> None:
    running = [two_at_once.start(SLEEP) for _ in range(2)]
    for call in running:
        call.until("O", b"running")
    waiting = two_at_once.start("pass", {"rexec-call-id": "waiting"})
    refusal = two_at_once.start("pass").refusal
    assert (refusal["status"], refusal["code"]) == (429, "queue_full")
    assert two_at_once.start("pass", {"rexec-call-id": "waiting"}).refusal["code"] == "call_id_in_use"
    request(two_at_once.port, "DELETE", f"/v1/calls/{running[0].id}")
    assert waiting.finish().result is None


def test_cancel_ends_all_that_the_call_started(shared: Runtime) -> None:
    call = shared.start(
        "import os, subprocess, time\n"
        "inside = subprocess.Popen(['sleep', '600'])\n"
        "outside = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "os.write(1, f'{inside.pid} {outside.pid}'.encode())\n"
        "time.sleep(600)"
    )
    pids = call.until("O").split()
    request(shared.port, "DELETE", f"/v1/calls/{call.id}")
    assert call.finish().code == "cancelled"
    for pid in map(int, pids):
        assert processes.gone(pid, 2) is not None


def test_a_call_that_ignores_sigterm_is_killed_after_half_a_second(shared: Runtime) -> None:
    call = shared.start(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('running'); time.sleep(600)"
    )
    call.until("O", b"running")
    start = time.monotonic()
    request(shared.port, "DELETE", f"/v1/calls/{call.id}")
    assert call.finish().code == "cancelled"
    assert time.monotonic() - start < 2


def test_a_caller_that_vanishes_cancels_its_call(shared: Runtime) -> None:
    call = shared.start("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    pid = int(call.until("O"))
    call.vanish()
    assert processes.gone(pid, 5) is not None
    assert shared.run("print('next')").stdout == b"next\n"


def test_a_deadline_ends_the_call(shared: Runtime) -> None:
    outcome = shared.run("import time; time.sleep(600)", {"rexec-timeout-seconds": "0.3"})
    assert outcome.ending["state"] == "timed_out"
    assert "0.3 s" in outcome.message


def test_a_body_that_breaks_off_is_an_error_and_runs_nothing(shared: Runtime) -> None:
    with socket.create_connection(("127.0.0.1", shared.port), timeout=10) as connection:
        head = (
            f"POST /v1/calls HTTP/1.1\r\nhost: localhost\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: 999\r\n\r\n"
        )
        connection.sendall(head.encode() + body(print, "never")[:20])
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").read()
    assert b"never" not in answer
    assert shared.run("print('next')").stdout == b"next\n"


def test_a_body_that_is_no_call_is_an_error(shared: Runtime) -> None:
    for content in (b"", b"garbage", pickle.dumps(5) + pickle.dumps(()), pickle.dumps(len)):
        connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=10)
        connection.request("POST", "/v1/calls", content, {"content-type": MEDIA_TYPE})
        answer = connection.getresponse().read()
        assert b'"state":"failed"' in answer, content


def test_a_hundred_megabytes_pass_both_ways_without_staying_in_the_server(shared: Runtime) -> None:
    def resident() -> int:
        with open(f"/proc/{shared.server.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

    shared.call(len, b"").finish()
    before = resident()
    value = b"x" * HUNDRED_MB
    assert shared.call(bytes, value).finish().result == value
    assert resident() - before < 16 * 1024


def test_a_value_that_cannot_be_finished_is_voided(shared: Runtime) -> None:
    outcome = shared.call(eval, "[bytes(5_000_000), (i for i in ())]").finish()
    assert outcome.code == "result_not_serializable"
    assert outcome.frames[-2][0] == "D", "the parts that were sent are void"


def test_what_was_written_before_a_crash_arrives_before_the_error(shared: Runtime) -> None:
    outcome = shared.run("import os\nfor n in range(20000): print(n)\nos._exit(3)")
    assert outcome.stdout == b"".join(b"%d\n" % n for n in range(20000))
    assert outcome.message == "Execution process exited unexpectedly with code 3."


def test_a_reader_that_stops_stops_the_writer_and_loses_nothing(own: Runtime) -> None:
    lines = [b"%01023d\n" % n for n in range(40_000)]
    call = own.start("import os\nprint(os.getpid())\nfor n in range(40_000): os.write(1, b'%01023d\\n' % n)\n")
    pid, _, first = call.until("O").partition(b"\n")

    def blocked() -> bool:
        with open(f"/proc/{int(pid)}/wchan") as wchan:
            return "pipe" in wchan.read()

    eventually("the writer waits for its reader", 20, blocked)
    assert first + call.finish().stdout.removeprefix(b"\n") == b"".join(lines)


def test_the_death_of_the_parent_ends_the_call_and_is_repaired(own: Runtime) -> None:
    call = own.start(SLEEP)
    call.until("O", b"running")
    processes.kill(own.python_parent)
    assert call.finish().code == "parent_lost"
    assert own.run("print('again')").stdout == b"again\n"
    eventually("it says that it is ready", 10, lambda: processes.http_status(own.control_port, "/readyz") == 200)


def test_the_death_of_a_spare_harms_nobody(own: Runtime) -> None:
    for _ in range(3):
        spare = eventually("a spare", 10, lambda: processes.children(own.python_parent))[-1]
        processes.kill(spare)
        assert processes.gone(spare, 5) is not None
    assert own.run("print('fine')").stdout == b"fine\n"


def test_sigterm_ends_running_and_waiting_calls_with_a_reason(own: Runtime) -> None:
    running = own.start(SLEEP)
    running.until("O", b"running")
    waiting = own.start("pass")
    waiting.until("S", b"queued")
    own.server.process.terminate()
    codes: list[Any] = [running.finish().code, waiting.finish().code]
    assert codes == ["stopped", "draining"]
    assert own.server.process.wait(10) == 0


def test_local_mode_listens_on_loopback_only() -> None:
    command = [str(paths.binaries() / "rexec-runtime-server"), "serve", "--insecure-local", "--listen", "0.0.0.0:0"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "loopback" in refused.stderr
