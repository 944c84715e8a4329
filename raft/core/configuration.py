"""The configuration of a shard: its voters and its learners.

A server uses the newest configuration in its log, committed or not (section 6). For this reason, each configuration is
kept with the index of its entry, and is dropped if its entry is cut. Consecutive configurations differ by at most one
voter, so any majority of a configuration shares a node with any majority of the next configuration (dissertation,
section 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Configuration:
    """The voters and learners of a shard, by node id."""

    # Ids of the voters: sorted, distinct, each >= 1. Empty: the log has no configuration yet.
    voters: tuple[int, ...]
    # Ids of the learners, which receive the log and do not count: sorted, distinct, none of them a voter.
    learners: tuple[int, ...] = ()
    # False: the number of this server stands for an earlier member, whose disk was lost. This server is not that voter.
    is_own: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        for nodes in (self.voters, self.learners, self.members):
            assert list(nodes) == sorted(set(nodes)), f"nodes are sorted and distinct, not {nodes}"
            assert all(node >= 1 for node in nodes), f"node ids begin at 1: {nodes}"

    @property
    def members(self) -> tuple[int, ...]:
        """Return the node ids of the voters and learners, sorted."""
        return tuple(sorted((*self.voters, *self.learners))) if self.learners else self.voters

    def is_one_step_from(self, other: Configuration) -> bool:
        """Return True if the voters of this configuration and of `other` differ by at most one node."""
        return len(set(self.voters) ^ set(other.voters)) <= 1


NO_MEMBERS = Configuration(())


class Configurations:
    """The configurations in the log, each with the index of its entry."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[int, Configuration]] = ()) -> None:
        # Ascending indexes, all <= last_index of the log.
        self._entries: list[tuple[int, Configuration]] = []
        self.extend(entries)

    @property
    def newest(self) -> Configuration:
        return self._entries[-1][1] if self._entries else NO_MEMBERS

    @property
    def newest_index(self) -> int:
        """Return the index of the newest configuration's entry. Return 0 if the log has no configuration."""
        return self._entries[-1][0] if self._entries else 0

    def before(self, commit: int) -> Configuration:
        """Return the configuration before the newest configuration, while the newest is not committed. Otherwise return
        one without members."""
        return self._entries[-2][1] if self.newest_index > commit and len(self._entries) > 1 else NO_MEMBERS

    def extend(self, entries: Iterable[tuple[int, Configuration]]) -> None:
        for index, configuration in entries:
            assert not self._entries or self._entries[-1][0] < index, f"configuration {index} is out of order"
            self._entries.append((index, configuration))

    def drop_before(self, snapshot_index: int) -> None:
        """Record that the log now begins after `snapshot_index`. Of all configurations with an index up to
        `snapshot_index`, keep only the newest one."""
        while len(self._entries) > 1 and self._entries[1][0] <= snapshot_index:
            self._entries.pop(0)

    def truncate(self, last_index: int) -> None:
        """Drop the configurations after `last_index`. The newest remaining configuration applies again."""
        while self._entries and self._entries[-1][0] > last_index:
            self._entries.pop()

    def within(self, first: int, last: int) -> tuple[tuple[int, Configuration], ...]:
        """Return the configurations whose index is in first..last, as pairs (index, configuration)."""
        return tuple(entry for entry in self._entries if first <= entry[0] <= last)
