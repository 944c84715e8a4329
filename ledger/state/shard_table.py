"""The shards of the cluster, and the initial nodes of each shard. Shard 0 stores this table.

Shard 0 exists from the start, on all nodes. An entry of shard 0 creates each other shard, so every node learns of new
shards from shard 0. Shards are never removed. The present members of a shard are in the shard's own configuration. For
each initial node of a shard, the table stores the node's incarnation. An initial node that was wiped and added again
has another incarnation. A wiped node cannot know whether the shard has started, so it must not start the shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from ledger.errors import InvalidArgumentError
from store.directory.vote_file import INCARNATION_BYTES

MAX_SHARDS = 64


class ShardTable:
    """The shards except shard 0, by number, with the initial nodes of each shard. The first of the initial nodes is
    the shard's preferred leader."""

    def __init__(self, shards: Iterable[tuple[int, Mapping[int, bytes]]] = ()) -> None:
        self._founders = {shard: dict(founders) for shard, founders in sorted(shards, key=itemgetter(0))}

    def __len__(self) -> int:
        return len(self._founders)

    def __iter__(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield (number, initial nodes) of each shard, sorted by number."""
        return ((shard, tuple(founders)) for shard, founders in self._founders.items())

    def __contains__(self, shard: int) -> bool:
        return shard == 0 or shard in self._founders

    @property
    def numbers(self) -> list[int]:
        """The numbers of all shards, including shard 0."""
        return [0, *self._founders]

    def nodes(self, shard: int) -> tuple[int, ...]:
        """Return the initial nodes of a shard, beginning with the preferred leader. For shard 0 and for an unknown
        shard the result is empty."""
        return tuple(self.founders(shard))

    def founders(self, shard: int) -> Mapping[int, bytes]:
        """Return the initial nodes of a shard, each with the incarnation that the node had when the shard was
        added."""
        return self._founders.get(shard, {})

    def add(self, shard: int, nodes: Sequence[int], incarnations: Sequence[bytes]) -> None:
        """Add a shard. If the shard exists, do nothing. Raises InvalidArgumentError."""
        if shard in self._founders:
            return
        if shard != len(self._founders) + 1 or shard >= MAX_SHARDS:
            raise InvalidArgumentError(
                f"Shard {shard} cannot be added: the next shard is {len(self._founders) + 1}, and a "
                f"cluster has at most {MAX_SHARDS} "
                "shards."
            )
        if not nodes or len(set(nodes)) < len(nodes) or min(nodes) < 1:
            raise InvalidArgumentError(
                f"A shard cannot begin on the nodes {list(nodes)}: name different nodes, numbered from 1."
            )
        if [len(each) for each in incarnations] != [INCARNATION_BYTES] * len(nodes):
            raise InvalidArgumentError(
                f"A shard cannot begin on the nodes {list(nodes)}: give the incarnation of each node "
                f"({INCARNATION_BYTES} bytes)."
            )
        self._founders[shard] = dict(zip(nodes, incarnations, strict=True))
