"""`make demo`: a cluster, everything deployed, an environment, and a remote call by the unmodified public client."""

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from . import deploy, images, venvs
from .cluster import Cluster, CurrentCluster, LocalCluster, Network, wait_for
from .deploy import Deployment
from .environments import KIND, SYSTEM, condition, conditions_table, report
from .errors import E2eError
from .paths import E2E, ROOT
from .processes import LOOPBACK, listens
from .steps import eventually, say, step

# Host ports of the demo's gateway; both on loopback alone.
CALL_PORT = 15559
API_PORT = 18080
TOKEN = "demo-token"  # noqa: S105 - the demo's token file has it, beside this file
ENVIRONMENT = "alice"
READY_SECONDS = 300


def main(arguments: Sequence[str]) -> int:
    """Run the demo; what goes wrong is said with what explains it."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--cluster", choices=["local", "current"], default="local")
    parser.add_argument("--name", default="demo", help="which local cluster")
    parser.add_argument("--registry", default="", help="HOST/PREFIX to push to, for the current cluster")
    parser.add_argument("--index-url", default="", help="package index, where pods do not reach PyPI")
    parser.add_argument("--egress-allow", default="", help="CIDR:PORT of that index")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    try:
        cluster: Cluster = LocalCluster(options.name) if options.cluster == "local" else CurrentCluster()
        given = Network(options.index_url or None, options.egress_allow or None)
        demo(cluster, options.registry, given)
    except E2eError as error:
        say(f"demo: {error}")
        return 1
    say(f"\nThe demo took {time.monotonic() - start:.0f} s.")
    return 0


def demo(cluster: Cluster, registry: str, given: Network) -> None:
    """All of it, in order; `given` is what the caller says of the network of a cluster that is not ours."""
    if isinstance(cluster, LocalCluster):
        with step(f"local Kubernetes '{cluster.name}'"):
            cluster.tool("up")
    network = cluster.network() if isinstance(cluster, LocalCluster) else given
    flags = [f"--index-url={network.index_url}"] if network.index_url else []
    flags += [f"--egress-allow={network.egress_allow}"] if network.egress_allow else []
    deploy.apply(
        cluster,
        Deployment(
            overlay=E2E / "demo",
            name="demo",
            flags={"rexec-operator": flags, "rexec-gateway": [f"--zmtp-public={LOOPBACK}:{CALL_PORT}"]},
        ),
        images.provide(cluster, registry),
    )
    _environment(cluster)
    python = venvs.venv("client") / "bin" / "python"
    with _reachable(cluster):
        _remote_call(python)
    _how_to_go_on(cluster, python)


def _environment(cluster: Cluster) -> None:
    manifest = ROOT / "examples" / "environment.yaml"
    with step(f"environment '{ENVIRONMENT}' (numpy) from {manifest.relative_to(ROOT)}"):
        cluster.kubectl("apply", "-f", str(manifest))
        try:
            wait_for(cluster, "condition=Ready", f"{KIND}/{ENVIRONMENT}", READY_SECONDS)
        except E2eError:
            for title, text in report(cluster, [ENVIRONMENT]):
                say(f"--- {title}\n{text}")
            raise
    environment = cluster.get(KIND, ENVIRONMENT)
    print(cluster.kubectl("get", "rxe", ENVIRONMENT), flush=True)
    print(conditions_table(environment), end="\n\n", flush=True)
    if condition(environment, "Ready").get("status") != "True":
        raise E2eError(f"environment {ENVIRONMENT} stopped being Ready")


@contextlib.contextmanager
def _reachable(cluster: Cluster) -> Iterator[None]:
    """The gateway's two ports on the host's loopback; those of a local cluster stay when the demo has ended."""
    if isinstance(cluster, LocalCluster):
        with step("lead loopback ports to the gateway"):
            address = cluster.get("service", "-n", SYSTEM, "rexec-gateway")["spec"]["clusterIP"]
            ports = [f"{CALL_PORT}:{address}:{_service_port(cluster, 'zmtp')}"]
            ports += [f"{API_PORT}:{address}:{_service_port(cluster, 'http')}"]
            cluster.tool("forward", "--background", *ports, quiet=True)
        yield
        return
    command = _port_forward(cluster)
    with subprocess.Popen(cluster.command(command), stdout=subprocess.DEVNULL, env=cluster.environment) as forward:
        try:
            eventually("kubectl port-forward", 30, lambda: listens(CALL_PORT))
            yield
        finally:
            forward.terminate()


def _port_forward(cluster: Cluster) -> list[str]:
    ports = [f"{CALL_PORT}:{_service_port(cluster, 'zmtp')}", f"{API_PORT}:{_service_port(cluster, 'http')}"]
    return ["kubectl", "-n", SYSTEM, "port-forward", "--address", LOOPBACK, "service/rexec-gateway", *ports]


def _service_port(cluster: Cluster, name: str) -> int:
    ports = cluster.get("service", "-n", SYSTEM, "rexec-gateway")["spec"]["ports"]
    return next(int(port["port"]) for port in ports if port["name"] == name)


def _remote_call(python: os.PathLike[str]) -> None:
    script = ROOT / "examples" / "remote_call.py"
    environment = {**os.environ, "GATEWAY": f"{LOOPBACK}:{CALL_PORT}", "TOKEN": TOKEN, "PYTHONPATH": ""}
    with step(f"remote call by the unmodified scidx-rexec 0.1.0 ({script.relative_to(ROOT)})"):
        done = subprocess.run([python, script], env=environment, check=False, timeout=120)
    if done.returncode:
        raise E2eError(f"{script.name} ended with status {done.returncode}")


def _how_to_go_on(cluster: Cluster, python: os.PathLike[str]) -> None:
    local = isinstance(cluster, LocalCluster)
    name = cluster.environment.get("CLUSTER_NAME", "demo")
    prefix = "" if name == "demo" else f"CLUSTER_NAME={name} "
    kubectl = f"{prefix}e2e/cluster/cluster kubectl" if local else "kubectl"
    lines = ["", "Everything stays up. To go on:", ""]
    lines += [f"    {kubectl} get rxe", f"    {kubectl} describe rxe {ENVIRONMENT}"]
    if not local:
        lines += [f"    {' '.join(_port_forward(cluster))} &"]
    lines += [
        f"    {python}",
        "    >>> from rexec.client_api import remote_func",
        f'    >>> remote_func.set_remote_addr("{LOOPBACK}"); remote_func.set_remote_port("{CALL_PORT}")',
        f'    >>> remote_func.set_exec_token("{TOKEN}")',
        "    >>> remote_func(lambda x: x + 1)(41)",
        "",
        "or, with ndp-ep in the same Python:",
        "",
        "    >>> from ndp_ep import APIClient",
        f'    >>> client = APIClient(base_url="http://{LOOPBACK}:{API_PORT}", token="{TOKEN}")',
        '    >>> client.setup_rexec_environment(requirements="examples/requirements.txt")',
        "",
        f"To take it down:  {prefix}make down" if local else "To take it down:  make undeploy",
    ]
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
