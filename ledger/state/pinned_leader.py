"""The pinned leader of a shard: the voter that an operator wants to lead the shard, instead of the preferred leader.
A pin of the cluster itself only says which leader the shard prefers, so that the nodes lead equally many shards.

The pin is in the shard's own log, so every replica knows it, also after a failover and from a snapshot. The pin names
the incarnation of the node. If the node is removed from the shard, the pin has no effect any more: a node that comes
back has another incarnation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class _Voter(Protocol):
    @property
    def incarnation(self) -> bytes: ...


class PinnedLeader(NamedTuple):
    """A node, and the incarnation that the node had as a voter when it was pinned. `balances` is True if no operator
    pinned it, but the cluster."""

    node: int
    incarnation: bytes
    balances: bool = False

    def among(self, voters: Mapping[int, _Voter]) -> int:
        """Return the number of the node if it is one of these voters with the same incarnation, otherwise 0."""
        voter = voters.get(self.node)
        return self.node if voter is not None and voter.incarnation == self.incarnation else 0
