"""Keeps the placement of replicas, on the leader of shard 0: begins moves, takes their steps, and ends them.

    plan.py says: shard 3 moves from node 1 to node 4        the entry BeginReplicaMove
    node 4 becomes a learner of shard 3, and catches up      a change of members, by the leader of shard 3
    node 4 becomes a voter                                   a change of members
    node 1 hands over leadership, if it leads, and leaves    a change of members
                                                             the entry EndReplicaMove

Each step looks at the present members of the shard, so a repeated step changes nothing, and a new leader of shard 0
goes on where the old leader ended. A move whose new node is lost is given up: the new replica goes, and the planner
chooses again. Between two steps a shard never has fewer voters that count than before the move: a voter leaves only if
the leader of the shard says that the others do without it (`MemberChanges.remove`).

A node that is drained to be removed leaves shard 0, and so the cluster, when it has no other replica.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.placement.leaders import leader_changes
from ledger.broker.placement.plan import plan, short_without
from ledger.broker.placement.view import ClusterNode, PlacedShard, PlacementView
from ledger.broker.replicas import Replicas
from ledger.errors import LedgerError, ShardShortError, UnknownNodeError
from ledger.state.commands import BalanceReplicas, BeginReplicaMove, Command, EndDrain, EndReplicaMove
from ledger.state.feature_levels import PLACEMENT
from ledger.state.placement_table import ReplicaMove
from ledger.topics import TOPICS_SHARD

log = logging.getLogger("ledgermq.broker.placement")

# How often the keeper looks while something is under way, and while nothing is.
BUSY_LOOK_S = 0.5
IDLE_LOOK_S = 2.0
# A look asks the leader of each shard. A cluster with many shards is looked at less often, so that not more leaders are
# asked in a second.
ASKED_PER_S = 500
# How long the keeper listens for a node before it looks again whether the node is lost.
LISTEN_S = 0.25
# A balance does not end before a node that is silent was silent for so long: it may just have been started again.
RETURN_MS = 30_000
# A cluster whose number of replicas an operator has set is examined as a whole after so many idle looks.
WHOLE_LOOKS = 15


class PlacementCalls(Protocol):
    """Calls the leaders of the shards. Every method can raise LedgerError."""

    async def placed_shard(self, shard: int) -> PlacedShard:
        """Return the members of the shard, as its leader sees them."""

    async def add_replica(self, shard: int, node: int, address: str) -> None:
        """Make the node a learner of the shard."""

    async def promote_replica(self, shard: int, node: int) -> None:
        """Make the learner a voter."""

    async def remove_replica(self, shard: int, node: int) -> None:
        """Remove the member, if the shard can do without it."""

    async def transfer_leadership(self, shard: int, source: int) -> None:
        """Let another voter lead the shard, if the node `source` leads it."""

    async def prefer_leader(self, shard: int, node: int) -> None:
        """Let the shard prefer this voter as its leader, unless an operator has pinned one."""

    async def learn_rooms(self) -> None:
        """Ask for the machine rooms of the nodes, if that was never done."""

    def rooms(self) -> Mapping[int, str]:
        """Return the machine rooms of the nodes, as far as they are known."""


class PlacementKeeper:
    """Keeps the placement while this node leads shard 0. Run `run` as a task as long as the node runs."""

    def __init__(
        self,
        replicas: Replicas,
        calls: PlacementCalls,
        monotonic_s: Callable[[], float],
        *,
        replace_after_s: float,
        shared_wait_s: Callable[[float], float] = float,
    ) -> None:
        """Replicas on a node that was silent for longer than `replace_after_s` are replaced; 0: never."""
        self._replicas = replicas
        self._calls = calls
        self._monotonic_s = monotonic_s
        self._replace_after_s = replace_after_s
        self._shared_wait_s = shared_wait_s
        # By node: since when this leader of shard 0 has not heard it. Empty while this node does not lead shard 0.
        self._silent_since: dict[int, float] = {}
        # By shard: the last error of the shard's move.
        self.troubles: dict[int, str] = {}
        self._idle_looks = 0
        # The wanted numbers of replicas with which the whole cluster was examined last.
        self._examined_for: tuple[int, Mapping[int, int]] = (0, {})
        # By shard: the leader that this balance has chosen.
        self._preferred: dict[int, int] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._shared_wait_s(self._pause_s()))
            try:
                await self.look()
            except LedgerError as error:
                log.info("the placement of replicas cannot go on now, and tries again: %s", error)

    async def look(self) -> None:
        """Take one step of each move that is under way, and begin the moves that are due. Raises LedgerError."""
        replica = self._leading()
        if replica is None:
            self._silent_since.clear()
            self.troubles.clear()
            self._preferred.clear()
            self._examined_for = (0, {})
            return
        self._listen(replica)
        if replica.state.placement.is_paused or not self._has_work(replica):
            return
        view = await self.view()
        await asyncio.gather(*(self._advance(move, view) for move in replica.state.placement.moves))
        await self._end_drains(replica, view)
        await self._begin_moves(replica, view)

    async def view(self) -> PlacementView:
        """Ask the leaders of all shards for their members. A shard whose leader does not answer is left out. Raises
        LedgerError if this node does not lead shard 0."""
        replica = self._replicas.topics
        replica.check_leads(0)
        self._listen(replica)
        numbers = replica.state.shards.numbers
        answers = await asyncio.gather(*map(self._calls.placed_shard, numbers), return_exceptions=True)
        shards = {}
        for number, answer in zip(numbers, answers, strict=True):
            if isinstance(answer, PlacedShard):
                shards[number] = answer
            elif not isinstance(answer, LedgerError):
                raise answer
        table = replica.state.placement
        return PlacementView(
            nodes=self._nodes(replica),
            shards=shards,
            wanted=table.replicas,
            is_exact=table.set_replicas_to > 0,
            wanted_of=table.of_shards,
            is_balancing=table.is_balancing,
            drains={drain.node: drain for drain in table.drains},
            moves={move.shard: move for move in table.moves},
        )

    async def check_drain(self, node: int) -> None:
        """Raise UnknownNodeError if there is no such node. Raise ShardShortError if shards would have too few replicas
        without the node. If the node may just have been lost, wait until it answers, or counts as lost."""
        while True:
            view = await self.view()
            if node not in view.nodes:
                nodes = ", ".join(map(str, view.nodes))
                raise UnknownNodeError(f"node {node} is no node of the cluster: its nodes are {nodes}")
            short = short_without(view, node)
            if not short:
                return
            if await self._hears_again(node):
                raise ShardShortError(
                    f"without node {node}, {'; '.join(short)}: add a node first (`ledgermq cluster add-node`), let "
                    "shards have fewer replicas (`ledgermq cluster set-replicas`), or "
                    f"remove the node at once, with less safety (`ledgermq cluster remove-node {node} --force`)"
                )

    async def check_serves_no_other(self, node: int) -> None:
        """Raise ShardShortError if the node has a replica of another shard than shard 0, and answers. Shard 0 says who
        the nodes of the cluster are, so such a node stays a member of it. Raises LedgerError if this node does not lead
        shard 0."""
        shards = (await self.view()).data_shards()
        others = [each.shard for each in shards if (held := each.replicas.get(node)) is not None and held.answers]
        if others:
            raise ShardShortError(
                f"node {node} serves shards {', '.join(map(str, others))}, and would be no node of the cluster any "
                "more: let its replicas move to other nodes first (`ledgermq cluster remove-node` without --shard), or "
                "force its removal from shard 0 (`--force`)"
            )

    async def rooms(self) -> Mapping[int, str]:
        """Return the machine rooms of the nodes, as far as they are known."""
        with contextlib.suppress(LedgerError):  # without a leader of some shard, the rooms known so far are enough
            await self._calls.learn_rooms()
        return self._calls.rooms()

    # -- what this node knows

    def _leading(self) -> BrokerReplica | None:
        """Return the replica of shard 0 if this node leads it, and it has a placement."""
        replica = self._replicas.first
        if replica is None or not replica.knows_the_end or replica.state.feature_level < PLACEMENT:
            return None
        return replica

    def _listen(self, replica: BrokerReplica) -> None:
        """Note since when each node is silent."""
        raft, now = replica.driver.raft, self._monotonic_s()
        silent = [node for node in raft.progress if not raft.hears(node)]
        self._silent_since = {node: self._silent_since.get(node, now) for node in silent}

    async def _hears_again(self, node: int) -> bool:
        """Listen for a moment. Return False if the node, which is not this one, was silent meanwhile."""
        raft = self._replicas.topics.driver.raft
        before = raft.silent_ticks.get(node)
        await asyncio.sleep(LISTEN_S)
        now = raft.silent_ticks.get(node)
        return before is None or now is None or now <= before

    def _nodes(self, replica: BrokerReplica) -> dict[int, ClusterNode]:
        """Return the nodes of the cluster. A node that leaves is one of them until its removal is committed, because
        `remove_node` of clients waits until the node is not in this list."""
        newest, committed = replica.newest_configuration(), replica.membership.configuration
        assert newest is not None, "a leader has a configuration"
        members = newest.members if committed is None else {**committed.members, **newest.members}
        addresses, rooms, now = replica.membership.addresses(), self._calls.rooms(), self._monotonic_s()
        nodes = {}
        for node, member in sorted(members.items()):
            silent_s = now - self._silent_since.get(node, now)
            is_silent = node in self._silent_since
            nodes[node] = ClusterNode(
                node,
                addresses.get(node) or member.address,
                rooms.get(node, ""),
                max(1.0, silent_s * 1000) if is_silent else 0.0,
                is_silent and 0 < self._replace_after_s <= silent_s,
            )
        return nodes

    def _pause_s(self) -> float:
        """Return the time until the next look (seconds)."""
        replica = self._leading()
        if replica is None or not self._wishes(replica):
            return IDLE_LOOK_S
        return max(BUSY_LOOK_S, len(replica.state.shards.numbers) / ASKED_PER_S)

    def _wishes(self, replica: BrokerReplica) -> bool:
        table = replica.state.placement
        return bool(table.moves or table.drains or table.is_balancing)

    def _has_work(self, replica: BrokerReplica) -> bool:
        """Return True if a look at the whole cluster may find something to do. An idle cluster is seldom examined."""
        now, after = self._monotonic_s(), self._replace_after_s
        somebody_is_gone = any(0 < after <= now - since for since in self._silent_since.values())
        self._idle_looks += 1
        table = replica.state.placement
        wanted = (table.set_replicas_to, table.of_shards)
        is_due = self._idle_looks >= WHOLE_LOOKS and table.is_set
        if is_due or wanted != self._examined_for:
            self._idle_looks, self._examined_for, is_due = 0, wanted, True
        return somebody_is_gone or is_due or self._wishes(replica)

    # -- moves

    async def _begin_moves(self, replica: BrokerReplica, view: PlacementView) -> None:
        """Begin the moves that are due. A shard whose move has just ended waits for the next look."""
        found = plan(view)
        for move in found.moves:
            await self._propose(replica, BeginReplicaMove(move.shard, move.to, move.source, move.reason))
            log.info("%s begins (%s)", _described(move), move.reason.name.lower())
        if not view.is_balancing or found.moves or view.moves or _may_return(view):
            return
        if not await self._balance_leaders(view):
            await self._propose(replica, BalanceReplicas(False))
            self._preferred.clear()
            log.info("the replicas and the leaders are balanced over the nodes")

    async def _balance_leaders(self, view: PlacementView) -> bool:
        """Let shards prefer other leaders, so that the nodes lead equally many. Return False if nothing is left to do:
        each change is tried once, because a node's settings may prefer another leader."""
        changes = {shard: node for shard, node in leader_changes(view).items() if self._preferred.get(shard) != node}
        for shard, node in changes.items():
            await self._calls.prefer_leader(shard, node)
            self._preferred[shard] = node
        return bool(changes)

    async def _advance(self, move: ReplicaMove, view: PlacementView) -> None:
        """Take the next step of the move."""
        shard = view.shards.get(move.shard)
        if shard is None:
            self.troubles[move.shard] = f"the leader of shard {move.shard} does not answer"
            return
        try:
            if await self._take_step(move, shard, view):
                await self._propose(self._replicas.topics, EndReplicaMove(move.shard))
                log.info("%s has ended", _described(move))
                self.troubles.pop(move.shard, None)
        except LedgerError as error:
            if self.troubles.get(move.shard) != error.message:
                log.info("%s waits: %s", _described(move), error)
            self.troubles[move.shard] = error.message

    async def _take_step(self, move: ReplicaMove, shard: PlacedShard, view: PlacementView) -> bool:
        """Take one step of the move. Return True if no step is left. Raises LedgerError."""
        new = shard.replicas.get(move.to)
        if move.to and (new is None or not new.is_voter):
            if not self._may_join(move, view):
                if new is not None and move.shard != TOPICS_SHARD:
                    await self._calls.remove_replica(move.shard, move.to)
                return True
            if new is None:
                await self._calls.add_replica(move.shard, move.to, view.nodes[move.to].address)
            elif new.caught_up:
                await self._calls.promote_replica(move.shard, move.to)
            return False
        if not move.source or move.source not in shard.replicas:
            return True
        if shard.leader == move.source:
            await self._calls.transfer_leadership(move.shard, move.source)
        else:
            await self._calls.remove_replica(move.shard, move.source)
        return False

    def _may_join(self, move: ReplicaMove, view: PlacementView) -> bool:
        """Return False if the node that was to get the replica cannot get it any more."""
        return not view.is_gone(move.to) and move.to not in view.drains

    async def _end_drains(self, replica: BrokerReplica, view: PlacementView) -> None:
        """Let each node that is to be removed and has no replica left leave the cluster."""
        for drain in view.drains.values():
            if drain.node not in view.nodes:
                await self._propose(replica, EndDrain(drain.node))
                log.info("node %d is drained, and is no node of the cluster any more", drain.node)
                continue
            has_replicas = any(drain.node in shard.replicas for shard in view.data_shards())
            all_answer = len(view.shards) == len(replica.state.shards.numbers)
            takes_part = any(drain.node in (move.to, move.source) for move in view.moves.values())
            if drain.removes and all_answer and not has_replicas and not takes_part:
                await self._leave(replica, drain.node, view.shards[TOPICS_SHARD])

    async def _leave(self, replica: BrokerReplica, node: int, shard: PlacedShard) -> None:
        try:
            if shard.leader == node:
                await self._calls.transfer_leadership(TOPICS_SHARD, node)
            else:
                await self._calls.remove_replica(TOPICS_SHARD, node)
        except LedgerError as error:
            log.info("node %d cannot leave the cluster now: %s", node, error)

    async def _propose(self, replica: BrokerReplica, command: Command) -> None:
        await asyncio.shield(replica.propose_checked(command))


def _may_return(view: PlacementView) -> bool:
    """Return True if a node was heard a moment ago, so that it will probably get its share of a balance."""
    return any(0 < each.silent_ms < RETURN_MS for node, each in view.nodes.items() if node not in view.drains)


def _described(move: ReplicaMove) -> str:
    source = f" from node {move.source}" if move.source else ""
    to = f" to node {move.to}" if move.to else ""
    return f"the move of a replica of shard {move.shard}{source}{to}"
