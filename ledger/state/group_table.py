"""The groups of the cluster: which there are, and on which nodes each of them begins. Group 0 keeps it.

The one idea: group 0 is there by itself, on all nodes; every other group is there because an entry of group 0 says so,
and so every node learns of it in the same place. Groups only ever come. Who is in a group later stands in its own
configuration. It must not know how a group is started, or which queues live in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ledger.errors import InvalidArgumentError

MAX_GROUPS = 64


class GroupTable:
    """Every group but 0, by number, with the nodes that it begins on, the one first that is to lead it."""

    def __init__(self, groups: Iterable[tuple[int, tuple[int, ...]]] = ()) -> None:
        self._nodes = dict(sorted(groups))

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """(number, nodes), by number."""
        return iter(self._nodes.items())

    def __contains__(self, group: int) -> bool:
        return group == 0 or group in self._nodes

    @property
    def numbers(self) -> list[int]:
        """Of all groups, 0 too."""
        return [0, *self._nodes]

    def nodes(self, group: int) -> tuple[int, ...]:
        """Which it begins on; empty for group 0 and where there is no such group."""
        return self._nodes.get(group, ())

    def add(self, group: int, nodes: tuple[int, ...]) -> None:
        """Nothing, where there is such a group. Raises InvalidArgumentError."""
        if group in self._nodes:
            return
        if group != len(self._nodes) + 1 or group >= MAX_GROUPS:
            raise InvalidArgumentError(
                f"The next group is {len(self._nodes) + 1}, not {group}; there are {MAX_GROUPS} at most."
            )
        if not nodes or len(set(nodes)) < len(nodes) or min(nodes) < 1:
            raise InvalidArgumentError(f"A group cannot begin on the nodes {list(nodes)}: name different ones.")
        self._nodes[group] = nodes
