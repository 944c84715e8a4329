"""The scenarios of the scale world. Each does what an operator does, and waits until the cluster is healthy again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from chaos.sim.scale.least import least_moves_to_balance, least_to_balance, least_to_leave
from chaos.sim.scale.nodes import ScaleNodes
from chaos.sim.scale.options import GROW, RESTART, ROOM, SHRINK, ScaleOptions
from chaos.sim.scale.placing import CALL_S, ScalePlacement
from chaos.sim.scale.replica import FirstState, ScaleReplica, address_of
from chaos.sim.scale.shard import ScaleShard
from chaos.sim.scale.timing import TICK_MS, TIMING
from chaos.sim.scale.watch import BALANCED, UNEVEN, BrokenInvariant, Watch
from ledger.broker.members.handover import hand_over
from ledger.errors import LedgerError
from ledger.state.commands import BalanceReplicas, DrainNode
from ledger.state.placement_table import DEFAULT_REPLICAS
from ledger.topics import TOPICS_SHARD

# From the end of a process to the start of the next one.
RESTART_S = 5.0
# An operator looks so often whether something is done.
LOOK_S = 0.5
HEALTHY_WITHIN_S = 60.0
# A scenario that is not done after so many seconds has failed.
DONE_WITHIN_S = 2 * 3_600.0
ELECTION_S = TIMING.election_ticks * TICK_MS / 1000


@dataclass(frozen=True, slots=True)
class ScaleCluster:
    """The cluster that a scenario changes, and the watch that checks it."""

    seed: int
    options: ScaleOptions
    nodes: ScaleNodes
    placement: ScalePlacement
    state: FirstState
    watch: Watch


@dataclass(frozen=True, slots=True)
class Aim:
    """What a scenario must reach: the least bytes and moves of replicas that it needs, and by how many replicas the
    nodes may differ at its end."""

    least_bytes: int = 0
    least_moves: int = 0
    uneven: int = UNEVEN


Scenario = Callable[["ScaleCluster"], Awaitable[Aim]]


async def restart(cluster: ScaleCluster) -> Aim:
    """Restart all nodes, one after another. The next node waits until all replicas have the whole log."""
    cluster.watch.begin(0)
    for node in [*cluster.nodes.alive]:
        led = [shard for shard in cluster.nodes.replicas(node) if shard.servers[node].leads]
        replicas = [ScaleReplica(shard.servers[node], cluster.state).broker_replica for shard in led]
        await asyncio.gather(*(hand_over(replica, ELECTION_S) for replica in replicas))
        cluster.placement.stop(node)
        cluster.nodes.kill([node])
        await asyncio.sleep(RESTART_S)
        cluster.nodes.start(node)
        cluster.placement.start(node)
        healthy = all_healthy(cluster.nodes.replicas(node))
        await until(cluster, healthy, HEALTHY_WITHIN_S, f"node {node} is not healthy")
    return Aim()


async def grow(cluster: ScaleCluster) -> Aim:
    """Add nodes to shard 0, one after another, and rebalance."""
    added = range(cluster.options.nodes + 1, cluster.options.nodes + cluster.options.change + 1)
    for node in added:
        cluster.nodes.start(node)
        cluster.placement.start(node)
        await asking(lambda node=node: cluster.placement.changes(TOPICS_SHARD).add(node, address_of(node)))  # type: ignore[misc]
    shards = [*cluster.nodes.shards.values()]
    moves = least_moves_to_balance(shards, cluster.nodes.alive)
    cluster.watch.begin(DEFAULT_REPLICAS, moves)
    least = least_to_balance(shards, cluster.nodes.alive) + len(added) * cluster.nodes.shards[TOPICS_SHARD].size
    await asking(lambda: cluster.placement.first().propose_checked(BalanceReplicas(True)))
    table = cluster.state.placement
    await until(
        cluster, lambda: not table.is_balancing and not table.moves, DONE_WITHIN_S, "the cluster is not balanced"
    )
    return Aim(least, moves, BALANCED)


async def shrink(cluster: ScaleCluster) -> Aim:
    """Drain nodes all at once, remove them, and stop them."""
    leaving = sorted(Random(f"{cluster.seed}/shrink").sample([*cluster.nodes.alive], cluster.options.change))
    least = least_to_leave(cluster.nodes.shards.values(), leaving)
    cluster.watch.begin(DEFAULT_REPLICAS, least[1])
    await remove(cluster, leaving)
    for node in leaving:
        cluster.placement.stop(node)
    cluster.nodes.kill(leaving)
    return Aim(*least)


async def lose_room(cluster: ScaleCluster) -> Aim:
    """Lose all nodes of a machine room for ever. The cluster replaces their replicas by itself; then an operator
    removes the nodes."""
    room = Random(f"{cluster.seed}/room").choice(sorted({cluster.nodes.rooms[node] for node in cluster.nodes.alive}))
    lost = [node for node in cluster.nodes.alive if cluster.nodes.rooms[node] == room]
    least = least_to_leave(cluster.nodes.shards.values(), lost)
    cluster.watch.begin(0, least[1])
    for node in lost:
        cluster.placement.stop(node)
    cluster.nodes.kill(lost)
    cluster.watch.after_loss()
    gone = dict.fromkeys(lost)

    def is_replaced() -> bool:
        return not cluster.state.placement.moves and all(
            shard.leader is not None and gone.keys().isdisjoint(shard.leader.raft.configuration.voters)
            for shard in cluster.nodes.shards.values()
            if shard.number != TOPICS_SHARD  # a node leaves shard 0 when an operator removes it
        )

    await until(cluster, is_replaced, DONE_WITHIN_S, "the lost replicas are not replaced")
    await remove(cluster, lost)
    return Aim(*least)


SCENARIO: dict[str, Scenario] = {RESTART: restart, GROW: grow, SHRINK: shrink, ROOM: lose_room}


async def remove(cluster: ScaleCluster, nodes: list[int]) -> None:
    """Run `ledgermq cluster remove-node` for each of the nodes, and wait until they are no members."""
    for node in nodes:
        await asking(lambda node=node: cluster.placement.keeper.check_drain(node))  # type: ignore[misc]
        await asking(lambda node=node: cluster.placement.first().propose_checked(DrainNode(node, True)))  # type: ignore[misc]
    await until(cluster, lambda: not cluster.state.placement.drains, DONE_WITHIN_S, "the nodes are not drained")


def is_healthy(shard: ScaleShard) -> bool:
    """Return True if the shard has a leader, and all its members answer and have the whole log."""
    leader = shard.leader
    if leader is None or leader.raft.commit < leader.raft.log.last_index:
        return False
    raft = leader.raft
    return all(raft.hears(node) and progress.match >= raft.commit for node, progress in raft.progress.items())


def all_healthy(shards: list[ScaleShard]) -> Callable[[], bool]:
    return lambda: all(map(is_healthy, shards))


async def asking(ask: Callable[[], Awaitable[object]]) -> None:
    """Ask until the request is not refused for the moment."""
    for _ in range(200):
        await asyncio.sleep(CALL_S)
        try:
            await ask()
        except LedgerError as error:
            refusal = error
            await asyncio.sleep(LOOK_S)
        else:
            return
    raise BrokenInvariant(f"a request of an operator succeeds: {refusal}")


async def until(cluster: ScaleCluster, is_done: Callable[[], bool], within_s: float, trouble: str) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while not is_done():
        cluster.watch.check()
        if loop.time() > end:
            raise BrokenInvariant(f"every scenario ends: {trouble} after {within_s:,.0f} s")
        await asyncio.sleep(LOOK_S)
