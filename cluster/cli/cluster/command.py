"""The commands `ledgermq cluster info`, `health` and `add-shard`. The other subcommands of `ledgermq cluster` are
in `members.py`, `leadership.py` and `log_start.py`."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

import click

from cluster.cli.cluster.leadership import transfer_leader
from cluster.cli.cluster.log_start import LOG_OPERATIONS
from cluster.cli.cluster.members import OPERATIONS
from cluster.cli.cluster.placement import PLACEMENT
from cluster.cli.command_group import CommandGroup
from cluster.cli.failure import CommandError
from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option
from cluster.cli.output import print_json, print_table, say
from cluster.cli.verdict import gives_verdict
from cluster.health import ReplicaRow, has_wrong_clock, health_of, health_of_one, marks_of, rows_of
from cluster.local.toml_text import toml_text
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.records import NodeStatus
from ledger.local_socket import is_socket
from ledger.private_file import make_private
from raft.cluster_clock import clock_sentence
from raft.transport.cluster_secret import new_secret

_ONLY_LOCAL = "\nThe local socket shows its own node. To see the others too, say who you are with --user or --profile."


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Show the nodes and shards of a cluster, and change its members, its leaders and the start of its logs."""


for command in (*OPERATIONS, *PLACEMENT, transfer_leader, *LOG_OPERATIONS):
    cluster.add_command(command)


@cluster.command()
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("cluster.secret"),
    show_default=True,
    help="File to write.",
)
def init(out: Path) -> None:
    """Make the secret of a new cluster, by which its nodes prove themselves without TLS, and the key that encrypts the
    RocketMQ secrets of users.

    Copy the files to all nodes, readable for their user only, and set `cluster_secret_file` (without TLS) and
    `secrets_key_file` (for RocketMQ's clients) there. For a rotation, put the new secret on a second line on all nodes,
    then make it the first line, then remove the old one.
    """
    key = out.with_suffix(".secrets-key")
    settings = (
        f"cluster_secret_file = {toml_text(str(out.absolute()))}\nsecrets_key_file = {toml_text(str(key.absolute()))}"
    )
    _write_secret(out)
    try:
        _write_secret(key)
    except CommandError:
        out.unlink()  # otherwise the next attempt would refuse to replace it
        raise
    say(f"Wrote {out} and {key}. Settings of every node:\n")
    click.echo(settings)


def _write_secret(path: Path) -> None:
    try:
        make_private(path, f"{new_secret()}\n".encode())
    except FileExistsError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}; an existing file is never replaced") from error
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error


@cluster.command("add-shard")
@click.option(
    "--nodes", help="Nodes for the first replicas, as in 1,2,3.  [default: the three with the fewest replicas]"
)
@bootstrap_option
@format_option
def add_shard(nodes: str | None, bootstrap: str, output: str) -> None:
    """Add a shard to the cluster. Topics and queues that are created later can use the new shard; existing queues
    stay in their shards."""
    try:
        wanted = [int(node) for node in nodes.split(",")] if nodes else []
    except ValueError as error:
        raise click.BadParameter(
            f"{nodes!r} is not of the form 1,2,3: give the numbers of nodes, separated by commas", param_hint="--nodes"
        ) from error

    async def work() -> int:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.add_shard(wanted)

    added = asyncio.run(work())
    if output == "json":
        print_json({"shard": added})
    else:
        say(f"Added shard {added}. `ledgermq cluster info` shows its leader.")


@cluster.command()
@bootstrap_option
@format_option
def info(bootstrap: str, output: str) -> None:
    """Show every replica: node, shard, role, term, indexes of the log, and lag in entries.

    A learner receives the log and does not vote. A suspect replica may have lost entries that it acknowledged. A
    suspect replica does not vote until it has caught up. A stopped replica applies no more entries, because its program
    cannot apply one: the program is too old, or has a fault. A diverged replica and another member contradict each
    other, so the shard takes no writes. An unacknowledged leader cannot commit, because followers acknowledge no
    entries. A replica with the mark "pinned" leads its shard whenever it can (`ledgermq cluster transfer-leader
    --pin`). A replica with the mark "no writes" takes no writes of clients, because the disk of its node is full or has
    failed. "wrong clock" marks a node whose wall clock differs from the clocks of most nodes by more than 5 s. The
    reasons are printed below the table. A node that was removed, or that waits to be added, is shown only if
    --bootstrap names it.
    """
    nodes = _ask(bootstrap)
    rows = rows_of(nodes)
    if output == "json":
        print_json({"nodes": [asdict(row) for row in rows]})
        return
    _print_rows(rows)
    if is_socket(bootstrap):
        say(_ONLY_LOCAL)


@cluster.command()
@bootstrap_option
@format_option
@gives_verdict
def health(bootstrap: str, output: str) -> int:
    """Check that every shard has a leader, and that every replica is a leader, a follower or a learner, takes writes,
    has a right clock and is not suspect.

    The exit status is 0 if the cluster is healthy, and 1 if it is degraded or unavailable. With --local the command
    checks only what this node sees.
    """
    nodes = _ask(bootstrap)
    rows = rows_of(nodes)
    verdict = health_of_one(nodes[0]) if is_socket(bootstrap) and len(nodes) == 1 else health_of(rows)
    if output == "json":
        print_json({**asdict(verdict), "nodes": [asdict(row) for row in rows]})
    else:
        _print_rows(rows)
        say(f"\n{verdict.sentence}")
    return 0 if verdict.status == "healthy" else 1


def _ask(bootstrap: str) -> list[NodeStatus]:
    """Return the status of the nodes. A local socket without a user reaches only its own node."""

    async def work() -> list[NodeStatus]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            nodes = list(await admin.cluster())
        return [node for node in nodes if node.reachable] if is_socket(bootstrap) else nodes

    return asyncio.run(work())


def _print_rows(rows: list[ReplicaRow]) -> None:
    columns = ["NODE", "ADDRESS", "SHARD", "ROLE", "TERM", "LAST INDEX", "COMMIT", "APPLIED", "LAG"]
    cells = [
        [row.node, row.address, row.shard, _role(row), row.term, row.last_index, row.commit, row.applied, row.lag]
        for row in rows
    ]
    print_table(columns, cells)
    wrong = {row.node: row.clock_offset_ms for row in rows if has_wrong_clock(row)}
    for node, offset_ms in wrong.items():
        say(f"Node {node}: {clock_sentence(offset_ms or 0)}")
    for row in rows:
        for trouble in filter(None, (row.stopped, row.diverged, row.no_writes, _unacknowledged(row), _rebuilt(row))):
            say(f"Node {row.node}, shard {row.shard}: {trouble}")


def _unacknowledged(row: ReplicaRow) -> str:
    nodes = ", ".join(str(node) for node in row.unacknowledged_by)
    return f"no write is committed: nodes {nodes} answer heartbeats and acknowledge no entries" if nodes else ""


def _rebuilt(row: ReplicaRow) -> str:
    if not row.rebuilt:
        return ""
    return (
        f"its last start built state and indexes anew from the log, because {row.rebuilt}. If this happens again, "
        "check the disk."
    )


def _role(row: ReplicaRow) -> str:
    pinned = ["pinned"] if row.pinned_leader == row.node else []
    return ", ".join([row.role, *pinned, *marks_of(row)])
