"""Certificates, node configuration, state and the other texts that programs are given."""

import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path

from rexec_cluster import configs, flux, registry, state
from rexec_cluster.api import condition, dns_query
from rexec_cluster.build import COREDNS, FLUX, KUBE_ROUTER, KUBERNETES
from rexec_cluster.cgroups import Cgroups
from rexec_cluster.configs import NodePlan
from rexec_cluster.debian import Bundle
from rexec_cluster.interpreters import Interpreter, choose, find
from rexec_cluster.paths import SOURCE, Run
from rexec_cluster.pki import CONTROL_PLANE, authority_config, certificate_config, kubelet_certificate
from rexec_cluster.processes import Daemon, Process, identify
from rexec_cluster.python_images import image_names
from rexec_cluster.settings import API_SERVICE_ADDRESS, FIRST_NODE_ADDRESS

NODE = NodePlan("demo", 2, Path("/run/demo/nodes/2"), "/x/rexec-demo/node-2")


def test_the_api_servers_certificate_names_every_way_to_it() -> None:
    config = certificate_config(CONTROL_PLANE[0])
    (names,) = [line for line in config.splitlines() if line.startswith("subjectAltName")]
    for name in ("DNS:kubernetes.default.svc", f"IP:{FIRST_NODE_ADDRESS}", f"IP:{API_SERVICE_ADDRESS}", "IP:127.0.0.1"):
        assert name in names.removeprefix("subjectAltName = ").split(",")
    assert "CA:FALSE" in config
    assert "CA:TRUE" in authority_config()


def test_a_kubelet_is_the_node_it_says() -> None:
    certificate = kubelet_certificate("demo-2", "10.77.0.3")
    assert certificate.subject == "/O=system:nodes/CN=system:node:demo-2"
    assert "IP:10.77.0.3" in certificate.names


def test_a_client_certificate_has_no_names() -> None:
    assert "subjectAltName" not in certificate_config(CONTROL_PLANE[1])


def test_containerds_configuration_is_toml() -> None:
    parsed = tomllib.loads(configs.containerd(NODE, Bundle(Path("/bundle"))))
    runc = parsed["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]["runc"]["options"]
    assert runc == {"SystemdCgroup": False, "BinaryName": "/bundle/usr/sbin/runc"}


def test_every_registry_is_answered_by_the_local_one() -> None:
    hosts = registry.containerd_hosts()
    assert {"docker.io", "registry.rexec.local:5000", "_default"} <= set(hosts)
    assert tomllib.loads(hosts["docker.io"])["server"] == "http://10.77.0.2:5000"


def test_a_node_has_its_own_addresses_and_cgroup() -> None:
    kubelet = configs.kubelet(NODE, Path("/pki"))
    assert (kubelet["address"], kubelet["cgroupRoot"]) == ("10.77.0.3", "/x/rexec-demo/node-2")
    bridge = configs.cni(NODE)["plugins"][0]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.1.0/24"}]]
    assert "isDefaultGateway" not in bridge


def test_state_survives_being_written_down(tmp_path: Path) -> None:
    run = Run("demo", tmp_path)
    written = state.new(
        Cgroups("/rexec-demo", ("/c/memory",), ("/c/memory", "/c/unified"), (), unified=False), Path("/storage")
    )
    written.nodes[1] = Process(12, 34)
    written.daemons.append(Daemon("etcd", Process(1, 2), tmp_path / "log"))
    written.forwards["1:2.3.4.5:6"] = Process(7, 8)
    state.save(run, written)
    assert state.load(run) == written


def test_a_damaged_state_is_no_state(tmp_path: Path) -> None:
    run = Run("demo", tmp_path)
    assert state.load(run) is None
    run.state.write_text('{"boot": "x"}')
    assert state.load(run) is None


def test_another_boot_means_nothing_runs() -> None:
    current = state.new(Cgroups("/x", (), (), (), unified=False), Path("/storage"))
    current.complete = True
    current.nodes[1] = identify(1)
    assert current.alive()
    current.boot = "another"
    assert not current.alive()
    assert not current.reachable()


def test_a_reused_pid_is_another_process() -> None:
    init = identify(1)
    assert init.alive()
    assert not Process(1, init.started + 1).alive()


def test_a_dns_question_is_well_formed() -> None:
    assert dns_query("a.bc").endswith(b"\x01a\x02bc\x00\x00\x01\x00\x01")


def test_a_condition_that_is_not_there_is_empty() -> None:
    assert condition(None, "Ready") == ""
    assert condition({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "Ready") == "True"


def test_go_modules_are_pinned() -> None:
    for program in (KUBERNETES, COREDNS, KUBE_ROUTER, FLUX):
        assert (program.source / "go.sum").exists()


def test_the_dns_manifest_agrees_with_the_settings() -> None:
    manifest = (SOURCE / "images" / "coredns.yaml").read_text()
    assert "registry.rexec.local:5000/cluster/coredns:1" in manifest
    assert f"{FIRST_NODE_ADDRESS} registry.rexec.local index.rexec.local" in manifest
    assert "clusterIP: 10.96.0.10" in manifest


def test_a_tarball_for_flux_depends_on_content_alone(tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "kustomization.yaml").write_text("resources: []\n")
        made.append(flux.tarball(directory))
    assert made[0] == made[1]
    status = flux.artifact_status("ab", 3, datetime(2026, 1, 2, tzinfo=UTC))
    assert '"digest": "sha256:ab"' in json.dumps(status)


def test_interpreters_are_found_and_chosen(tmp_path: Path) -> None:
    for version in ("2.7.18", "3.8.18", "3.11.7", "3.11.9", "3.12.1", "3.13-dev"):
        (tmp_path / ".pyenv/versions" / version).mkdir(parents=True)
    found = find(tmp_path, system=tmp_path / "usr")
    assert [item.version for item in found] == ["3.11.7", "3.11.9", "3.12.1"]
    assert choose(found, "3.11").version == "3.11.9"
    assert choose(found, "3.11.7").version == "3.11.7"


def test_debians_own_interpreter_fills_a_gap(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/python3.11").write_bytes(b"\x7fELF\x00" + b"3.11.2\x00")
    (tmp_path / "usr/lib/python3.11").mkdir(parents=True)
    (tmp_path / "usr/lib/python3.11/os.py").touch()
    assert find(tmp_path, system=tmp_path / "usr") == [Interpreter("3.11.2", tmp_path / "usr", debian=True)]


def test_only_the_newest_release_has_the_short_tag() -> None:
    interpreter = Interpreter("3.11.9", Path("/p"), debian=False)
    assert image_names(interpreter, newest=True) == (
        "docker.io/library/python:3.11.9-slim",
        "docker.io/library/python:3.11-slim",
    )
    assert image_names(interpreter, newest=False) == ("docker.io/library/python:3.11.9-slim",)
