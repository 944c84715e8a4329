"""The commands `ledgermq cluster placement`, `drain-node`, `rebalance` and `set-replicas`: where replicas are, and how
they move.

The cluster carries out every wish by itself, so a command that is interrupted stops nothing. The same command, or
`ledgermq cluster placement`, shows how far it is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TypeVar

import click

from cluster.cli.cluster.drain_progress import DrainProgress
from cluster.cli.cluster.members import NODE, Teller, timeout_option, wait_option
from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option
from cluster.cli.output import print_json, print_table, say
from cluster.replica_moves import described, state_of
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.placement_records import Placement
from ledger.topics import MAX_REPLICAS
from ledger.words import counted

_DRAIN_TIMEOUT_S = 3_600.0
_LOOK_AGAIN_S = 1.0

Result = TypeVar("Result")


@click.command()
@bootstrap_option
@format_option
def placement(bootstrap: str, output: str) -> None:
    """Show which nodes have replicas of which shards, and the moves that are under way."""
    found = _with_admin(bootstrap, lambda admin: admin.placement())
    _show(found, output)


@click.command("drain-node")
@click.argument("node", type=NODE)
@click.option("--stop", is_flag=True, help="End the drain: the node can get replicas again.")
@wait_option
@timeout_option(_DRAIN_TIMEOUT_S)
@bootstrap_option
@format_option
def drain_node(node: int, stop: bool, wait: bool, timeout_s: float, bootstrap: str, output: str) -> None:
    """Move all replicas of the node NODE to other nodes, except that of shard 0.

    The node stays in the cluster and gets no replicas, until `ledgermq cluster drain-node NODE --stop`. Use this
    command before a long repair of a machine, or to confirm that a node is lost for good. The command is refused, with
    a list, if shards would have too few replicas. `ledgermq cluster remove-node` drains a node and removes it.
    """

    async def work(admin: AsyncAdmin) -> Placement:
        if stop:
            await admin.stop_draining(node)
        else:
            tell = Teller[Placement](DrainProgress(node))
            await admin.drain_node(node, wait=wait, timeout_ms=timeout_s * 1000, on_progress=tell)
        return await admin.placement()

    found = _with_admin(bootstrap, work)
    if stop:
        say(f"Node {node} is not drained any more.")
    elif wait:
        say(f"Node {node} has no replicas except that of shard 0.")
    else:
        say("The cluster drains the node by itself. `ledgermq cluster placement` shows how far it is.")
    _show(found, output)


@click.command()
@click.option("--dry-run", is_flag=True, help="Show the first moves, and change nothing.")
@click.option("--watch", is_flag=True, help="Show the moves until none is left.")
@click.option("--stop", is_flag=True, help="Begin no further move. Moves that are under way end.")
@click.option("--pause", is_flag=True, help="Pause all moves of replicas, of drains and of lost nodes too.")
@click.option("--resume", is_flag=True, help="Go on with all moves.")
@bootstrap_option
@format_option
def rebalance(dry_run: bool, watch: bool, stop: bool, pause: bool, resume: bool, bootstrap: str, output: str) -> None:
    """Move replicas from nodes with many to nodes with few, until the numbers differ by at most one. Then let the nodes
    lead equally many shards.

    A node takes part in one move at a time, and replicas of a shard stay in different machine rooms (the setting
    `room`). Shards move as a whole, with the queues in them.
    """
    if sum((dry_run, watch, stop, pause, resume)) > 1:
        raise click.UsageError("give one of --dry-run, --watch, --stop, --pause and --resume")

    async def work(admin: AsyncAdmin) -> Placement:
        if pause or resume:
            await admin.pause_placement(resume=resume)
        elif not dry_run:
            await admin.rebalance(stop=stop)
        found = await admin.placement()
        while watch and (found.balancing or found.moves):
            tell(found)
            await asyncio.sleep(_LOOK_AGAIN_S)
            found = await admin.placement()
        return found

    tell = Teller[Placement](lambda placement: ". ".join(map(described, placement.moves)))
    found = _with_admin(bootstrap, work)
    if dry_run and output != "json":
        _say_plan(found)
        return
    _show(found, output)


@click.command("set-replicas")
@click.argument("replicas", type=click.IntRange(0, MAX_REPLICAS))
@click.option(
    "--shard",
    type=click.IntRange(1),
    help="Only this shard, for topics of a class of their own. 0 replicas: as many as the other shards.",
)
@bootstrap_option
@format_option
def set_replicas(replicas: int, shard: int | None, bootstrap: str, output: str) -> None:
    """Set how many replicas each shard shall have. The cluster then makes missing replicas and removes surplus ones.

    Shard 0 has a replica on every node in any case. The cluster by itself adds voters to shard 0 only up to five. The
    nodes of the first start vote too, and so do nodes added with --promote.

    With --shard, one shard gets a number of its own. `ledgermq topic create --replicas N` places a topic in the shards
    with the number N, and topics without --replicas are in the shards with the number of the cluster.
    """
    if not replicas and shard is None:
        raise click.UsageError("a shard needs 1 replica at least: 0 is only for --shard")

    async def work(admin: AsyncAdmin) -> Placement:
        await admin.set_replicas(replicas or None, shard=shard)
        return await admin.placement()

    found = _with_admin(bootstrap, work)
    if shard is None:
        say(f"Each shard shall have {replicas} replicas.")
    elif replicas:
        say(f"Shard {shard} shall have {replicas} replicas.")
    else:
        say(f"Shard {shard} shall have {found.replicas} replicas, as the other shards.")
    if replicas > len(found.nodes):
        say(f"The cluster has {counted(len(found.nodes), 'node')}: until it has more, a shard has a replica on each.")
    _show(found, output)


PLACEMENT = (placement, drain_node, rebalance, set_replicas)


def _with_admin(bootstrap: str, work: Callable[[AsyncAdmin], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await work(admin)

    return asyncio.run(run())


def _show(found: Placement, output: str) -> None:
    if output == "json":
        print_json(asdict(found))
        return
    replicas = Counter(each.node for shard in found.shards for each in shard.replicas if shard.shard)
    leads = Counter(shard.leader for shard in found.shards)
    stored = Counter[int]()
    for shard in found.shards:
        for each in shard.replicas:
            stored[each.node] += shard.log_bytes
    columns = ["node", "room", "state", "replicas", "leads", "log MB"]
    numbers = {node.node: (replicas[node.node], leads[node.node], stored[node.node] // 10**6) for node in found.nodes}
    print_table(columns, [[each.node, each.room or None, state_of(each), *numbers[each.node]] for each in found.nodes])
    for shard in found.shards:
        if shard.wanted != found.replicas:
            say(f"Shard {shard.shard} shall have {shard.wanted} replicas, the other shards {found.replicas}.")
    for move in found.moves:
        say(described(move) + ".")
    for obstacle in found.obstacles:
        say(obstacle[:1].upper() + obstacle[1:] + ".")
    if found.paused:
        say("All moves are paused. `ledgermq cluster rebalance --resume` goes on.")


def _say_plan(found: Placement) -> None:
    if not found.balance and not found.leader_changes:
        say("The replicas and the leaders are balanced: nothing would move.")
    for move in found.balance:
        say(described(move) + ".")
    if found.leader_changes:
        shards = counted(found.leader_changes, "shard")
        say(f"{shards} would prefer another leader, so that the nodes lead equally many.")
