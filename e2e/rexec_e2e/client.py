"""Scripts run by the unmodified public clients, as a user's script or notebook would, and what came of them."""

import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

from .errors import E2eError

# What every script starts with. `show` hands a value to the test; `attempt` calls and hands over what was raised.
PRELUDE = """\
import json, os, signal, sys, time
from rexec.client_api import remote_func

remote_func.set_remote_addr(os.environ["GATEWAY_HOST"])
remote_func.set_remote_port(os.environ["GATEWAY_PORT"])
remote_func.set_exec_token(os.environ["TOKEN"])
signal.signal(signal.SIGINT, signal.default_int_handler)

def show(value):
    with open(os.environ["SHOW"], "a") as file:
        file.write(json.dumps(value) + "\\n")

def attempt(function, *arguments, **keywords):
    try:
        show({"returned": repr(function(*arguments, **keywords))})
    except BaseException as error:
        show({"raised": type(error).__name__, "message": str(error)})

"""


@dataclass(frozen=True)
class Raised:
    """What an `attempt` raised."""

    kind: str
    message: str


@dataclass(frozen=True)
class Answer:
    """What a script left behind."""

    returncode: int
    stdout: str
    stderr: str
    shown: list[object] = field(default_factory=list)

    @property
    def one(self) -> object:
        """The one value that the script showed."""
        if len(self.shown) != 1:
            raise AssertionError(f"the script showed {len(self.shown)} values, not one:\n{self}")
        return self.shown[0]

    @property
    def returned(self) -> str:
        """`repr` of what the one attempt returned."""
        value = self.one
        if not isinstance(value, dict) or "returned" not in value:
            raise AssertionError(f"the call did not return:\n{self}")
        return str(value["returned"])

    @property
    def raised(self) -> Raised:
        """What the one attempt raised."""
        value = self.one
        if not isinstance(value, dict) or "raised" not in value:
            raise AssertionError(f"the call did not raise:\n{self}")
        return Raised(str(value["raised"]), str(value["message"]))

    def ok(self) -> "Answer":
        """This answer, if the script ended well."""
        if self.returncode != 0:
            raise AssertionError(f"the script failed:\n{self}")
        return self

    def __str__(self) -> str:
        parts = [f"exit status {self.returncode}"]
        for name, text in (("stdout", self.stdout), ("stderr", self.stderr)):
            parts.append(f"--- {name}\n{_shorten(text)}")
        parts.append("--- shown\n" + "\n".join(_shorten(json.dumps(value)) for value in self.shown))
        return "\n".join(parts)


def _shorten(text: str, limit: int = 6000) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]}\n[…]\n{text[-limit // 2 :]}"


class Running:
    """A script that runs: its output can be waited for, and it can be interrupted."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], scratch: Path) -> None:
        self._scratch = scratch
        self._show = scratch / "show"
        self._show.touch()
        self._ended: Answer | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._output: dict[str, list[str]] = {"stdout": [], "stderr": []}
        # A new session: an interrupt meant for the script must not reach the test, nor the other way round.
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="surrogateescape",
            cwd=scratch,
            env={**environment, "SHOW": str(self._show), "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        self._readers = [threading.Thread(target=self._read, args=(name,), daemon=True) for name in self._output]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str) -> None:
        stream = getattr(self._process, name)
        for line in stream:
            self._output[name].append(line)
            if name == "stdout":
                self._lines.put(line)
        if name == "stdout":
            self._lines.put(None)

    @property
    def pid(self) -> int:
        """Its process, which is the Python interpreter itself."""
        return self._process.pid

    def wait_for(self, wanted: Callable[[str], bool] | str, seconds: float = 60) -> str:
        """The first line of standard output, from here on, that contains `wanted` or that it accepts."""
        accepts = wanted if callable(wanted) else lambda line: wanted in line
        deadline = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                self.kill()
                raise AssertionError(f"no such line within {seconds} s: {wanted!r}\n{self.finish(5)}") from None
            if line is None:
                raise AssertionError(f"the script ended before it printed {wanted!r}\n{self.finish(5)}")
            if accepts(line):
                return line

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def signal(self, number: int) -> None:
        """Any signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, as a kernel restart does."""
        self._process.kill()

    def finish(self, seconds: float = 60) -> Answer:
        """Wait for its end."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
            raise AssertionError(f"the script was still running after {seconds} s\n{self._answer()}") from None
        return self._answer()

    def _answer(self) -> Answer:
        if self._ended is None:
            for reader in self._readers:
                reader.join(10)
            shown = [json.loads(line) for line in self._show.read_text().splitlines()]
            output = {name: "".join(lines) for name, lines in self._output.items()}
            self._ended = Answer(self._process.returncode, output["stdout"], output["stderr"], shown)
            shutil.rmtree(self._scratch, ignore_errors=True)
        return self._ended


class Client:
    """One user at one gateway."""

    def __init__(
        self,
        command: Callable[[Sequence[str | Path]], list[str]],
        python: Path,
        address: tuple[str, int],
        token: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = command
        self._python = python
        self._environment = {
            **os.environ,
            **(environment or {}),
            "GATEWAY_HOST": address[0],
            "GATEWAY_PORT": str(address[1]),
            "TOKEN": token,
        }
        # numpy's own threads are of no use here, and slow two cores down.
        self._environment.setdefault("OPENBLAS_NUM_THREADS", "1")
        for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
            self._environment.pop(name, None)
        self.token = token

    def start(self, *sources: str, **variables: str) -> Running:
        """Start a script made of these parts, each indented as it likes; `variables` are added to its environment."""
        scratch = Path(tempfile.mkdtemp(prefix="rexec-script-"))
        script = scratch / "script.py"
        script.write_text("\n".join([PRELUDE, *map(dedent, sources)]))
        command = self._command([self._python, script])
        return Running(command, {**self._environment, **variables}, scratch)

    def run(self, *sources: str, seconds: float = 60, **variables: str) -> Answer:
        """Run a script to its end."""
        return self.start(*sources, **variables).finish(seconds)


def on_this_machine(command: Sequence[str | Path]) -> list[str]:
    """How a script is run where nothing has to be entered first."""
    if not command:
        raise E2eError("no command")
    return [str(word) for word in command]
