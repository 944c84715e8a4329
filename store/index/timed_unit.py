"""Defines the records of the timed index: the unit of a waiting message, and the tombstone of a unit that no longer
waits.

    unit, 40 bytes, little-endian; units are only ever appended, and never change

     0          8          16         24      28      32      36      40
    +----------+----------+----------+-------+-------+-------+-------+
    | identity | time     | position | size  | place | share | check |
    +----------+----------+----------+-------+-------+-------+-------+

    identity        offset in the topic of timed messages, equal on all replicas
    time            delivery time, in ms since 1970
    position, size  of the entry of the log that has the message
    place           number of the message in its batch
    share           bytes that the message counts for
    check           over all other fields, so that each read notices damage

    tombstone, 8 bytes: number of the unit (39 bits), its lane (1 bit), check (24 bits)

The key of a unit is (time, identity). Units are delivered in the order of their keys.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

UNIT = np.dtype(
    [
        ("identity", "<u8"), ("time", "<i8"), ("position", "<i8"),
        ("size", "<u4"), ("place", "<u4"), ("share", "<u4"), ("check", "<u4"),
    ]
)  # fmt: skip
UNIT_BYTES = 40
TOMBSTONE = np.dtype("<u8")
TOMBSTONE_BYTES = 8
assert UNIT.itemsize == UNIT_BYTES
assert TOMBSTONE.itemsize == TOMBSTONE_BYTES

# A structured array of `UNIT`.
Units = npt.NDArray[np.void]
Identities = npt.NDArray[np.uint64]
Times = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

FIRST_MS, LAST_MS = -(1 << 63), (1 << 63) - 1
LAST_IDENTITY = (1 << 64) - 1

_MASK = (1 << 64) - 1
# Odd numbers without a pattern: a change of one field changes the product for certain.
_FACTORS = (
    0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0xD6E8_FEB8_6659_FD93, 0xA076_1D64_78BD_642F, 0xE703_7ED1_A0B4_28DB,
)  # fmt: skip
_LAST_FACTOR = 0x8EBC_6AF0_9C88_C6E3
_CHECK_BITS = 24


class TimedKey(NamedTuple):
    """The place of a waiting message in the order of delivery."""

    time_ms: int
    identity: int


class TimedIndexCursor(NamedTuple):
    """How far a shard has delivered. A message is settled if its key is at or before (time_ms, identity), and its
    identity is less than `seen`. The default is the cursor of a shard that has delivered nothing."""

    time_ms: int = FIRST_MS
    identity: int = 0
    seen: int = 0

    def settles(self, times: Times, identities: Identities) -> Flags:
        """Return which of the messages are settled."""
        settled = not_after(times, identities, TimedKey(self.time_ms, self.identity))
        settled &= identities < np.uint64(self.seen)
        return settled


END = TimedKey(LAST_MS, LAST_IDENTITY)
NOTHING_SETTLED = TimedIndexCursor()
NO_UNITS: Units = np.empty(0, UNIT)


class WaitingTotal(NamedTuple):
    """A number of waiting messages, and the sum of their shares in bytes."""

    messages: int
    bytes: int


def not_after(times: Times, identities: Identities, key: TimedKey) -> Flags:
    """Return which of the messages have a key at or before `key`."""
    found: Flags = (times < key.time_ms) | ((times == key.time_ms) & (identities <= np.uint64(key.identity)))
    return found


def not_among(units: Units, skip: Collection[int]) -> Flags:
    """Return which of the units have an identity that is not in `skip`."""
    if not skip or not len(units):
        return np.ones(len(units), np.bool_)
    return np.isin(units["identity"], np.fromiter(skip, np.uint64, len(skip)), invert=True)


def units_of(
    identities: Identities,
    times: Times,
    position: int,
    size: int,
    places: npt.NDArray[np.uint32],
    shares: npt.NDArray[np.uint32],
) -> Units:
    """Return the units of the waiting messages in one entry."""
    units = np.empty(len(identities), UNIT)
    units["identity"], units["time"] = identities, times
    units["position"], units["size"] = position, size
    units["place"], units["share"] = places, shares
    units["check"] = checks_of(units)
    return units


def checks_of(units: Units) -> npt.NDArray[np.uint32]:
    """Return the check that each of the units must have."""
    second = units["place"].astype(np.uint64) << np.uint64(32) | units["size"]
    fields = (units["identity"], units["time"].astype(np.uint64), units["position"].astype(np.uint64), second)
    mixed = units["share"].astype(np.uint64) * np.uint64(_FACTORS[4])
    for field, factor in zip(fields, _FACTORS, strict=False):
        mixed += field * np.uint64(factor)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(_LAST_FACTOR)
    return (mixed >> np.uint64(32)).astype(np.uint32)


def tombstones_of(numbers: Identities, lane: int) -> npt.NDArray[np.uint64]:
    """Return the tombstones of these units of a lane, 0 or 1."""
    named = numbers << np.uint64(1) | np.uint64(lane)
    return named << np.uint64(_CHECK_BITS) | _tombstone_checks(named)


def read_tombstones(records: npt.NDArray[np.uint64]) -> tuple[Identities, Flags, bool]:
    """Return the numbers of the units that the tombstones name, whether each unit is in lane 1, and whether all
    checks are right."""
    named = records >> np.uint64(_CHECK_BITS)
    is_whole = bool(np.all(records & np.uint64((1 << _CHECK_BITS) - 1) == _tombstone_checks(named)))
    return named >> np.uint64(1), (named & np.uint64(1)).astype(np.bool_), is_whole


def _tombstone_checks(named: Identities) -> Identities:
    mixed = named * np.uint64(_FACTORS[0])
    mixed ^= mixed >> np.uint64(32)
    return mixed * np.uint64(_LAST_FACTOR) >> np.uint64(64 - _CHECK_BITS)
