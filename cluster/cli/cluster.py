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
    """`healthy`: all nodes answer and follow one leader; `degraded`: a leader, but not all; else `unavailable`."""

    status: str
    sentence: str


@click.group()
def cluster() -> None:
    """What a cluster's nodes say of themselves; its members, who leads, and where its log begins."""


for command in (*OPERATIONS, *LOG_OPERATIONS):
    cluster.add_command(command)


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
    leaders = [row for row in rows if row.role == "leader"]
    well = [row for row in rows if row.role in ("leader", "follower", "learner") and not row.suspect]
    if not leaders:
        return Health("unavailable", "unavailable: no node leads; nothing can be written until a majority is back")
    leader = max(leaders, key=lambda row: row.term or 0)
    lag = max(row.lag or 0 for row in well)
    status = "healthy" if len(well) == len(rows) else "degraded"
    return Health(
        status,
        f"{status}: node {leader.node} leads in term {leader.term}; {len(well)} of {len(rows)} nodes take part; "
        f"the largest lag is {lag} entries",
    )


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
