"""A Kubernetes of the tests' own with everything deployed, and the unmodified public clients before it.

`KEEP_CLUSTER=1` leaves it up for the next run.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rexec_e2e import world as worlds
from rexec_e2e.environments import report
from rexec_e2e.world import World

OVERLAY = Path(__file__).parent / "overlay"


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """The cluster, up and deployed to."""
    name = os.environ.get("CLUSTER_NAME", "test")
    with worlds.local_cluster(name, keep=bool(os.environ.get("KEEP_CLUSTER"))) as cluster:
        yield worlds.set_up(cluster, OVERLAY)


@pytest.fixture(scope="session")
def alice(world: World) -> str:
    """A user whose environment was made by `kubectl apply` of the example and is Ready; tests leave it so."""
    manifest = Path(__file__).parents[3] / "examples" / "environment.yaml"
    world.cluster.kubectl("apply", "-f", str(manifest))
    world.touched.append("alice")
    world.cluster.kubectl("wait", "--for=condition=Ready", "rxe/alice", "--timeout=120s", timeout=150)
    return "alice"


@pytest.fixture(autouse=True)
def _fresh_list_of_environments(request: pytest.FixtureRequest) -> None:
    """A failure shows the environments that its test touched."""
    if "world" in request.fixturenames:
        world: World = request.getfixturevalue("world")
        world.touched.clear()
        if "alice" in request.fixturenames:
            world.touched.append("alice")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failure shows conditions, pods, events and logs."""
    report_ = yield
    world = getattr(item, "funcargs", {}).get("world")
    if report_.failed and isinstance(world, World):  # type: ignore[attr-defined]
        report_.sections.extend(report(world.cluster, dict.fromkeys(world.touched)))  # type: ignore[attr-defined]
    return report_
