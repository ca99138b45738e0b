"""Set-up and terminate by the unmodified `ndp-ep` client, and what calls meet before, between and after."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from rexec_e2e.client import Client
from rexec_e2e.environments import condition
from rexec_e2e.steps import eventually
from rexec_e2e.world import World

NDP = """
    import pathlib
    from ndp_ep import APIClient
    ndp = APIClient(base_url=os.environ["API"], token=os.environ["TOKEN"])
    def requirements(*lines):
        path = pathlib.Path("requirements.txt")
        path.write_text("\\n".join(lines) + "\\n")
        return str(path)
"""

PING = """
    @remote_func
    def ping():
        return "ready"
"""


def answer_to_set_up(user: Client, *lines: str, force: bool = False) -> dict[str, Any]:
    """Ask for an environment, and return what the client returns."""
    if force:
        call = f"""
            path = requirements(*{lines!r})
            remote_func.set_api_url(os.environ["API"] + "/rexec/spawn")
            show(remote_func.set_environment(path, os.environ["TOKEN"], force_reinstall=True).json())
        """
    else:
        call = f"show(ndp.setup_rexec_environment(requirements=requirements(*{lines!r})))"
    said = user.run(NDP, call).ok().one
    assert isinstance(said, dict)
    return said


def set_up(user: Client, *lines: str, force: bool = False) -> None:
    """Set an environment up."""
    said = answer_to_set_up(user, *lines, force=force)
    assert "Status" in said, said


def refused(user: Client, *lines: str) -> str:
    """The sentence with which an environment is refused."""
    said = answer_to_set_up(user, *lines)
    assert "Status" not in said, said
    return str(said["detail"])


@pytest.fixture
def dora(world: World) -> Iterator[Client]:
    """A user who has nothing yet; what the test leaves is deleted."""
    yield world.client("dora")
    environment = world.of_user("dora")
    if environment:
        world.delete(environment["metadata"]["name"])


def test_set_up_returns_before_the_pod_is_up_and_the_pages_loop_ends_when_it_is(world: World, dora: Client) -> None:
    start = time.monotonic()
    answer = dora.run(
        NDP,
        """
        path = requirements("# a comment", "python==3.11", "", "six==1.16.0")
        start = time.monotonic()
        show(ndp.setup_rexec_environment(requirements=path))
        show(time.monotonic() - start)
        """,
    )
    said, took = answer.ok().shown
    assert isinstance(said, dict)
    assert "dora" in said["Status"]
    assert isinstance(took, float)
    assert took < 5
    environment = world.of_user("dora")
    assert environment["spec"]["python"] == "3.11"
    assert environment["spec"]["requirements"] == ["six==1.16.0"]
    looped = dora.run(PING, "while ping() != 'ready':\n    time.sleep(1)\nprint('looped')", seconds=200)
    assert looped.ok().stdout.endswith("looped\n")
    assert condition(world.of_user("dora"), "Ready")["status"] == "True"
    assert time.monotonic() - start < 200


def test_with_a_short_hold_the_literal_is_printed_until_the_server_is_up(world: World, dora: Client) -> None:
    with world.gateway_with("gateway-hold-1s", "--hold-seconds=1") as address:
        set_up(dora, "python==3.11", "six==1.16.0")
        impatient = world.client("dora", address)
        answer = impatient.run(
            PING,
            """
            answers = []
            while not answers or answers[-1] != "ready":
                answers.append(ping())
            show(answers)
            """,
            seconds=200,
        )
    answers = answer.ok().one
    assert isinstance(answers, list)
    assert answers[-1] == "ready"
    assert len(answers) > 1
    assert set(answers[:-1]) == {None}
    literal = "Server not ready/available for user dora."
    assert answer.stdout.splitlines() == [literal] * (len(answers) - 1)


def test_ctrl_c_on_a_held_call_with_100_mb_returns_at_once_and_the_call_never_runs(world: World, dora: Client) -> None:
    set_up(dora, "python==3.11", "six==1.16.0", "pandas")
    script = dora.start("""
        @remote_func
        def mark(data):
            import pathlib
            pathlib.Path("ran").write_text(str(len(data)))
        data = b"x" * 100_000_000
        print("calling")
        try:
            mark(data)
        except KeyboardInterrupt:
            show("interrupted")
    """)
    script.wait_for("calling")
    time.sleep(
        1.5
    )  # long enough for the argument to be on its way; there is no event to wait for at a client that blocks
    assert condition(world.of_user("dora"), "Ready")["status"] != "True", "the server was up too soon for this test"
    start = time.monotonic()
    script.interrupt()
    answer = script.finish(20)
    assert time.monotonic() - start < 1
    assert answer.ok().one == "interrupted"
    world.wait(world.of_user("dora")["metadata"]["name"], "Ready")
    later = dora.run("""
        @remote_func
        def ran():
            import os
            return os.path.exists("ran")
        attempt(ran)
    """)
    assert later.ok().returned == "False"


def test_terminate_ends_a_running_call_with_an_error_and_set_up_brings_a_new_server(world: World, dora: Client) -> None:
    set_up(dora, "python==3.11", "six==1.16.0")
    name = world.of_user("dora")["metadata"]["name"]
    world.wait(name, "Ready")
    script = dora.start("""
        @remote_func
        def hang():
            import pathlib, time
            pathlib.Path("kept").write_text("x")
            print("running")
            time.sleep(300)
        attempt(hang)
    """)
    script.wait_for("running")
    start = time.monotonic()
    said = dora.run(NDP, "show(ndp.terminate_rexec_environment())").ok().one
    assert isinstance(said, dict)
    raised = script.finish(10).ok().raised
    assert time.monotonic() - start < 5 + 2, "two clients have to start in between"
    assert raised.kind == "RuntimeError"
    assert raised.message
    world.wait(name, "Suspended")
    assert world.cluster.get("pod", "-n", world.get(name)["status"]["namespace"], "server") is None
    refused = dora.run("attempt(remote_func(len), [])").ok().raised
    assert refused.kind == "RuntimeError"
    assert "set" in refused.message.lower()

    set_up(dora, "python==3.11", "six==1.16.0")
    again = dora.run(
        PING,
        """
        @remote_func
        def kept():
            import os
            return os.path.exists("kept")
        while ping() != "ready":
            time.sleep(1)
        attempt(kept)
        """,
        seconds=200,
    )
    assert again.ok().returned == "False"


def test_terminate_without_a_server_is_no_error(world: World) -> None:
    user = world.client("has-nothing")
    assert isinstance(user.run(NDP, "show(ndp.terminate_rexec_environment())").ok().one, dict)


def test_the_same_lines_again_change_nothing_and_others_are_refused_unless_forced(world: World, dora: Client) -> None:
    set_up(dora, "python==3.11", "six==1.16.0")
    name = world.of_user("dora")["metadata"]["name"]
    world.wait(name, "Ready")
    pod = world.pod(name)["metadata"]["uid"]
    set_up(dora, "six==1.16.0", "python==3.11")
    assert world.pod(name)["metadata"]["uid"] == pod
    assert refused(dora, "python==3.11", "six==1.17.0")
    assert world.pod(name)["metadata"]["uid"] == pod
    set_up(dora, "python==3.11", "six==1.17.0", force=True)
    eventually("another pod", 60, lambda: (world.pod(name) or {"metadata": {"uid": pod}})["metadata"]["uid"] != pod)
    answer = dora.run(
        PING,
        """
        @remote_func
        def version():
            import six
            return six.__version__
        while ping() != "ready":
            time.sleep(1)
        attempt(version)
        """,
        seconds=200,
    )
    assert answer.ok().returned == "'1.17.0'"


@pytest.mark.parametrize(
    "line",
    [
        "pkg @ https://index.invalid/$(touch${IFS}pwned)",
        "pkg @ https://index.invalid/x;touch${IFS}pwned",
        "attrs ; python_version == '$(touch /tmp/pwned)'",
        "attrs ; python_version == '`touch /tmp/pwned`'",
    ],
)
def test_wire_f33_a_line_with_shell_characters_is_refused_and_does_nothing(
    world: World, dora: Client, line: str
) -> None:
    assert line in refused(dora, "python==3.11", line)
    assert world.of_user("dora") is None


def test_wire_f33_a_bound_is_a_bound_and_no_redirection(dora: Client) -> None:
    set_up(dora, "python==3.11", "six>=1.16.0,<1.17")
    answer = dora.run(
        PING,
        """
        @remote_func
        def look():
            import pathlib, six
            places = [pathlib.Path(at) for at in (".", "/home/rexec", "/tmp", "/")]
            return six.__version__, [str(path) for at in places for path in at.glob("=*")]
        while ping() != "ready":
            time.sleep(1)
        attempt(look)
        """,
        seconds=200,
    )
    assert answer.ok().returned == "('1.16.0', [])"


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (["six==1.16.0"], "python"),
        (["python==2.7", "six"], "3.9"),
        (["python==3.11.*", "six"], "python"),
    ],
    ids=["no python line", "an old python", "a wildcard"],
)
def test_requirements_that_cannot_be_are_refused_in_a_sentence(
    world: World, dora: Client, lines: list[str], word: str
) -> None:
    assert word in refused(dora, *lines)
    assert world.of_user("dora") is None


def test_a_wrong_or_missing_token_is_refused_in_a_sentence(world: World) -> None:
    user = world.client("dora")
    answer = user.run("""
        import requests
        lines = {"requirments": ["python==3.11"], "force_reinstall": "False"}
        for token in ({"token": "nobody's"}, {}):
            response = requests.post(os.environ["API"] + "/rexec/spawn", data={**lines, **token})
            show([response.status_code, response.json()])
    """)
    wrong, missing = answer.ok().shown
    assert isinstance(wrong, list)
    assert wrong[0] == 401
    assert "token" in str(wrong[1]["detail"]).lower()
    assert isinstance(missing, list)
    assert missing[0] == 422
    assert "token" in str(missing[1]["detail"])
