"""Who belongs to the shard.

The one idea (section 6): a server uses the newest configuration in its log, committed or not. So configurations are
kept beside the index of their entry, and go when that entry is cut away. Two configurations that follow each other
differ by one voter at most, so any majority of the one shares a node with any majority of the other (dissertation,
section 4.1). Must not know: addresses, incarnations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Configuration:
    # Ids of the nodes that vote and are counted: sorted, without repeats, each >= 1. Empty: no configuration yet.
    voters: tuple[int, ...]
    # Ids of the nodes that get the log and are not counted: sorted, without repeats, none of them a voter.
    learners: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for nodes in (self.voters, self.learners, self.members):
            assert list(nodes) == sorted(set(nodes)), f"nodes are sorted and distinct, not {nodes}"
            assert all(node >= 1 for node in nodes), f"node ids begin at 1: {nodes}"

    @property
    def members(self) -> tuple[int, ...]:
        """All to whom the log goes, sorted."""
        return tuple(sorted((*self.voters, *self.learners))) if self.learners else self.voters

    def is_one_step_from(self, other: Configuration) -> bool:
        """Whether their voters differ by one at most."""
        return len(set(self.voters) ^ set(other.voters)) <= 1


NOBODY = Configuration(())


class Configurations:
    """The configurations in the log, each with the index of its entry."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[int, Configuration]] = ()) -> None:
        # Ascending indexes, all <= last_index of the log.
        self._entries: list[tuple[int, Configuration]] = []
        self.extend(entries)

    @property
    def newest(self) -> Configuration:
        return self._entries[-1][1] if self._entries else NOBODY

    @property
    def newest_index(self) -> int:
        """Index of the newest one's entry; 0 when there is none."""
        return self._entries[-1][0] if self._entries else 0

    def voters_before(self, commit: int) -> tuple[int, ...]:
        """Who votes in the configuration before the newest one, while that is not committed; nobody otherwise."""
        return self._entries[-2][1].voters if self.newest_index > commit and len(self._entries) > 1 else ()

    def extend(self, entries: Iterable[tuple[int, Configuration]]) -> None:
        for index, configuration in entries:
            assert not self._entries or self._entries[-1][0] < index, f"configuration {index} is out of order"
            self._entries.append((index, configuration))

    def drop_before(self, base_index: int) -> None:
        """The log begins behind that entry: of the configurations up to it the newest is enough."""
        while len(self._entries) > 1 and self._entries[1][0] <= base_index:
            self._entries.pop(0)

    def truncate(self, last_index: int) -> None:
        """Forget what came after `last_index`: the configuration before counts again."""
        while self._entries and self._entries[-1][0] > last_index:
            self._entries.pop()

    def within(self, first: int, last: int) -> tuple[tuple[int, Configuration], ...]:
        """Those at first..last."""
        return tuple(entry for entry in self._entries if first <= entry[0] <= last)
