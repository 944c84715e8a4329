"""The shards of the cluster, and the nodes on which each shard begins. Shard 0 stores this table.

Shard 0 exists from the start, on all nodes. An entry of shard 0 creates each other shard, so every node learns of it
there. Shards are never removed. The present members of a shard are in the shard's own configuration. The table stores
the incarnation of each first node: if that node was wiped and added again, it cannot know whether the shard has
started, and must not start it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from ledger.errors import InvalidArgumentError
from store.directory.vote_file import INCARNATION_BYTES

MAX_SHARDS = 64


class ShardTable:
    """Every shard but 0, by number, with the nodes that it begins on, the one first that is to lead it."""

    def __init__(self, shards: Iterable[tuple[int, Mapping[int, bytes]]] = ()) -> None:
        self._founders = {shard: dict(founders) for shard, founders in sorted(shards, key=itemgetter(0))}

    def __len__(self) -> int:
        return len(self._founders)

    def __iter__(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """(number, nodes), by number."""
        return ((shard, tuple(founders)) for shard, founders in self._founders.items())

    def __contains__(self, shard: int) -> bool:
        return shard == 0 or shard in self._founders

    @property
    def numbers(self) -> list[int]:
        """Of all shards, 0 too."""
        return [0, *self._founders]

    def nodes(self, shard: int) -> tuple[int, ...]:
        """Which it begins on; empty for shard 0 and where there is no such shard."""
        return tuple(self.founders(shard))

    def founders(self, shard: int) -> Mapping[int, bytes]:
        """The nodes that it begins on, and the incarnation that each had in shard 0 then."""
        return self._founders.get(shard, {})

    def add(self, shard: int, nodes: Sequence[int], incarnations: Sequence[bytes]) -> None:
        """Nothing, where there is such a shard. Raises InvalidArgumentError."""
        if shard in self._founders:
            return
        if shard != len(self._founders) + 1 or shard >= MAX_SHARDS:
            raise InvalidArgumentError(
                f"The next shard is {len(self._founders) + 1}, not {shard}; there are {MAX_SHARDS} at most."
            )
        if not nodes or len(set(nodes)) < len(nodes) or min(nodes) < 1:
            raise InvalidArgumentError(f"A shard cannot begin on the nodes {list(nodes)}: name different ones.")
        if [len(each) for each in incarnations] != [INCARNATION_BYTES] * len(nodes):
            raise InvalidArgumentError(
                f"A shard cannot begin on the nodes {list(nodes)} without the incarnation of each "
                f"({INCARNATION_BYTES} bytes)."
            )
        self._founders[shard] = dict(zip(nodes, incarnations, strict=True))
