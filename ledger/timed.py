"""Messages with delivery times: the topic in which they wait, the limits, and the handles that name them.

A message with a delivery time waits in the topic `%TIMED`, in the queue that is in the shard of its target queue. The
handle of a waiting message is a text for programs and people, which names its target topic, its shard, its identity and
its delivery time. The identity is the offset of the message in its queue of `%TIMED`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ledger.checked_text import CheckedText
from ledger.errors import InvalidArgumentError

# The topic in which messages wait for their delivery times. It has one queue in each shard.
TIMED_TOPIC = "%TIMED"
# Header: the delivery time of a message that waited, in ms since 1970.
DELIVER_AT = "%DELIVER_AT"

# How far ahead a delivery time may be.
MAX_DELAY_DAYS = 40
MAX_DELAY_MS = MAX_DELAY_DAYS * 86_400_000

# The end of the year 9999, in ms since 1970.
MAX_DELIVERY_MS = 253_402_300_799_999
# Identities are offsets.
MAX_IDENTITY = (1 << 63) - 1

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)

# target topic id u32 | shard u32 | identity u64 | delivery time u64, ms
_HANDLE = CheckedText("t1_", struct.Struct("<IIQQ"))


@dataclass(frozen=True, slots=True)
class TimedHandle:
    """Names one waiting message. `deliver_at_ms` is in ms since 1970."""

    topic_id: int
    shard: int
    identity: int
    deliver_at_ms: int

    def __str__(self) -> str:
        """Return the handle as a printable text of letters, digits, - and _."""
        return _HANDLE.encode(self.topic_id, self.shard, self.identity, self.deliver_at_ms)

    @classmethod
    def parse(cls, text: object) -> TimedHandle:
        """Return the handle that `text`, a result of `str`, contains. Raises InvalidArgumentError for any other
        text."""
        numbers = _HANDLE.decode(text)
        if numbers is None:
            raise _no_handle(text)
        handle = cls(*numbers)
        if handle.identity > MAX_IDENTITY or handle.deliver_at_ms > MAX_DELIVERY_MS:
            raise _no_handle(text)
        return handle


@dataclass(frozen=True, slots=True)
class WaitingMessages:
    """Messages that wait for their delivery times in one shard. Message i has the identity `first_identity + i` and the
    delivery time `times_ms[i]`, in ms since 1970."""

    topic_id: int
    shard: int
    first_identity: int
    times_ms: Sequence[int]

    def handle(self, place: int) -> str:
        """Return the handle of message `place`."""
        return str(TimedHandle(self.topic_id, self.shard, self.first_identity + place, self.times_ms[place]))

    def deliver_at(self, place: int) -> datetime:
        """Return the delivery time of message `place`, in UTC."""
        return moment(self.times_ms[place])


def moment(ms: int) -> datetime:
    """Return the time `ms`, in ms since 1970, in UTC."""
    return EPOCH + ms * MILLISECOND


def _no_handle(text: object) -> InvalidArgumentError:
    shown = text[:64] if isinstance(text, str) else text
    return InvalidArgumentError(
        f"{shown!r} is not the handle of a message with a delivery time: pass the `handle` of a receipt, unchanged."
    )
