"""The command `ledgermq dev` runs a cluster on this machine, in processes or in containers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from shlex import quote

import click

from cluster.cli.command_group import CommandGroup
from cluster.cli.local.containers import docker_cluster
from cluster.cli.options import FiniteRange, data_option, format_option, renamed_option
from cluster.cli.output import note_console, print_json, print_table, say
from cluster.cli.stopping import sigterm_stops
from cluster.local.launcher import DEFAULT_NODES, Launcher, Tell, silent
from cluster.local.processes import DEFAULT_DIRECTORY, DevCluster, NodeState
from ledger.words import counted

# The name of the one cluster in containers.
_CONTAINERS = "dev"

docker_option = click.option(
    "--docker", is_flag=True, help="Use a cluster in containers, from the image ledgermq:dev. --data is ignored."
)


@click.group(cls=CommandGroup)
def dev() -> None:
    """Run a cluster on this machine. The data and logs of the cluster are in one directory. The cluster runs until
    `ledgermq dev stop`."""


@dev.command()
@click.option(
    "-n",
    "--nodes",
    type=click.IntRange(1, 9),
    help=f"Number of nodes.  [default: {DEFAULT_NODES}, or the number that the cluster has]",
)
@data_option
@docker_option
@click.option(
    "--base-port", type=click.IntRange(1, 65_535), help="First port. Each node uses three ports.  [default: free ports]"
)
@click.option(
    "--flush",
    type=click.Choice(["async", "sync"]),
    help="Acknowledge when the page cache has a message (async), or the disk (sync).  [default: async]",
)
@click.option(
    "--secure",
    is_flag=True,
    default=None,
    help="Use TLS and authentication, with new certificates and the user admin.",
)
@renamed_option("--groups", "--shards")
@click.option("--shards", type=click.IntRange(1, 64), help="Number of shards, led by different nodes.  [default: 1]")
@format_option
def start(
    nodes: int | None,
    data: Path,
    docker: bool,
    base_port: int | None,
    flush: str | None,
    shards: int | None,
    secure: bool | None,
    output: str,
) -> None:
    """Start a cluster and wait until all shards have leaders. If the cluster already exists, the command starts only
    the nodes that do not run. `ledgermq dev start` is idempotent. After `ledgermq dev stop`, `ledgermq dev start`
    starts the cluster again with the same data.

    For a new cluster, the command first checks packages, ports, and room on the disk (with --docker: the engine and the
    image). If a new cluster does not start, or if you press Ctrl-C, its processes and files are removed.
    """
    cluster = _cluster(data, docker)
    new = not cluster.exists
    with sigterm_stops(), _progress() as tell:
        states = cluster.start(nodes, base_port=base_port, flush=flush, shards=shards, secure=secure, tell=tell)
    if output == "json":
        print_json(_as_json(states))
        return
    _print_states(states)
    say(f"\n{'Started a new cluster' if new else 'The cluster runs'} in {_place(cluster)}. Try:\n")
    say(_next_commands(cluster))


@dev.command()
@data_option
@docker_option
@format_option
def status(data: Path, docker: bool, output: str) -> None:
    """Show each node: its role, the shards that it leads, its addresses, its process and its data directory."""
    states = _cluster(data, docker).status()
    if output == "json":
        print_json(_as_json(states))
    else:
        _print_states(states)


@dev.command("add-node")
@data_option
@click.option("--learner", is_flag=True, help="Keep the node a learner: it receives the log and does not vote.")
@click.option(
    "--timeout",
    "timeout_s",
    type=FiniteRange(0, min_open=True),
    default=60,
    show_default=True,
    help="Seconds to wait.",
)
@format_option
def add_node(data: Path, learner: bool, timeout_s: float, output: str) -> None:
    """Start one more node and add it to the cluster. The command waits until the new node has caught up and is a
    voter."""
    added = DevCluster(data).add_node(promote=not learner, timeout_s=timeout_s)
    if output == "json":
        print_json(asdict(added))
    else:
        say(f"Added node {added.id} at {added.address} as a {'learner' if learner else 'voter'}.")


@dev.command("remove-node")
@click.argument("node", type=click.IntRange(1))
@click.option("--force", is_flag=True, help="Remove the node at once, although shards then have too few replicas.")
@data_option
@click.option(
    "--timeout",
    "timeout_s",
    type=FiniteRange(0, min_open=True),
    default=60,
    show_default=True,
    help="Seconds to wait.",
)
@format_option
def remove_node(node: int, force: bool, data: Path, timeout_s: float, output: str) -> None:
    """Remove the node NODE from the cluster, stop it and delete its data. Its replicas and leaderships move to other
    nodes first."""
    DevCluster(data).remove_node(node, force=force, timeout_s=timeout_s)
    if output == "json":
        print_json({"removed": node})
    else:
        say(f"Removed node {node} and its data.")


@dev.command()
@data_option
@docker_option
@format_option
def stop(data: Path, docker: bool, output: str) -> None:
    """Stop all nodes. The data of the nodes stays on disk."""
    stopped = _cluster(data, docker).stop()
    if output == "json":
        print_json({"stopped": stopped})
    else:
        say(f"Stopped {counted(stopped, 'node')}." if stopped else "Nothing was running.")


@dev.command()
@data_option
@docker_option
@format_option
def purge(data: Path, docker: bool, output: str) -> None:
    """Stop all nodes and delete their data permanently."""
    cluster = _cluster(data, docker)
    purged = cluster.purge()
    if output == "json":
        print_json({"purged": purged})
    else:
        say(f"Removed the cluster in {_place(cluster)}." if purged else f"There is no cluster in {_place(cluster)}.")


def _cluster(data: Path, docker: bool) -> Launcher:
    return docker_cluster(_CONTAINERS) if docker else DevCluster(data)


@contextmanager
def _progress() -> Iterator[Tell]:
    """Show the present step of a start while the body runs, on a terminal only."""
    console = note_console()
    if not console.is_terminal:
        yield silent
        return
    with console.status("starting") as status:
        yield status.update


def _place(cluster: Launcher) -> str:
    return str(cluster.directory) if isinstance(cluster, DevCluster) else "containers"


def _as_json(states: list[NodeState]) -> dict[str, object]:
    return {"nodes": [asdict(state) for state in states]}


def _print_states(states: list[NodeState]) -> None:
    columns = ["NODE", "ROLE", "LEADS", "TERM", "ADDRESS", "ROCKETMQ", "METRICS", "PID", "DATA"]
    rows = [
        [
            s.id,
            s.role,
            _shards(s),
            s.term or None,
            s.address,
            s.rocketmq or None,
            f"http://{s.http}/metrics",
            s.pid,
            s.data,
        ]
        for s in states
    ]
    print_table(columns, rows)


def _shards(state: NodeState) -> str | None:
    """Return the shards that a node leads, as the text of a table cell; return None if the node leads no shard."""
    return ", ".join(f"shard {shard}" for shard in state.leads) or None


def _next_commands(cluster: Launcher) -> str:
    option = _option(cluster)
    setting = f"  export LEDGERMQ_BOOTSTRAP={cluster.bootstrap}\n" if option else ""
    if cluster.is_secure:
        setting += f"  export LEDGERMQ_PROFILE_FILE={quote(str(cluster.credentials.profiles))}\n"
    return (
        f"{setting}  ledgermq topic create hello\n  echo hi | ledgermq produce hello\n"
        f"  ledgermq consume hello\n  ledgermq cluster info\n  ledgermq dev stop{option}"
    )


def _option(cluster: Launcher) -> str:
    """Return the option, with its value, that `ledgermq dev` commands need to find this cluster. Return an empty
    string for a cluster in the default directory, because no option is needed."""
    if not isinstance(cluster, DevCluster):
        return " --docker"
    return "" if cluster.directory == DEFAULT_DIRECTORY.resolve() else f" --data {quote(str(cluster.directory))}"
