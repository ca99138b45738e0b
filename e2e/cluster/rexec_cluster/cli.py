"""The command line: one function for each sub-command."""

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from . import (
    archives,
    build,
    catalogue,
    debian,
    flux,
    forward,
    index,
    lifecycle,
    members,
    namespaces,
    node,
    preparation,
    python_images,
    registry,
    rights,
    settings,
    state,
    teardown,
)
from .errors import ClusterError
from .images import Store
from .paths import Cache, Run, cache_from, run_from
from .progress import say, step

_EPILOG = f"""\
environment:
  CLUSTER_NAME    which cluster (default: demo); clusters do not see each other
  REXEC_CACHE     where everything built or fetched is kept (default: ~/.cache/rexec)
  PYTHON_IMAGES   python:X.Y-slim images that `up` provides (default: "{" ".join(settings.DEFAULT_PYTHON_IMAGES)}")

needs: {rights.NEEDED}
"""


@dataclass(frozen=True)
class Context:
    """What every sub-command works with."""

    cache: Cache
    run: Run


Command = Callable[[Context, argparse.Namespace], int]


def main(arguments: list[str]) -> int:
    """Run one sub-command; what went wrong is said in one sentence."""
    try:
        own, words = split_passed_on(arguments)
        options = parser().parse_args(own)
        options.words = words
        cache = cache_from(os.environ)
        command: Command = options.command
        return command(Context(cache, run_from(os.environ, cache)), options)
    except ClusterError as error:
        say(f"cluster: {error}")
        return 1
    except BrokenPipeError:
        # Whoever read the output has seen enough (`cluster status | head -1`); the interpreter must not try again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def split_passed_on(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Keep what follows `kubectl` and `exec` away from argparse, which would take `-n` for an option of its own."""
    if arguments[:1] in (["kubectl"], ["exec"]) and arguments[1:2] not in (["-h"], ["--help"]):
        return arguments[:1], arguments[1:]
    return arguments, []


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="cluster",
        description="A real Kubernetes on this machine.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, summary: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=summary)
        sub.set_defaults(command=command)
        return sub

    add("up", _up, "put the cluster up; returns when it can be used")
    add("down", _down, "take it down; nothing stays behind but the cache")
    add("status", _status, "say what runs, and where it is reached")
    add("doctor", _doctor, "say which rights, tools and files the host has and lacks")
    add("build", _build, "build and fetch everything that is cached, and start nothing")
    add("add-node", _add_node, "add one node")
    kill = add("kill-node", _kill_node, "end an added node without a word, as when its machine loses power")
    kill.add_argument("number", type=int, metavar="NUMBER")
    add("kubeconfig", _kubeconfig, "print a kubeconfig for programs run by `exec`")
    kubectl = add("kubectl", _kubectl, "run kubectl as the administrator; files are the host's")
    kubectl.usage = "cluster kubectl ARGUMENT ..."
    execute = add("exec", _exec, "run a host program in the cluster's network; KUBECONFIG and kubectl are set")
    execute.usage = "cluster exec -- COMMAND ..."
    ports = add("forward", _forward, "lead host loopback ports into the cluster's network")
    ports.add_argument("--background", action="store_true", help="return at once; `down` ends it")
    ports.add_argument("forwards", nargs="+", metavar="HOSTPORT:ADDRESS:PORT")
    load = add("load-image", _load_image, "give an image archive (docker or OCI) to every node")
    load.add_argument("file", type=Path, metavar="FILE")
    load.add_argument("name", nargs="?", metavar="NAME", help="what to call it (default: what the archive says)")
    push = add("push-image", _push_image, "push an image archive (docker or OCI) to the registry")
    push.add_argument("file", type=Path, metavar="FILE")
    push.add_argument("name", nargs="?", metavar="NAME", help="what to call it (default: what the archive says)")
    python = add("python-image", _python_image, "make python:X.Y-slim and provide it")
    python.add_argument("versions", nargs="+", metavar="X.Y[.Z]")
    packages = add("index", _index, "print the package index's address, or add distributions to it")
    packages.add_argument("action", nargs="?", choices=["url", "list", "add"], default="url")
    packages.add_argument("packages", nargs="*", metavar="REQUIREMENT")
    packages.add_argument("--python", action="append", metavar="X.Y", help="for which Python (default: the images')")
    gitops = add("flux", _flux, "run Flux's kustomize-controller with DIR as its source, or publish DIR anew")
    gitops.add_argument("directory", type=Path, metavar="DIR")
    return top


def _up(context: Context, _: argparse.Namespace) -> int:
    with lifecycle.only_one(context.run):
        lifecycle.up(context.run, context.cache, os.environ)
    return 0


def _down(context: Context, _: argparse.Namespace) -> int:
    with lifecycle.only_one(context.run):
        teardown.down(context.run)
    return 0


def _add_node(context: Context, _: argparse.Namespace) -> int:
    with lifecycle.only_one(context.run):
        lifecycle.add_node(context.run, context.cache)
    return 0


def _kill_node(context: Context, options: argparse.Namespace) -> int:
    with lifecycle.only_one(context.run):
        lifecycle.kill_node(context.run, options.number)
    return 0


def _build(context: Context, _: argparse.Namespace) -> int:
    preparation.prepare(context.cache, os.environ)
    return 0


