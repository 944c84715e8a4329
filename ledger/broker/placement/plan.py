"""Plans the moves of replicas. `plan` is a pure function of a `PlacementView`.

    a shard has too few voters on nodes that answer   a new replica on another node; then the lost one goes
    a node is drained                                 each of its replicas moves to another node
    a shard has more voters than an operator wants    one goes
    an operator balances the cluster                  from the node with the most replicas to that with the fewest

A new replica goes to a node that answers and is not drained: first to a room that the shard does not use yet, then to
the node with the fewest replicas, then to the node with the fewest bytes. If all nodes in the best room take part in
moves, the replica waits for one of them, because nothing would move it to another room later.

Each shard has at most one move under way, and each node gets or loses at most one replica at a time. The leader of the
shard sends the new replica, and a node sends at most SENDS_AT_ONCE of them at a time. So a move disturbs little.

If more than one node is gone, or nodes of more than one room, lost replicas are not replaced by themselves: it may be
the network, and copying everything would make it worse. An operator decides, and drains the nodes that are lost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ledger.broker.placement.view import PlacedShard, PlacementView
from ledger.state.placement_table import MoveReason, ReplicaMove
from ledger.topics import TOPICS_SHARD

# Shard 0 has a replica on each node. The placement makes voters of them only up to this number.
MOST_FIRST_VOTERS = 5
# Each new replica is sent at up to `catch_up_bytes_per_s`.
SENDS_AT_ONCE = 2


@dataclass(slots=True)
class PlacementPlan:
    """The moves that shall begin now, and sentences that say which wishes cannot be fulfilled and why."""

    moves: list[ReplicaMove] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)


def plan(view: PlacementView) -> PlacementPlan:
    """Return the moves that shall begin now, in the order of their importance."""
    return _Planner(view).plan()


def short_without(view: PlacementView, node: int) -> list[str]:
    """Return one sentence for each shard that would have too few voters if the node left the cluster for ever, because
    no other node can take its replica. Replicas on a node that is lost are not missed."""
    if view.is_lost(node):
        return []
    found = []
    for shard in view.shards.values():
        replica = shard.replicas.get(node)
        if replica is None or not replica.is_voter:
            continue
        left = [each for each in shard.voters if each != node and shard.replicas[each].answers]
        others = [each for each in view.nodes if each != node and view.is_usable(each) and each not in left]
        reached = len(left) + (1 if others else 0)
        wanted = view.wanted_in(shard.shard)
        if reached < min(wanted, len(left) + 1):
            found.append(f"shard {shard.shard} would have {reached} of {wanted} replicas")
    return found


class _Planner:
    def __init__(self, view: PlacementView) -> None:
        self._view = view
        self._plan = PlacementPlan()
        # Nodes and shards that take part in a move that is under way or planned.
        self._busy: dict[int, None] = {}
        self._moving = dict.fromkeys(view.moves)
        # By node: how many new replicas it sends, as the leader of their shards.
        self._sends: Counter[int] = Counter()
        self._replicas = Counter(dict.fromkeys(view.nodes, 0))
        self._bytes = Counter(dict.fromkeys(view.nodes, 0))
        self._shards = [shard for _, shard in sorted(view.shards.items())]
        # By node: the shards with a voter there, except shard 0.
        self._voted_on: defaultdict[int, list[PlacedShard]] = defaultdict(list)
        for shard in view.data_shards():
            for node in shard.replicas:
                self._replicas[node] += 1
                self._bytes[node] += shard.size
            for node in shard.voters:
                self._voted_on[node].append(shard)
        # By machine room: the nodes that can take a replica now, the best first; None: to be computed.
        self._takers: dict[str, list[int]] | None = None
        for move in view.moves.values():
            self._note(move)

    def plan(self) -> PlacementPlan:
        self._replace()
        self._drain()
        self._remove_surplus()
        if self._view.is_balancing and not self._plan.moves:
            self._balance()
        return self._plan

    # -- the rules

    def _replace(self) -> None:
        gone = [node for node in self._view.gone if node not in self._view.drains]
        rooms = {self._view.nodes[node].room for node in gone}
        may_replace = len(gone) <= 1 or (len(rooms) == 1 and "" not in rooms)
        if not may_replace:
            self._plan.obstacles.append(
                f"nodes {', '.join(map(str, gone))} are gone: replicas of more than one node or room are not replaced "
                "by themselves. If these nodes are lost for good, run `ledgermq cluster drain-node` for each of them"
            )
        for shard in self._free():
            lost = [node for node in shard.voters if self._is_lost(node, shard)]
            living = len(shard.voters) - len(lost)
            wanted = self._wanted(shard)
            if living >= wanted or (not may_replace and not set(lost).isdisjoint(gone)):
                continue
            source = lost[0] if lost and len(shard.voters) >= wanted and shard.shard != TOPICS_SHARD else 0
            self._begin(shard, source, MoveReason.REPLACE)

    def _is_lost(self, node: int, shard: PlacedShard) -> bool:
        """Return True if the shard must do without this voter. A drained node leaves the other shards by moves."""
        return self._view.is_gone(node) or (shard.shard == TOPICS_SHARD and node in self._view.drains)

    def _wanted(self, shard: PlacedShard) -> int:
        """Return how many voters the shard shall have on nodes that are not gone."""
        if shard.shard == TOPICS_SHARD:
            able = sum(self._view.is_usable(node) for node in self._view.nodes)
            return min(self._view.wanted, MOST_FIRST_VOTERS, able)
        wanted = self._view.wanted_in(shard.shard)
        return wanted if self._view.is_exact_in(shard.shard) else min(wanted, len(shard.voters))

    def _drain(self) -> None:
        for shard in self._free_data():
            drained = [node for node in shard.replicas if node in self._view.drains and not self._is_busy(node)]
            if not drained:
                continue
            source = drained[0]
            kept = [node for node in shard.voters if node not in self._view.drains and not self._view.is_gone(node)]
            is_missed = shard.replicas[source].is_voter and len(kept) < self._wanted(shard)
            is_lost = self._view.is_lost(source) and not self._has_candidate(shard)
            if not is_missed or is_lost:
                self._add(ReplicaMove(shard.shard, 0, source, MoveReason.DRAIN))
            else:
                self._begin(shard, source, MoveReason.DRAIN)

    def _remove_surplus(self) -> None:
        for shard in self._free_data():
            is_exact = self._view.is_exact_in(shard.shard)
            if not is_exact or len(shard.voters) <= self._view.wanted_in(shard.shard):
                continue
            source = self._least_useful(shard)
            if not self._is_busy(source):
                self._add(ReplicaMove(shard.shard, 0, source, MoveReason.SURPLUS))

    def _balance(self) -> None:
        while (move := self._better_place()) is not None:
            self._add(move)

    def _better_place(self) -> ReplicaMove | None:
        """Return a move that makes the numbers of replicas of two nodes more equal, or None."""
        takers = [node for nodes in self._free_takers().values() for node in nodes]
        fewest = min((self._replicas[node] for node in takers), default=0)
        full_first = sorted(takers, key=lambda node: (-self._replicas[node], -self._bytes[node], node))
        for source in full_first:
            if self._replicas[source] - fewest < 2:
                break  # no node would become more equal to this one, or to those after it
            for shard in self._voted_on[source]:
                is_free = shard.shard not in self._moving and self._may_send(shard)
                if is_free and (to := self._fairer(shard, source)):
                    return ReplicaMove(shard.shard, to, source, MoveReason.BALANCE)
        return None

    def _fairer(self, shard: PlacedShard, source: int) -> int:
        """Return the node to which the replica on `source` should move for the balance, or 0 if it should stay."""
        to = self._best(shard, source)
        is_fairer = self._replicas[source] - self._replicas[to] >= 2
        is_as_safe = self._shared_room(shard, source, to) <= self._shared_room(shard, source, source)
        return to if to and is_fairer and is_as_safe else 0

    # -- choices

    def _free(self) -> Iterator[PlacedShard]:
        """Return the shards that have no move under way."""
        return (shard for shard in self._shards if shard.shard not in self._moving)

    def _free_data(self) -> Iterator[PlacedShard]:
        """Return the shards that have no move under way, except shard 0, which has a replica on each node."""
        return (shard for shard in self._free() if shard.shard != TOPICS_SHARD)

    def _begin(self, shard: PlacedShard, source: int, reason: MoveReason) -> None:
        if self._is_busy(source) or not self._may_send(shard):
            return
        to = self._best(shard, source)
        if to and self._shared_room(shard, source, to) <= self._least_shared_room(shard, source):
            self._add(ReplicaMove(shard.shard, to, source, reason))
        elif not self._has_candidate(shard):
            what = f"the replica on node {source}" if source else "a replica that is missing"
            self._plan.obstacles.append(
                f"no other node can take {what} of shard {shard.shard}: add a node (`ledgermq cluster add-node`)"
            )

    def _is_busy(self, node: int) -> bool:
        """Return True if the node takes part in a move. A node that is gone is not disturbed by any number of them."""
        return node in self._busy and not self._view.is_gone(node)

    def _has_candidate(self, shard: PlacedShard) -> bool:
        return any(self._view.is_usable(node) for node in self._candidates(shard))

    def _candidates(self, shard: PlacedShard) -> list[int]:
        """Return the nodes that could become a voter of the shard. Learners of shard 0 only need to be promoted."""
        voters = shard.voters
        return [node for node in self._view.nodes if node not in voters]

    def _may_send(self, shard: PlacedShard) -> bool:
        """Return True if the leader of the shard may send another new replica now."""
        return shard.shard == TOPICS_SHARD or self._sends[shard.leader] < SENDS_AT_ONCE

    def _free_takers(self) -> Mapping[str, list[int]]:
        """Return by machine room the nodes that can take a replica now: first the node with the fewest replicas, then
        the node with the fewest bytes."""
        if self._takers is None:
            found = defaultdict(list)
            for node in self._view.nodes:
                if node not in self._busy and self._view.is_usable(node):
                    found[self._view.room_of(node)].append(node)
            for nodes in found.values():
                nodes.sort(key=lambda node: (self._replicas[node], self._bytes[node], node))
            self._takers = dict(found)
        return self._takers

    def _best(self, shard: PlacedShard, source: int) -> int:
        """Return the node that should get the replica which leaves `source`, or 0 if no node can take it now."""
        voters = shard.voters
        rooms = self._free_takers().values()
        firsts = [next((node for node in nodes if node not in voters), 0) for nodes in rooms]
        return min(
            filter(None, firsts),
            key=lambda node: (self._shared_room(shard, source, node), self._replicas[node], self._bytes[node], node),
            default=0,
        )

    def _least_shared_room(self, shard: PlacedShard, source: int) -> int:
        """Return how many voters of the shard, without `source`, are in the machine room of the best node, even if that
        node takes part in a move."""
        rooms = {self._view.room_of(node): node for node in self._candidates(shard) if self._view.is_usable(node)}
        return min((self._shared_room(shard, source, node) for node in rooms.values()), default=0)

    def _shared_room(self, shard: PlacedShard, source: int, to: int) -> int:
        """Return how many voters of the shard, without `source`, are in the machine room of the node `to`."""
        room = self._view.room_of(to)
        stay = [node for node in shard.voters if node not in (source, to)]
        return sum(self._view.room_of(node) == room for node in stay) if room else 0

    def _least_useful(self, shard: PlacedShard) -> int:
        """Return the voter that the shard should lose: one that is gone, one whose room has others, the one on the
        node with the most replicas, and the leader last."""
        return min(
            shard.voters,
            key=lambda node: (
                not self._view.is_gone(node),
                node == shard.leader,
                -self._shared_room(shard, node, node),
                -self._replicas[node],
                node,
            ),
        )

    def _add(self, move: ReplicaMove) -> None:
        self._plan.moves.append(move)
        self._moving[move.shard] = None
        self._note(move)

    def _note(self, move: ReplicaMove) -> None:
        """Count a move as if it were complete."""
        self._takers = None
        moved = self._view.shards.get(move.shard)
        size = moved.size if moved is not None else 0
        if moved is not None and move.to and not (move.to in moved.replicas and moved.replicas[move.to].is_voter):
            self._sends[moved.leader] += 1
        for node, change in ((move.to, 1), (move.source, -1)):
            if not node:
                continue
            self._busy[node] = None
            is_there = moved is not None and node in moved.replicas
            if move.shard != TOPICS_SHARD and is_there is (change < 0):
                self._replicas[node] += change
                self._bytes[node] += change * size
