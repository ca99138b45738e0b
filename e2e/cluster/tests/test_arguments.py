"""Arguments, names and the places that follow from them."""

import pytest

from rexec_cluster.cli import parser, split_passed_on
from rexec_cluster.errors import ClusterError
from rexec_cluster.forward import Forward, parse
from rexec_cluster.names import parse_image_name
from rexec_cluster.paths import cache_from, content_key, run_from
from rexec_cluster.rights import go_version
from rexec_cluster.settings import node_address, pod_network


def test_kubectls_options_are_not_taken_for_our_own() -> None:
    assert split_passed_on(["kubectl", "-n", "x", "get", "pods"]) == (["kubectl"], ["-n", "x", "get", "pods"])
    assert split_passed_on(["exec", "--", "ls", "-l"]) == (["exec"], ["--", "ls", "-l"])
    assert split_passed_on(["kubectl", "--help"]) == (["kubectl", "--help"], [])
    assert split_passed_on(["load-image", "f", "n"]) == (["load-image", "f", "n"], [])


def test_every_sub_command_has_a_function() -> None:
    given = {
        "up": [],
        "down": [],
        "status": [],
        "doctor": [],
        "build": [],
        "add-node": [],
        "kill-node": ["2"],
        "kubeconfig": [],
        "kubectl": [],
        "exec": [],
        "forward": ["1:1.2.3.4:1"],
        "load-image": ["file"],
        "push-image": ["file", "name"],
        "python-image": ["3.11"],
        "index": [],
        "flux": ["directory"],
    }
    for name, arguments in given.items():
        assert callable(parser().parse_args([name, *arguments]).command)


def test_a_forward_names_both_ends() -> None:
    assert parse("8080:10.96.0.7:80") == Forward(8080, "10.96.0.7", 80)


@pytest.mark.parametrize(
    "text", ["8080", "8080:80", "0:10.0.0.1:80", "8080:10.0.0.256:80", "1:a.b:2", "70000:10.0.0.1:1"]
)
def test_a_forward_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="HOSTPORT"):
        parse(text)


@pytest.mark.parametrize("name", ["Demo", "a_b", "-a", "a-", "a/b", ".", "x" * 41])
def test_a_cluster_name_must_be_a_label(name: str) -> None:
    with pytest.raises(ClusterError, match="CLUSTER_NAME"):
        run_from({"CLUSTER_NAME": name}, cache_from({"HOME": "/h"}))


def test_the_demo_is_the_cluster_without_a_name() -> None:
    assert run_from({}, cache_from({"HOME": "/h"})).name == "demo"


def test_the_cache_is_where_the_environment_says() -> None:
    assert str(cache_from({"HOME": "/h"}).root) == "/h/.cache/rexec/cluster"
    assert str(cache_from({"HOME": "/h", "XDG_CACHE_HOME": "/x"}).root) == "/x/rexec/cluster"
    assert str(cache_from({"HOME": "/h", "XDG_CACHE_HOME": "/x", "REXEC_CACHE": "/c"}).root) == "/c/cluster"


def test_a_content_key_tells_where_parts_end() -> None:
    assert content_key(b"ab", b"c") != content_key(b"a", b"bc")


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.11-slim", "docker.io/library/python:3.11-slim"),
        ("rexec/operator:dev", "docker.io/rexec/operator:dev"),
        ("docker.io/library/python:3", "docker.io/library/python:3"),
        ("registry.rexec.local:5000/rexec/x:1", "registry.rexec.local:5000/rexec/x:1"),
        ("localhost/x", "localhost/x:latest"),
    ],
)
def test_image_names_are_written_out(text: str, full: str) -> None:
    assert str(parse_image_name(text)) == full


@pytest.mark.parametrize("text", ["", "Python", "a b", "x:", "x@sha256:0", "x:a:b"])
def test_what_is_no_image_name_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="image name"):
        parse_image_name(text)


def test_nodes_have_addresses_of_their_own() -> None:
    assert (node_address(1), pod_network(1)) == ("10.77.0.2", "10.244.0.0/24")
    assert (node_address(2), pod_network(2)) == ("10.77.0.3", "10.244.1.0/24")


def test_gos_version_is_read_from_what_it_says() -> None:
    assert go_version("go version go1.26.8 linux/amd64") == (1, 26)
    assert go_version("something else") == (0, 0)
