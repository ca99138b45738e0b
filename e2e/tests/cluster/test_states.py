"""`kubectl get rxe` explains the state at every moment: looked at every 0.2 s, STATE is never empty and always documented."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rexec_e2e.environments import condition, namespace_of
from rexec_e2e.paths import OUT, ROOT
from rexec_e2e.world import Watch, World


@pytest.fixture(scope="module")
def documented() -> set[str]:
    """The reasons that the reference page allows for the condition Ready."""
    page = (ROOT / "docs" / "reference" / "conditions.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.MULTILINE)
    reasons = {reason for reason, places in rows if "`Ready=" in places}
    assert len(reasons) > 10
    return reasons


@pytest.fixture(scope="module")
def record() -> Iterator[dict[str, list[str]]]:
    """What was seen, kept for people in target/."""
    seen: dict[str, list[str]] = {}
    yield seen
    OUT.mkdir(exist_ok=True)
    Path(OUT / "states.json").write_text(json.dumps(seen, indent=1) + "\n")


def check(watch: Watch, documented: set[str], record: dict[str, list[str]], title: str) -> None:
    """No look found STATE empty or undocumented."""
    record[title] = watch.states
    assert watch.looks > 0
    assert watch.problems == []
    assert set(watch.states) <= documented, f"undocumented or empty: {watch.states}"


def test_from_create_to_ready_through_suspended_to_running_and_gone(
    world: World, documented: set[str], record: dict[str, list[str]]
) -> None:
    with Watch(world, "stateful") as watch:
        world.create("stateful", ["six==1.16.0"])
        environment = world.wait("stateful", "Ready")
        namespace = namespace_of(environment)
        world.cluster.kubectl(
            "patch", "rxe", "stateful", "--type=merge", "-p", '{"spec":{"operatingMode":"Suspended"}}'
        )
        world.cluster.kubectl("wait", "--for=condition=Suspended", "rxe/stateful", "--timeout=60s")
        assert world.cluster.get("pod", "-n", namespace, "server") is None
        refused = world.client("stateful").run("attempt(remote_func(len), [])").ok().raised
        assert refused.kind == "RuntimeError"
        world.cluster.kubectl("patch", "rxe", "stateful", "--type=merge", "-p", '{"spec":{"operatingMode":"Running"}}')
        world.wait("stateful", "Ready")
        assert world.client("stateful").run("attempt(remote_func(len), [1])").ok().returned == "1"
        world.cluster.kubectl("delete", "rxe", "stateful", "--wait=false")
        world.wait_namespace_gone(namespace)
    check(watch, documented, record, "create, Suspended, Running, delete")
    assert watch.looks > 20
    assert watch.states[0] in ("Pending", "Starting")
    assert "Serving" in watch.states
    assert "Suspended" in watch.states
    assert watch.states.index("Suspended") > watch.states.index("Serving")
    assert world.get("stateful") is None


def test_delete_removes_the_namespace_and_ends_a_running_call_with_an_error(world: World) -> None:
    world.create("leaving", ["six==1.16.0"])
    namespace = namespace_of(world.wait("leaving", "Ready"))
    script = world.client("leaving").start("""
        @remote_func
        def hang():
            import time
            print("running")
            time.sleep(300)
        attempt(hang)
    """)
    script.wait_for("running")
    world.cluster.kubectl("delete", "rxe", "leaving", "--wait=false")
    raised = script.finish(60).ok().raised
    assert raised.kind == "RuntimeError"
    assert raised.message
    world.wait_namespace_gone(namespace)


@pytest.mark.parametrize(
    ("name", "python", "requirements", "kind", "reasons", "words"),
    [
        (
            "wrong-line",
            "3.11",
            ["six==1.16.0 && touch /tmp/pwned"],
            "Accepted",
            ["InvalidSpec"],
            ["six==1.16.0 && touch"],
        ),
        (
            "no-such-package",
            "3.11",
            ["no-such-package-anywhere==1.0"],
            "ImageReady",
            ["RequirementFailed"],
            ["no-such-package"],
        ),
        ("no-such-version", "3.11", ["six==99.0"], "ImageReady", ["RequirementFailed"], ["six"]),
        ("no-such-python", "3.14.99", [], "ImageReady", ["ImageNotFound", "ImagePullFailed"], ["3.14.99"]),
    ],
)
def test_a_fault_of_the_user_is_one_clear_message_in_the_right_place(
    world: World,
    documented: set[str],
    record: dict[str, list[str]],
    name: str,
    python: str,
    requirements: list[str],
    kind: str,
    reasons: list[str],
    words: list[str],
) -> None:
    try:
        with Watch(world, name) as watch:
            world.create(name, requirements, python)
            world.wait_reason(name, kind, reasons[0])
            environment = world.get(name)
            cause, ready = condition(environment, kind), condition(environment, "Ready")
        check(watch, documented, record, name)
        for found in (cause, ready):
            assert found["status"] == "False"
            assert found["reason"] in reasons
            assert all(word in found["message"] for word in words), found["message"]
    finally:
        world.delete(name)


def test_a_call_to_an_environment_that_cannot_start_says_why(world: World) -> None:
    world.create("stuck", ["no-such-package-anywhere==1.0"])
    try:
        world.wait("stuck", "Stalled")
        raised = world.client("stuck").run("attempt(remote_func(len), [])").ok().raised
        assert raised.kind == "RuntimeError"
        assert "no-such-package-anywhere" in raised.message
    finally:
        world.delete("stuck")


def test_a_corrected_line_starts_at_once(world: World) -> None:
    world.create("corrected", ["no-such-package-anywhere==1.0"])
    try:
        world.wait("corrected", "Stalled")
        world.cluster.kubectl(
            "patch", "rxe", "corrected", "--type=merge", "-p", '{"spec":{"requirements":["six==1.16.0"]}}'
        )
        world.wait("corrected", "Ready")
        assert condition(world.get("corrected"), "Stalled").get("status") != "True"
    finally:
        world.delete("corrected")