def _status(context: Context, _: argparse.Namespace) -> int:
    current = state.load(context.run)
    if current is None:
        print(f"cluster {context.run.name}: down")
        return 1
    alive = current.alive()
    print(f"cluster {context.run.name}: {'up' if alive else 'half there (`up` clears it away and starts anew)'}")
    for name, process in members.running_processes(current):
        print(f"  {name:<26} {'runs' if process.alive() else 'ENDED'} (pid {process.pid})")
    for number in current.nodes:
        print(f"  address of node {number:<10} {settings.node_address(number)}")
    print(f"  API server                 {settings.API_URL}")
    print(f"  image registry             {settings.REGISTRY_ADDRESS}, as an image name {settings.REGISTRY_NAME}")
    print(f"  package index              {settings.INDEX_URL}")
    print(f"  cgroup                     {current.cgroups.base}")
    print(f"  logs                       {context.run.logs}")
    print(f"  needs                      {' '.join(rights.NEEDED.split())}")
    return 0 if alive else 1


def _doctor(context: Context, _: argparse.Namespace) -> int:
    """The trials need the fetched programs, so they come only when there are no lacks before."""
    good = _report(rights.tool_checks(context.cache))
    if good:
        good = _report(rights.host_checks(context.cache, debian.fetch(context.cache)))
    return 0 if good else 1


def _report(checks: list[rights.Check]) -> bool:
    answers = [(check.name, check.ask()) for check in checks]
    for name, lack in answers:
        print(f"{name:<20} {lack or 'ok'}")
    return not any(lack for _, lack in answers)


def _kubeconfig(context: Context, _: argparse.Namespace) -> int:
    state.require(context.run)
    sys.stdout.write(context.run.admin_kubeconfig.read_text())
    return 0


def _kubectl(context: Context, options: argparse.Namespace) -> int:
    _execute(context, [str(build.kubernetes_program(context.cache, "kubectl")), *options.words])


def _exec(context: Context, options: argparse.Namespace) -> int:
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not words:
        raise ClusterError("exec needs a command: cluster exec -- COMMAND …")
    _execute(context, words)


def _execute(context: Context, command: list[str]) -> NoReturn:
    """Become the program, so that signals and its exit status need nobody in between."""
    current = state.require(context.run)
    tools = build.kubernetes_program(context.cache, "kubectl").parent
    environment = current.environment(os.environ)
    environment["KUBECONFIG"] = str(context.run.admin_kubeconfig)
    environment["KUBECACHEDIR"] = str(context.run.kubectl_cache)
    environment["PATH"] = f"{tools}:{environment.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}"
    entered = namespaces.in_network(current.pid, *command)
    os.execvpe(entered[0], entered, environment)


def _forward(context: Context, options: argparse.Namespace) -> int:
    forwards = [forward.parse(text) for text in options.forwards]
    if options.background:
        with lifecycle.only_one(context.run):
            forward.in_background(context.run, forwards, os.environ)
        return 0
    current = state.require(context.run)
    listeners = forward.listen(forwards)
    say(f"forwarding {', '.join(f'127.0.0.1:{item.host_port}' for item in forwards)} (Ctrl-C ends it)")
    forward.serve(current.pid, forwards, listeners)
    return 0


def _load_image(context: Context, options: argparse.Namespace) -> int:
    current, bundle = state.require(context.run), debian.bundle(context.cache)
    with tempfile.TemporaryDirectory(dir=context.run.root, prefix="image-") as scratch:
        store = Store(Path(scratch))
        for name, top in archives.named(archives.read(options.file, store), options.file, options.name):
            archive = Path(scratch) / "image.tar"
            archives.write(archive, store, top, name)
            for number, process in current.nodes.items():
                with step(f"loading {name} into node {number}"):
                    node.import_image(process.pid, bundle, archive)
            print(name)
    return 0


def _push_image(context: Context, options: argparse.Namespace) -> int:
    current = state.require(context.run)
    with tempfile.TemporaryDirectory(dir=context.run.root, prefix="image-") as scratch:
        store = Store(Path(scratch))
        for name, top in archives.named(archives.read(options.file, store), options.file, options.name):
            with step(f"pushing {name}"):
                print(registry.Client(current.pid).push(store, top, name))
    return 0


def _python_image(context: Context, options: argparse.Namespace) -> int:
    with build.only_one_builder(context.cache):
        bundle = debian.fetch(context.cache)
        entries = [python_images.python_image(context.cache, bundle, version) for version in options.versions]
    current = state.load(context.run)
    store = catalogue.Catalogue(context.cache).store
    for entry in entries:
        for name in entry.names:
            if current is not None and current.alive():
                registry.Client(current.pid).push(store, entry.top, name)
            print(name)
    return 0


def _index(context: Context, options: argparse.Namespace) -> int:
    if options.action == "list":
        with contextlib.suppress(FileNotFoundError):
            for wheel in sorted((context.cache.index / "wheels").glob("*.whl")):
                print(wheel.name)
    elif options.action == "add":
        if not options.packages:
            raise ClusterError("index add needs at least one requirement, such as six==1.16.0")
        with build.only_one_builder(context.cache):
            versions = options.python or list(settings.DEFAULT_PYTHON_IMAGES)
            index.add(context.cache, debian.fetch(context.cache), options.packages, versions)
    else:
        print(settings.INDEX_URL)
    return 0


def _flux(context: Context, options: argparse.Namespace) -> int:
    with lifecycle.only_one(context.run):
        flux.publish(context.run, context.cache, options.directory)
    return 0
