"""The control API: probes, metrics, activity, drain, what is installed; and how the server stops."""

import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rexec_e2e import paths, processes, venvs
from rexec_e2e.call_api import request
from rexec_e2e.processes import http_status
from rexec_e2e.steps import eventually

from .conftest import Runtime, runtime

POD = "pod-1"
WAIT = "import time; print('running', flush=True); time.sleep(60)"
UNTIL = "import os, time; print('running', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)"


@pytest.fixture
def pod() -> Iterator[Runtime]:
    """One that knows the UID of its pod, and leaves running calls a minute when it is stopped."""
    yield from runtime("--pod-uid", POD, "--drain-timeout", "60")


def drain(server: Runtime, call_seconds: int = 60, ttl_seconds: int = 30, **more: object) -> tuple[int, Any]:
    """What the server answers to a request to drain."""
    content = {"podUID": POD, "callSeconds": call_seconds, "ttlSeconds": ttl_seconds, "reason": "the test wants it"}
    return request(server.control_port, "POST", "/drain", {**content, **more})


def activity(server: Runtime) -> dict[str, Any]:
    """What the idle clock gets."""
    status, answer = request(server.control_port, "GET", "/activity")
    assert status == 200
    found: dict[str, Any] = answer
    return found


def metrics(server: Runtime) -> str:
    """The metrics as text."""
    connection = http.client.HTTPConnection("127.0.0.1", server.control_port, timeout=5)
    connection.request("GET", "/metrics")
    return connection.getresponse().read().decode()


def test_a_drain_sends_waiting_and_new_calls_back_and_lets_the_running_one_end(pod: Runtime) -> None:
    running = pod.start(UNTIL)
    running.until("O", b"running")
    waiting = pod.start("pass")
    waiting.until("S", b"queued")
    assert drain(pod) == (200, {"running": 1})
    assert waiting.finish().code == "draining"
    assert pod.start("pass").refusal["code"] == "draining"
    assert activity(pod)["draining"] is True
    _let_go(pod)
    assert running.finish().result is None


def _home(server: Runtime) -> Path:
    """The working directory of calls."""
    return Path(os.readlink(f"/proc/{server.python_parent}/cwd"))


def _let_go(server: Runtime) -> None:
    (_home(server) / "go").touch()


def test_no_time_ends_the_running_call_at_once_and_tells_why(pod: Runtime) -> None:
    running = pod.start(WAIT)
    running.until("O", b"running")
    assert drain(pod, call_seconds=0)[0] == 200
    outcome = running.finish()
    assert (outcome.ending["state"], outcome.code) == ("cancelled", "stopped")
    assert "the test wants it" in outcome.message


def test_time_that_is_over_ends_the_running_call_as_timed_out(pod: Runtime) -> None:
    running = pod.start(WAIT)
    running.until("O", b"running")
    assert drain(pod, call_seconds=1)[0] == 200
    outcome = running.finish()
    assert (outcome.ending["state"], outcome.code) == ("timed_out", "stopped")


def test_a_drain_that_is_not_renewed_is_forgotten(pod: Runtime) -> None:
    assert drain(pod, ttl_seconds=1)[0] == 200
    assert pod.start("pass").refusal["code"] == "draining"
    eventually("calls are taken again", 10, lambda: activity(pod)["draining"] is False)
    assert pod.run("print('fine')").stdout == b"fine\n"


def test_only_a_server_that_is_still_idle_is_drained_for_being_idle(pod: Runtime) -> None:
    before = activity(pod)["idleSince"]
    pod.run("pass")
    status, refusal = drain(pod, ifIdleSince=before)
    assert (status, refusal["error"]["code"]) == (409, "not_idle")
    eventually("its process is gone", 5, lambda: activity(pod)["running"] == 0)
    assert drain(pod, ifIdleSince=activity(pod)["idleSince"]) == (200, {"running": 0})


def test_a_drain_meant_for_another_pod_is_refused(pod: Runtime) -> None:
    status, refusal = drain(pod, podUID="pod-2")
    assert (status, refusal["error"]["code"]) == (409, "pod_mismatch")
    assert pod.run("print('fine')").stdout == b"fine\n"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", {}, {"podUID": POD}, {"podUID": POD, "callSeconds": -1, "ttlSeconds": 1}],
    ids=repr,
)
def test_a_bad_request_to_drain_is_refused_in_a_sentence(shared: Runtime, content: object) -> None:
    status, refusal = request(shared.control_port, "POST", "/drain", content)
    assert (status, refusal["error"]["code"]) == (400, "invalid_request")
    assert "drain" in refusal["error"]["message"]


def test_a_request_to_drain_of_any_size_is_refused(shared: Runtime) -> None:
    status, refusal = request(shared.control_port, "POST", "/drain", b" " * (3 << 20))
    assert (status, refusal["error"]["code"]) == (400, "invalid_request")


def test_sigterm_leaves_the_running_call_its_time(pod: Runtime) -> None:
    running = pod.start(UNTIL)
    running.until("O", b"running")
    waiting = pod.start("pass")
    waiting.until("S", b"queued")
    pod.server.process.terminate()
    assert waiting.finish().code == "draining"
    _let_go(pod)
    assert running.finish().result is None
    assert pod.server.process.wait(10) == 0


