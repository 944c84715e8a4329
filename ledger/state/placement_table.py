"""The placement of replicas, as shard 0 stores it: how many replicas a shard shall have, which nodes are being drained,
and which moves of replicas are under way.

A *move* gives one shard a replica on another node, takes a replica from a node, or does both in this order. A move is
here before its first step is taken and until its last step is committed. So each leader of shard 0 knows what an
earlier leader had begun, and carries it on (`ledger/broker/placement`).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ledger.errors import InvalidArgumentError

# Without a setting, each shard has so many replicas.
DEFAULT_REPLICAS = 3
MAX_DRAINS = 1_024

_HEAD = struct.Struct("<IBBIII")
_SHARD = struct.Struct("<II")
_DRAIN = struct.Struct("<IB")
_MOVE = struct.Struct("<IIIBq")


class MoveReason(IntEnum):
    """Why a replica moves."""

    # The shard has fewer replicas on nodes that answer than it shall have.
    REPLACE = 1
    # The node is drained.
    DRAIN = 2
    # Nodes have different numbers of replicas.
    BALANCE = 3
    # The shard has more replicas than it shall have.
    SURPLUS = 4


@dataclass(frozen=True, slots=True)
class ReplicaMove:
    """Shard `shard` gets a replica on the node `to`, and then loses the replica on the node `source`. 0 means no node;
    one of the two is not 0. `begun_ms` is the append time of the entry that began the move, in ms since 1970."""

    shard: int
    to: int
    source: int
    reason: MoveReason
    begun_ms: int = 0


@dataclass(frozen=True, slots=True)
class NodeDrain:
    """All replicas leave the node, except that of shard 0. With `removes`, the node then leaves the cluster."""

    node: int
    removes: bool


class PlacementTable:
    """What the cluster wants of its replicas, and the moves that are under way, at most one of each shard."""

    def __init__(
        self,
        replicas: int = 0,
        drains: Iterable[NodeDrain] = (),
        moves: Iterable[ReplicaMove] = (),
        of_shards: Iterable[tuple[int, int]] = (),
        *,
        is_paused: bool = False,
        is_balancing: bool = False,
    ) -> None:
        # The number of replicas that an operator has set for all shards; 0: none was set.
        self.set_replicas_to = replicas
        # The same for single shards, by shard. Topics of a class of their own are in these shards.
        self._of_shards = dict(of_shards)
        # While the placement is paused, no move begins. Moves that have begun wait before their next step.
        self.is_paused = is_paused
        # Replicas move from nodes with many to nodes with few.
        self.is_balancing = is_balancing
        self._drains = {drain.node: drain for drain in drains}
        self._moves = {move.shard: move for move in moves}

    @property
    def replicas(self) -> int:
        """Return how many replicas each shard shall have that has no number of its own. Shard 0 has a replica on each
        node."""
        return self.set_replicas_to or DEFAULT_REPLICAS

    @property
    def of_shards(self) -> Mapping[int, int]:
        """Return how many replicas each shard shall have that has a number of its own, sorted by shard."""
        return dict(sorted(self._of_shards.items()))

    @property
    def is_set(self) -> bool:
        """Return True if an operator has set how many replicas all shards or some shards shall have."""
        return self.set_replicas_to > 0 or bool(self._of_shards)

    def replicas_of(self, shard: int) -> int:
        """Return how many replicas this shard shall have."""
        return self._of_shards.get(shard, self.replicas)

    def needed_without(self, shard: int, node: int, voters: Collection[int]) -> int:
        """Return how many voters a shard with these voters must keep when `node` leaves it.

        These are as many as the shard shall have. A shard can have fewer, and the planner gives it no more if no
        operator has set a number. So a move that has made its new replica a voter may then take the replica from its
        source: the shard keeps as many voters as it had before the move.
        """
        wanted, move = self.replicas_of(shard), self._moves.get(shard)
        is_set = self.set_replicas_to > 0 or shard in self._of_shards
        if is_set or move is None or move.source != node or move.to not in voters:
            return wanted
        return min(wanted, len(voters) - 1)

    @property
    def drains(self) -> list[NodeDrain]:
        """Return the nodes that are being drained, sorted by number."""
        return sorted(self._drains.values(), key=lambda drain: drain.node)

    @property
    def moves(self) -> list[ReplicaMove]:
        """Return the moves that are under way, sorted by shard."""
        return sorted(self._moves.values(), key=lambda move: move.shard)

    def move_of(self, shard: int) -> ReplicaMove | None:
        return self._moves.get(shard)

    def set_replicas(self, replicas: int, shard: int = 0) -> None:
        """Set how many replicas all shards shall have, or one shard. 0 takes the number of the shard away."""
        if not shard:
            self.set_replicas_to = replicas
        elif replicas:
            self._of_shards[shard] = replicas
        else:
            self._of_shards.pop(shard, None)

    def drain(self, drain: NodeDrain) -> None:
        """Begin to drain a node, or change what happens at the end. Raises InvalidArgumentError."""
        if drain.node not in self._drains and len(self._drains) >= MAX_DRAINS:
            raise InvalidArgumentError(f"{MAX_DRAINS} nodes are being drained already: wait until one is done.")
        self._drains[drain.node] = drain

    def end_drain(self, node: int) -> bool:
        """End the drain of a node. Return True if the node was being drained."""
        return self._drains.pop(node, None) is not None

    def begin(self, move: ReplicaMove) -> None:
        """Begin a move. Raises InvalidArgumentError if the shard has another move under way."""
        known = self._moves.get(move.shard)
        if known is not None:
            raise InvalidArgumentError(
                f"Shard {move.shard} has a move under way, from node {known.source} to node {known.to}: wait until it "
                "has ended."
            )
        self._moves[move.shard] = move

    def end(self, shard: int) -> bool:
        """End the move of a shard, complete or not. Return True if there was one."""
        return self._moves.pop(shard, None) is not None

    def encode(self) -> bytes:
        """Return the table as bytes. Equal tables have equal bytes."""
        drains, moves, of_shards = self.drains, self.moves, self.of_shards
        return b"".join(
            (
                _HEAD.pack(
                    self.set_replicas_to, self.is_paused, self.is_balancing, len(of_shards), len(drains), len(moves)
                ),
                *(_SHARD.pack(shard, replicas) for shard, replicas in of_shards.items()),
                *(_DRAIN.pack(drain.node, drain.removes) for drain in drains),
                *(_MOVE.pack(move.shard, move.to, move.source, move.reason, move.begun_ms) for move in moves),
            )
        )

    @staticmethod
    def decode(data: bytes) -> PlacementTable:
        """Return the table that `data`, a result of `encode`, contains. Raises ValueError or struct.error if the bytes
        are not a table."""
        replicas, is_paused, is_balancing, of_shards, drains, moves = _HEAD.unpack_from(data)
        begin = _HEAD.size + of_shards * _SHARD.size
        end = begin + drains * _DRAIN.size
        if len(data) != end + moves * _MOVE.size:
            raise ValueError(f"a table of the placement has {len(data)} bytes")
        return PlacementTable(
            replicas,
            (NodeDrain(node, bool(removes)) for node, removes in _each(_DRAIN, data[begin:end])),
            (
                ReplicaMove(shard, to, source, MoveReason(reason), begun_ms)
                for shard, to, source, reason, begun_ms in _each(_MOVE, data[end:])
            ),
            ((shard, wanted) for shard, wanted in _each(_SHARD, data[_HEAD.size : begin])),
            is_paused=bool(is_paused),
            is_balancing=bool(is_balancing),
        )


def _each(layout: struct.Struct, data: bytes) -> Iterator[tuple[int, ...]]:
    return layout.iter_unpack(data)
