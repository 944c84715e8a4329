"""`ledgermq dev`: a cluster on this machine, of processes or of containers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from cluster.cli.local.containers import docker_cluster
from cluster.cli.options import data_option, format_option, renamed_option
from cluster.cli.output import counted, print_json, print_table, say
from cluster.local.launcher import DEFAULT_NODES, Launcher
from cluster.local.processes import DEFAULT_DIRECTORY, DevCluster, NodeState

_CONTAINERS = "dev"
"""What the cluster in containers is called, which there is one of."""

docker_option = click.option(
    "--docker", is_flag=True, help="The cluster in containers, of the image ledgermq:dev; --data says nothing then."
)


@click.group()
def dev() -> None:
    """A local cluster: its node processes, logs and data lie under one directory, and it stays until it is stopped."""


@dev.command()
@click.option(
    "-n",
    "--nodes",
    type=click.IntRange(1, 9),
    help=f"How many.  [default: {DEFAULT_NODES}, or as many as the cluster has]",
)
@data_option
@docker_option
@click.option("--base-port", type=click.IntRange(1, 65_535), help="The first port; each node takes two.")
@click.option("--flush", type=click.Choice(["async", "sync"]), help="Acknowledge from page cache, or from disk.")
@renamed_option("--groups", "--shards")
@click.option(
    "--shards", type=click.IntRange(1, 64), help="How many shards topics spread over, led by different nodes."
)
@format_option
def start(
    nodes: int | None,
    data: Path,
    docker: bool,
    base_port: int | None,
    flush: str | None,
    shards: int | None,
    output: str,
) -> None:
    """Start a cluster, or what of it does not run, and wait until it has a leader.

    Starting twice changes nothing; starting after a stop goes on with the same data.
    """
    cluster = _cluster(data, docker)
    new = not cluster.exists
    states = cluster.start(nodes, base_port=base_port, flush=flush, shards=shards)
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
    """Show the nodes: process, role, address."""
    states = _cluster(data, docker).status()
    if output == "json":
        print_json(_as_json(states))
    else:
        _print_states(states)


@dev.command("add-node")
@data_option
@click.option("--learner", is_flag=True, help="Leave it a learner, which gets the log and does not vote.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(0, min_open=True), default=60, show_default=True)
@format_option
def add_node(data: Path, learner: bool, timeout_s: float, output: str) -> None:
    """Start one more node and add it to the cluster. Ends when it has caught up and votes."""
    added = DevCluster(data).add_node(promote=not learner, timeout_s=timeout_s)
    if output == "json":
        print_json(asdict(added))
    else:
        say(f"Added node {added.id} at {added.address} as a {'learner' if learner else 'voter'}.")


@dev.command("remove-node")
@click.argument("node", type=click.IntRange(1))
@data_option
@click.option("--timeout", "timeout_s", type=click.FloatRange(0, min_open=True), default=60, show_default=True)
@format_option
def remove_node(node: int, data: Path, timeout_s: float, output: str) -> None:
    """Remove the node NODE from the cluster, stop it, and remove its data. A leader hands over by that."""
    DevCluster(data).remove_node(node, timeout_s=timeout_s)
    if output == "json":
        print_json({"removed": node})
    else:
        say(f"Removed node {node}, and its data.")


@dev.command()
@data_option
@docker_option
@format_option
def stop(data: Path, docker: bool, output: str) -> None:
    """Stop all nodes. Their data stays."""
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
    """Stop all nodes and remove their data."""
    cluster = _cluster(data, docker)
    purged = cluster.purge()
    if output == "json":
        print_json({"purged": purged})
    else:
        say(f"Removed the cluster in {_place(cluster)}." if purged else f"There is no cluster in {_place(cluster)}.")


def _cluster(data: Path, docker: bool) -> Launcher:
    return docker_cluster(_CONTAINERS) if docker else DevCluster(data)


def _place(cluster: Launcher) -> str:
    return str(cluster.directory) if isinstance(cluster, DevCluster) else "containers"


def _as_json(states: list[NodeState]) -> dict[str, object]:
    return {"nodes": [asdict(state) for state in states]}


def _print_states(states: list[NodeState]) -> None:
    columns = ["NODE", "ROLE", "LEADS", "TERM", "ADDRESS", "METRICS", "PID", "DATA"]
    rows = [
        [s.id, s.role, _shards(s), s.term or None, s.address, f"http://{s.http}/metrics", s.pid, s.data] for s in states
    ]
    print_table(columns, rows)


def _shards(state: NodeState) -> str | None:
    """The shards that a node leads, in a column."""
    return ", ".join(f"shard {shard}" for shard in state.leads) or None


def _next_commands(cluster: Launcher) -> str:
    option = _option(cluster)
    setting = f"  export LEDGERMQ_BOOTSTRAP={cluster.bootstrap}\n" if option else ""
    return (
        f"{setting}  ledgermq topic create hello\n  echo hi | ledgermq produce hello\n"
        f"  ledgermq consume hello\n  ledgermq cluster info\n  ledgermq dev stop{option}"
    )


def _option(cluster: Launcher) -> str:
    """By which commands find it; none for the one in its own directory, which is found without being named."""
    if not isinstance(cluster, DevCluster):
        return " --docker"
    return "" if cluster.directory == DEFAULT_DIRECTORY.resolve() else f" --data {cluster.directory}"
