"""The real `PlacementKeeper` on each node of the scale world, and the calls that it makes.

A call needs CALL_S. If no node leads the shard, the caller looks again until REQUEST_MS have passed, as the client of
a node does. Each call is a request and an answer; both are counted at the node that sends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from chaos.sim.engine.loop import SimLoop
from chaos.sim.scale.nodes import ScaleNodes
from chaos.sim.scale.replica import FirstOnNode, FirstState, ScaleReplica
from chaos.sim.scale.shard import ScaleShard
from chaos.sim.scale.timing import REPLACE_AFTER_S
from cluster.node.shard_calls import REQUEST_MS
from ledger.broker.members.handover import transfer_leadership
from ledger.broker.members.members import Introduction, MemberChanges
from ledger.broker.placement.keeper import PlacementKeeper
from ledger.broker.placement.view import PlacedReplica, PlacedShard
from ledger.errors import UnavailableError
from ledger.state.feature_levels import LATEST_LEVEL
from ledger.topics import TOPICS_SHARD
from raft.configuration_entry import INCARNATION_BYTES, ShardConfiguration

CALL_S = 0.002
LOOK_FOR_LEADER_S = 0.1


class ScalePlacement:
    """The keepers of all nodes, and the state of shard 0."""

    def __init__(self, nodes: ScaleNodes, state: FirstState, loop: SimLoop) -> None:
        self.state = state
        self._nodes = nodes
        self._loop = loop
        self._incarnations = 0
        self._keepers: dict[int, PlacementKeeper] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # Shards that were asked for their members, and the answers that did not come.
        self.looks = 0
        self.unanswered = 0
        # The members of the shards that sleep: nothing changes in them.
        self._known: dict[int, PlacedShard] = {}

    def start(self, node: int) -> None:
        """Start the keeper of a node whose process begins."""
        keeper = PlacementKeeper(
            self._first_on(node),  # type: ignore[arg-type]
            ScaleCalls(self, self._nodes, node),
            self._loop.time,
            replace_after_s=REPLACE_AFTER_S,
        )
        self._keepers[node] = keeper
        self._tasks[node] = self._loop.create_task(keeper.run())

    def stop(self, node: int) -> None:
        """End the keeper of a node whose process ends."""
        del self._keepers[node]
        self._tasks.pop(node).cancel()

    def _first_on(self, node: int) -> FirstOnNode:
        return FirstOnNode(lambda: self._nodes.shards[TOPICS_SHARD].servers.get(node), self.state)

    @property
    def keeper(self) -> PlacementKeeper:
        """Return the keeper that works: that of the leader of shard 0. Raises UnavailableError."""
        return self._keepers[self.first().driver.raft.node]

    def first(self) -> ScaleReplica:
        """Return the leader of shard 0. Raises UnavailableError."""
        return self.leader(TOPICS_SHARD)

    def leader(self, number: int) -> ScaleReplica:
        """Return the leader of a shard. Raises UnavailableError."""
        server = self._nodes.shards[number].leader
        if server is None:
            raise UnavailableError(f"no node leads shard {number}")
        return ScaleReplica(server, self.state)

    def changes(self, number: int) -> MemberChanges:
        """Return the real changes of members of a shard, on its leader. Raises UnavailableError."""
        shard = self._nodes.shards[number]

        async def ask(node: int, _: str, __: ShardConfiguration) -> Introduction | None:
            return self._introduction(shard, node)

        return MemberChanges(self.leader(number).broker_replica, ask)

    def _introduction(self, shard: ScaleShard, node: int) -> Introduction | None:
        if node not in self._nodes.alive:
            return None
        if node not in shard.servers:
            shard.open_empty(node, self.incarnation())
        server = shard.servers[node]
        return Introduction(node, server.incarnation, server.raft.log.last_index == 0, "", LATEST_LEVEL)

    def incarnation(self) -> bytes:
        self._incarnations += 1
        return self._incarnations.to_bytes(INCARNATION_BYTES, "big")

    def placed_shard(self, number: int) -> PlacedShard:
        """Return what the leader of a shard says of its members. Raises UnavailableError."""
        shard = self._nodes.shards[number]
        known = self._known.get(number)
        if known is not None and shard.asleep:
            return known
        replica = self.leader(number)
        replica.check_leads(0)
        raft, states = replica.driver.raft, self.changes(number).states(replica.newest_configuration())
        replicas = {
            each.node: PlacedReplica(
                each.node, each.is_voter, each.answers, not each.is_suspect, each.caught_up, each.lag_bytes
            )
            for each in states
        }
        placed = self._known[number] = PlacedShard(number, raft.node, replicas, shard.size, raft.preferred_leader)
        return placed


class ScaleCalls:
    """The calls of one node's keeper to the leaders of the shards: `PlacementCalls`."""

    def __init__(self, placement: ScalePlacement, nodes: ScaleNodes, node: int) -> None:
        self._placement = placement
        self._nodes = nodes
        self._node = node

    async def placed_shard(self, shard: int) -> PlacedShard:
        self._placement.looks += 1
        await self._reach(shard)
        return self._placement.placed_shard(shard)

    async def add_replica(self, shard: int, node: int, address: str) -> None:
        await self._reach(shard)
        await self._placement.changes(shard).add(node, address)

    async def promote_replica(self, shard: int, node: int) -> None:
        await self._reach(shard)
        if (change := await self._placement.changes(shard).promote(node)) is not None:
            await change.future

    async def remove_replica(self, shard: int, node: int) -> None:
        await self._reach(shard)
        placement = self._placement.state.placement
        await self._placement.changes(shard).remove(node, placement=placement).future

    async def transfer_leadership(self, shard: int, source: int) -> None:
        await self._reach(shard)
        transfer_leadership(self._placement.leader(shard).broker_replica, from_node=source)

    async def prefer_leader(self, shard: int, node: int) -> None:
        await self._reach(shard)
        await self._placement.leader(shard).prefer(node)

    async def learn_rooms(self) -> None:
        return

    def rooms(self) -> Mapping[int, str]:
        return self._nodes.rooms

    async def _reach(self, number: int) -> None:
        """Send a request to the leader of a shard. Raises UnavailableError if there is none for REQUEST_MS."""
        shard, calls = self._nodes.shards[number], self._nodes.traffic.calls
        calls[self._node] += 1
        await asyncio.sleep(CALL_S)
        for _ in range(round(REQUEST_MS / 1000 / LOOK_FOR_LEADER_S)):
            leader = shard.leader
            if leader is not None and leader.raft.log.term(leader.raft.commit) == leader.raft.term:
                calls[leader.node] += 1
                return
            await asyncio.sleep(LOOK_FOR_LEADER_S)
        self._placement.unanswered += 1
        raise UnavailableError(f"no node led shard {number} for {REQUEST_MS} ms")
