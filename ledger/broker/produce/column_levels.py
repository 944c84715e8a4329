"""Decides whether the feature level of the shard allows the columns of a producer's batch.

A node with an older program could not apply a batch with a column that it does not know. So the leader appends such a
batch only at the feature level at which all members know the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ledger.batch import Batch, BatchHeader
from ledger.batch.header import HALF, LOOK_UP_KEYS, MESSAGE_IDS, TIMED
from ledger.errors import BusyError, UnsupportedBatchError
from ledger.state import feature_levels


class ColumnLevel(NamedTuple):
    """A column that needs a feature level. `words` name messages with this column. `of_all` is True if either all
    messages of a batch have something in the column or none has."""

    column: int
    level: int
    words: str
    of_all: bool = True


COLUMN_LEVELS = (
    ColumnLevel(TIMED, feature_levels.TIMED, "delivery times"),
    ColumnLevel(HALF, feature_levels.TRANSACTIONS, "transactions"),
    ColumnLevel(LOOK_UP_KEYS, feature_levels.LOOK_UP_KEYS, "look-up keys", of_all=False),
    ColumnLevel(MESSAGE_IDS, feature_levels.MESSAGE_IDS, "message ids"),
)


@cache
def needed_level(columns: int) -> int:
    """Return the feature level that a batch with these columns needs, as far as this module decides it."""
    return max((each.level for each in COLUMN_LEVELS if columns & each.column), default=0)


def check_level(columns: int, level: int, *, may_rise: bool) -> None:
    """Raise an error if a batch with these columns must not be appended at the feature level `level` of the shard.
    `may_rise` is False if a member has said that its program does not support the needed level.

    Raises UnsupportedBatchError if a member does not support the level, and otherwise BusyError: for example, a cluster
    that has just started raises its level soon, and the producer sends the batch again.
    """
    for each in COLUMN_LEVELS:
        if not columns & each.column or level >= each.level:
            continue
        sentence = f"this shard has feature level {level}, and {each.words} need level {each.level}"
        if may_rise:
            raise BusyError(f"{sentence}: it rises when all its nodes run this version (`ledgermq cluster info`)")
        raise UnsupportedBatchError(
            f"{sentence}: some nodes run an older version, upgrade them (`ledgermq cluster info`), or send without "
            f"{each.words}"
        )


def places_above(batch: bytes, header: BatchHeader, level: int) -> Sequence[int]:
    """Return the places of the messages because of which the feature level `level` does not allow the batch. The result
    is empty if it allows no message of the batch."""
    above = [each for each in COLUMN_LEVELS if header.columns & each.column and level < each.level]
    if not above or any(each.of_all for each in above):
        return ()
    return [place for place, keys in enumerate(Batch(batch, check_crc=False).look_up_keys()) if keys]
