"""What was deployed can be removed again; the last tests of all, since nothing is there afterwards."""

from rexec_e2e.environments import KIND, SYSTEM, namespace_of
from rexec_e2e.world import World, deploy_tool


def test_undeploy_removes_environments_operator_gateway_and_definitions(world: World) -> None:
    world.create("last", ["six==1.16.0"])
    namespace = namespace_of(world.wait("last", "Ready"))
    deploy_tool(world.cluster, "delete")
    world.wait_namespace_gone(namespace)
    world.wait_namespace_gone(SYSTEM)
    assert world.cluster.get("crd", KIND) is None
    left = world.cluster.kubectl("get", "clusterroles,clusterrolebindings", "-o", "name")
    assert not [name for name in left.split() if "rexec" in name]