def test_ctrl_c_does_not_wait_for_the_running_call(pod: Runtime) -> None:
    running = pod.start(WAIT)
    running.until("O", b"running")
    pod.server.process.terminate()
    pod.server.process.send_signal(signal.SIGINT)
    assert running.finish().code == "stopped"
    assert pod.server.process.wait(10) == 0


def test_readiness_is_the_parents_word_and_not_the_ports(own: Runtime) -> None:
    assert http_status(own.control_port, "/readyz") == 200
    parent = own.python_parent
    os.kill(parent, signal.SIGSTOP)
    assert http_status(own.control_port, "/readyz") == 503
    assert http_status(own.control_port, "/healthz") == 200
    os.kill(parent, signal.SIGCONT)
    eventually("it is ready again", 10, lambda: http_status(own.control_port, "/readyz") == 200)


def test_metrics_count_calls_and_tell_nothing_of_them(own: Runtime) -> None:
    own.run("print('a secret')")
    own.run("raise ValueError('a secret')", {"rexec-call-id": "secret-id"})
    eventually("both are counted", 5, lambda: 'code="exception"} 1' in metrics(own))
    text = metrics(own)
    assert 'rexec_runtime_calls_total{state="succeeded",code=""} 1' in text
    assert "secret" not in text


def test_the_log_has_one_line_a_call_with_its_sizes_and_nothing_of_the_user(own: Runtime) -> None:
    own.run("print('a secret')", {"rexec-call-id": "logged-call"})

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in own.server.log.read_text().splitlines() if "logged-call" in line]

    [line] = eventually("a line", 5, lines)
    fields = line["fields"]
    assert (fields["state"], fields["output_bytes"]) == ("succeeded", len("a secret\n"))
    assert fields["body_bytes"] > 0
    assert fields["value_bytes"] > 0
    assert "secret" not in own.server.log.read_text()


def test_what_is_installed_is_told_with_the_hash_that_info_tells(shared: Runtime) -> None:
    status, installed = request(shared.control_port, "GET", "/installed")
    assert status == 200
    assert any(line.startswith("numpy==") for line in installed["lines"])
    _, info = request(shared.control_port, "GET", "/info")
    assert info["installedHash"] == installed["hash"]
    assert info["protocol"] == 1


def test_a_call_that_has_ended_is_shown_with_how_it_ended(own: Runtime) -> None:
    own.run("raise ValueError('why')", {"rexec-call-id": "shown"})

    def ended() -> Any:
        shown = request(own.port, "GET", "/v1/calls/shown")[1]
        return shown if shown["state"] != "running" else None

    shown = eventually("its end", 5, ended)
    assert (shown["state"], shown["error"]) == ("failed", "exception")
    assert request(own.port, "GET", "/v1/calls") == (200, {"calls": []})
    assert request(own.port, "DELETE", "/v1/calls/shown")[0] == 404


def test_a_call_can_outlive_its_callers_connection(own: Runtime) -> None:
    call = own.start(UNTIL + "\nopen('done', 'w').close()", {"rexec-on-disconnect": "continue"})
    call.until("O", b"running")
    home = _home(own)
    call.vanish()
    own_id = call.id
    assert request(own.port, "GET", f"/v1/calls/{own_id}")[1]["state"] == "running"
    (home / "go").touch()
    eventually("it has done its work", 10, (home / "done").exists)
    eventually(
        "it has succeeded", 10, lambda: request(own.port, "GET", f"/v1/calls/{own_id}")[1]["state"] == "succeeded"
    )


def test_the_default_deadline_is_for_calls_that_name_none() -> None:
    for server in runtime("--default-timeout", "0.2"):
        assert server.run(WAIT).code == "deadline_exceeded"
        assert server.run("import time; time.sleep(0.4)", {"rexec-timeout-seconds": "30"}).result is None


def test_variables_reach_python_and_the_servers_own_do_not() -> None:
    script = "import os; print(os.environ['COLOUR'], [name for name in os.environ if name.startswith('REXEC_')])"
    for server in runtime("--python-env", json.dumps({"COLOUR": "sea green"})):
        assert server.run(script).stdout == b"sea green []\n"
        assert b"COLOUR" not in Path(f"/proc/{server.server.process.pid}/environ").read_bytes()


def test_a_module_that_cannot_be_preloaded_ends_the_server_with_a_sentence() -> None:
    command = [paths.binaries() / "rexec-runtime-server", "serve", "--insecure-local", "--preload", "json,no_such"]
    command += ["--python", venvs.venv("server") / "bin" / "python", "--library", processes.library()]
    ports = ["--listen", f"127.0.0.1:{processes.free_port()}", "--control-listen", f"127.0.0.1:{processes.free_port()}"]
    words = [str(word) for word in (*command, *ports)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert "no_such" in done.stderr
    assert "requirements" in done.stderr


@pytest.mark.parametrize("option", [("--python-env", "A=1"), ("--default-timeout", "soon"), ("--drain-timeout", "-1")])
def test_an_option_that_makes_no_sense_is_refused_in_a_sentence(option: tuple[str, str]) -> None:
    command = [str(paths.binaries() / "rexec-runtime-server"), "serve", "--insecure-local", "=".join(option)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert option[0] in done.stderr
