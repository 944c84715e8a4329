"""`ledgermq cluster`: what the nodes of a cluster say of themselves; what an operator does is in cluster_members.py and
cluster_log.py."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass

import click

from cluster.cli.cluster_log import LOG_OPERATIONS
from cluster.cli.cluster_members import OPERATIONS
from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option
from cluster.cli.output import print_json, print_table, say
from ledger import AsyncAdmin
from ledger.client.records import NodeStatus


@dataclass(frozen=True, slots=True)
class Row:
    """One node in one group; what an unreachable node would say is None. `lag`: how many entries it is behind.
    `suspect`: it may have lost what it acknowledged, and is not counted until it has caught up."""

    node: int
    address: str
    group: int | None
    role: str
    term: int | None
    last_index: int | None
    commit: int | None
    applied: int | None
    lag: int | None
    suspect: bool | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """`healthy`: all nodes answer and follow one leader in each group; `degraded`: each group has a leader, but not all
    do; else `unavailable`."""

    status: str
    sentence: str


@click.group()
def cluster() -> None:
    """What a cluster's nodes say of themselves; its members and groups, who leads, and where its log begins."""


for command in (*OPERATIONS, *LOG_OPERATIONS):
    cluster.add_command(command)


@cluster.command("add-group")
@click.option("--nodes", help="Those that it begins on, as in 1,2,3.  [default: the three with the fewest replicas]")
@bootstrap_option
@format_option
def add_group(nodes: str | None, bootstrap: str, output: str) -> None:
    """Make one more Raft group. Topics and queues that are made from now on spread over it too."""
    try:
        wanted = [int(node) for node in nodes.split(",")] if nodes else []
    except ValueError as error:
        raise click.BadParameter(f"{nodes!r} is not of the form 1,2,3", param_hint="--nodes") from error

    async def work() -> int:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.add_group(wanted)

    added = asyncio.run(work())
    if output == "json":
        print_json({"group": added})
    else:
        say(f"Added group {added}. See `ledgermq cluster info` for who leads it.")


@cluster.command()
@bootstrap_option
@format_option
def info(bootstrap: str, output: str) -> None:
    """Show every node: role, term, log, lag behind the leader.

    Learners get the log and do not vote; a suspect node may have lost what it acknowledged, and is not counted until it
    has caught up. A node that was removed, or waits to be added, is shown where --bootstrap names it.
    """
    rows = rows_of(_ask(bootstrap))
    if output == "json":
        print_json({"nodes": [asdict(row) for row in rows]})
    else:
        _print_rows(rows)


@cluster.command()
@bootstrap_option
@format_option
def health(bootstrap: str, output: str) -> int:
    """Say whether all is well: exit status 0 when every node answers and follows one leader, otherwise 1."""
    rows = rows_of(_ask(bootstrap))
    verdict = health_of(rows)
    if output == "json":
        print_json({**asdict(verdict), "nodes": [asdict(row) for row in rows]})
    else:
        _print_rows(rows)
        say(f"\n{verdict.sentence}")
    return 0 if verdict.status == "healthy" else 1


def rows_of(nodes: list[NodeStatus]) -> list[Row]:
    """A row for each node and group; the leader of the highest term is what the others are measured against."""
    leaders = [group for node in nodes for group in node.groups if group.role == "leader"]
    leading = {leader.group: leader.last_index for leader in sorted(leaders, key=lambda leader: leader.term)}
    rows = []
    for node in sorted(nodes, key=lambda one: one.node):
        if not node.groups:
            role = "waiting" if node.reachable else "unreachable"
            rows.append(Row(node.node, node.address, None, role, None, None, None, None, None))
        for group in node.groups:
            last = leading.get(group.group)
            lag = None if last is None else max(0, last - group.last_index)
            rows.append(
                Row(
                    node=node.node,
                    address=node.address,
                    group=group.group,
                    role=group.role,
                    term=group.term,
                    last_index=group.last_index,
                    commit=group.commit,
                    applied=group.applied,
                    lag=lag,
                    suspect=group.suspect,
                )
            )
    return rows


def health_of(rows: list[Row]) -> Health:
    """What the rows mean for somebody who wants to write."""
    leaders = {row.group: row for row in sorted(rows, key=lambda row: row.term or 0) if row.role == "leader"}
    groups = sorted({row.group for row in rows if row.group is not None})
    if not leaders:
        return Health("unavailable", "unavailable: no node leads; nothing can be written until a majority is back")
    if idle := [str(group) for group in groups if group not in leaders]:
        return Health("unavailable", f"unavailable: nobody leads group {', '.join(idle)}; what lives there waits")
    unwell = [row for row in rows if row.role not in ("leader", "follower", "learner") or row.suspect]
    nodes, absent = {row.node for row in rows}, {row.node for row in unwell}
    lag = max(row.lag or 0 for row in rows if row not in unwell)
    status = "degraded" if unwell else "healthy"
    return Health(
        status,
        f"{status}: {_who_leads([leaders[group] for group in groups])}; {len(nodes - absent)} of {len(nodes)} nodes "
        f"take part; the largest lag is {lag} entries",
    )


def _who_leads(leaders: list[Row]) -> str:
    if len(leaders) == 1:
        return f"node {leaders[0].node} leads in term {leaders[0].term}"
    return ", ".join(f"node {leader.node} leads group {leader.group} in term {leader.term}" for leader in leaders)


def _ask(bootstrap: str) -> list[NodeStatus]:
    async def work() -> list[NodeStatus]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return list(await admin.cluster())

    return asyncio.run(work())


def _print_rows(rows: list[Row]) -> None:
    columns = ["NODE", "ADDRESS", "GROUP", "ROLE", "TERM", "LAST INDEX", "COMMIT", "APPLIED", "LAG"]
    cells = [
        [row.node, row.address, row.group, _role(row), row.term, row.last_index, row.commit, row.applied, row.lag]
        for row in rows
    ]
    print_table(columns, cells)


def _role(row: Row) -> str:
    return f"{row.role}, suspect" if row.suspect else row.role
