"""Which shard coordinates which consumer group, and the numbers by which consumer epochs never fall.

    shard 0              places: group ──> (shard, number)   the decision, one entry
    the shard itself     hosted: group ──> number            noted by the shard's leader, before a member joins there

A group without a place is coordinated in shard 0, as all groups were below feature level 6. Each time that a group is
placed, it gets a number that is larger than all its earlier ones. The epochs of a group are `number * 2**42 + index of
the entry`. So all epochs of a coordinator are larger than all epochs of the coordinators before it, although the logs
of their shards know nothing of each other. A coordinator that has not heard that it was replaced gives epochs that are
too low: the shards of the queues refuse them as soon as the new coordinator's members have claimed their queues.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ledger.consumer_groups import MAX_CONSUMER_GROUPS
from ledger.errors import GroupFullError

# A shard that writes 10,000 entries each second reaches this index after 13 years.
EPOCHS_OF_A_NUMBER = 1 << 42
# Epochs have 64 bits.
MAX_NUMBER = (1 << 21) - 1
MAX_PLACES = MAX_CONSUMER_GROUPS

_HEAD = struct.Struct("<III")
_PLACE = struct.Struct("<IIQI")
_HOSTED = struct.Struct("<IQI")


class CoordinatorPlace(NamedTuple):
    """The shard that coordinates a group, and the number of this decision for the group. `placed_at` is the index of
    its entry in shard 0."""

    shard: int
    number: int
    placed_at: int


class HostedGroup(NamedTuple):
    """What a shard knows of a group that it coordinates: the number and the index of the decision in shard 0."""

    number: int
    placed_at: int


class CoordinatorTable:
    """The places of coordinators in shard 0, and the groups that another shard coordinates."""

    def __init__(
        self,
        places: Mapping[str, CoordinatorPlace] | None = None,
        hosted: Mapping[str, HostedGroup] | None = None,
        retired: int = 0,
    ) -> None:
        self._places = dict(places or {})
        self._hosted = dict(hosted or {})
        # Larger than all numbers of groups that were deleted. A group without a place has this number.
        self.retired = retired

    # -- shard 0

    def get(self, consumer_group: str) -> CoordinatorPlace | None:
        """Return the place of a group. None: shard 0 coordinates it, if it exists."""
        return self._places.get(consumer_group)

    def counts(self) -> dict[int, int]:
        """Return how many placed groups each shard coordinates. A shard without groups is left out."""
        found: dict[int, int] = {}
        for place in self._places.values():
            found[place.shard] = found.get(place.shard, 0) + 1
        return found

    @property
    def is_full(self) -> bool:
        return len(self._places) >= MAX_PLACES

    def place(self, consumer_group: str, shard: int, index: int) -> CoordinatorPlace:
        """Let the shard coordinate the group from now on. Raises GroupFullError."""
        known = self._places.get(consumer_group)
        number = max(known.number if known is not None else 0, self.retired) + 1
        if number > MAX_NUMBER or (known is None and self.is_full):
            raise GroupFullError(
                f"The coordinator of {consumer_group!r} cannot be placed: {len(self._places)} groups are placed, the "
                f"next number of this group is {number}, and the limits are {MAX_PLACES} and {MAX_NUMBER}."
            )
        place = self._places[consumer_group] = CoordinatorPlace(shard, number, index)
        return place

    # -- the shard of a coordinator

    def hosted(self, consumer_group: str) -> HostedGroup | None:
        return self._hosted.get(consumer_group)

    def hosted_groups(self) -> list[tuple[str, HostedGroup]]:
        """Return (group, what the shard knows of it) for each group that this shard coordinates, in any order."""
        return list(self._hosted.items())

    def host(self, consumer_group: str, number: int, placed_at: int) -> bool:
        """Note that this shard coordinates the group under this number. Return False if it does so under this number
        or a larger one already."""
        known = self._hosted.get(consumer_group)
        if known is not None and known.number >= number:
            return False
        self._hosted[consumer_group] = HostedGroup(number, placed_at)
        return True

    def close(self, consumer_group: str, number: int) -> bool:
        """Note that this shard does not coordinate the group any more. Return False if it does not do so under this
        number."""
        known = self._hosted.get(consumer_group)
        if known is None or known.number != number:
            return False
        del self._hosted[consumer_group]
        return True

    # -- both

    def number(self, consumer_group: str) -> int:
        """Return the number under which this shard coordinates the group, or would coordinate it."""
        if (hosted := self._hosted.get(consumer_group)) is not None:
            return hosted.number
        place = self._places.get(consumer_group)
        return self.retired if place is None else place.number

    def floor(self, consumer_group: str) -> int:
        """Return the number that all epochs of this coordinator of the group exceed."""
        return self.number(consumer_group) * EPOCHS_OF_A_NUMBER

    def forget(self, consumer_group: str) -> None:
        """Remove a deleted group."""
        self._hosted.pop(consumer_group, None)
        if (place := self._places.pop(consumer_group, None)) is not None:
            self.retired = max(self.retired, place.number + 1)

    def encode(self) -> bytes:
        """Return the table as bytes. Equal tables have equal bytes."""
        parts = [_HEAD.pack(self.retired, len(self._places), len(self._hosted))]
        for name, place in sorted(self._places.items()):
            parts += (_PLACE.pack(*place, len(name)), name.encode())
        for name, hosted in sorted(self._hosted.items()):
            parts += (_HOSTED.pack(*hosted, len(name)), name.encode())
        return b"".join(parts)

    @staticmethod
    def decode(data: bytes) -> CoordinatorTable:
        """Return the table that `data`, a result of `encode`, contains. Raises ValueError or struct.error if the bytes
        are not a table."""
        retired, places, hosted = _HEAD.unpack_from(data)
        found_places, at = _named(_PLACE, data, _HEAD.size, places)
        found_hosted, at = _named(_HOSTED, data, at, hosted)
        if at != len(data):
            raise ValueError(f"a table of coordinators has {len(data)} bytes, and its content ends at {at}")
        return CoordinatorTable(
            {name: CoordinatorPlace(*numbers) for name, numbers in found_places},
            {name: HostedGroup(*numbers) for name, numbers in found_hosted},
            retired,
        )


def _named(layout: struct.Struct, data: bytes, at: int, count: int) -> tuple[list[tuple[str, list[int]]], int]:
    """Read `count` records from the place `at` on. Return their names and numbers, and the place behind them."""
    found = []
    for _ in range(count):
        *numbers, size = layout.unpack_from(data, at)
        at += layout.size
        name = data[at : at + size].decode()
        if len(name) != size:
            raise ValueError("a name of a group is cut off")
        found.append((name, numbers))
        at += size
    return found, at


def least_loaded(shards: Sequence[int], loads: Mapping[int, int], able: Iterable[int]) -> int:
    """Return the shard that is to coordinate a new group: of the shards `able`, or of all if none of them is, the
    shard with the fewest groups, and of equal ones the lowest."""
    candidates = set(able).intersection(shards) or set(shards)
    return min(candidates, key=lambda shard: (loads.get(shard, 0), shard))
