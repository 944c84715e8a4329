"""The groups of the cluster: which there are, and on which nodes each of them begins. Group 0 keeps it.

The one idea: group 0 is there by itself, on all nodes; every other group is there because an entry of group 0 says so,
and so every node learns of it in the same place. Groups only ever come. Who is in a group later stands in its own
configuration. With each node stands which directory it had: where the one that is to begin the group was wiped and
added again, it cannot know whether that has begun, and must not begin it. It must not know how a group is started, or
which queues live in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from ledger.errors import InvalidArgumentError
from store.vote_file import INCARNATION_BYTES

MAX_GROUPS = 64


class GroupTable:
    """Every group but 0, by number, with the nodes that it begins on, the one first that is to lead it."""

    def __init__(self, groups: Iterable[tuple[int, Mapping[int, bytes]]] = ()) -> None:
        self._founders = {group: dict(founders) for group, founders in sorted(groups, key=itemgetter(0))}

    def __len__(self) -> int:
        return len(self._founders)

    def __iter__(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """(number, nodes), by number."""
        return ((group, tuple(founders)) for group, founders in self._founders.items())

    def __contains__(self, group: int) -> bool:
        return group == 0 or group in self._founders

    @property
    def numbers(self) -> list[int]:
        """Of all groups, 0 too."""
        return [0, *self._founders]

    def nodes(self, group: int) -> tuple[int, ...]:
        """Which it begins on; empty for group 0 and where there is no such group."""
        return tuple(self.founders(group))

    def founders(self, group: int) -> Mapping[int, bytes]:
        """The nodes that it begins on, and the incarnation that each had in group 0 then."""
        return self._founders.get(group, {})

    def add(self, group: int, nodes: Sequence[int], incarnations: Sequence[bytes]) -> None:
        """Nothing, where there is such a group. Raises InvalidArgumentError."""
        if group in self._founders:
            return
        if group != len(self._founders) + 1 or group >= MAX_GROUPS:
            raise InvalidArgumentError(
                f"The next group is {len(self._founders) + 1}, not {group}; there are {MAX_GROUPS} at most."
            )
        if not nodes or len(set(nodes)) < len(nodes) or min(nodes) < 1:
            raise InvalidArgumentError(f"A group cannot begin on the nodes {list(nodes)}: name different ones.")
        if [len(each) for each in incarnations] != [INCARNATION_BYTES] * len(nodes):
            raise InvalidArgumentError(
                f"A group cannot begin on the nodes {list(nodes)} without the incarnation of each "
                f"({INCARNATION_BYTES} bytes)."
            )
        self._founders[group] = dict(zip(nodes, incarnations, strict=True))
