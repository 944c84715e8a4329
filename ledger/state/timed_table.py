"""The delivery of waiting messages: which messages of the shard's queue of `%TIMED` are settled, which means that they
wait no more.

The key of a waiting message is (delivery time, identity), and messages are delivered in the order of their keys. The
cursor of the table settles the messages that this drawing calls settled:

    identity
       ^
       |   late: wait     |
       |                  |    wait
  seen +------------------+
       |   settled        |    wait
       |                  |
       +------------------+--------------> key
                       through

A message that is appended after the leader looked, with a key before `through`, has an identity of at least `seen`. So
this message still waits, and a later cursor with a larger `seen` settles it.

The leader delivers in delivery turns. A turn has one batch for each target queue, and ends with the cursor. Between
two cursors the table keeps the messages that were delivered and that the cursor does not cover yet; they are *open*. If
a leader fails within a turn, the next leader knows from the open messages which part of the turn is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ledger.errors import InternalError, InvalidArgumentError

# A turn has at most 4,096 messages, so no correct leader reaches this limit.
MAX_OPEN = 65_536


class TimedMessage(NamedTuple):
    """A message that waits. `identity` is its offset in the shard's queue of `%TIMED`, and `delivery_ms` its delivery
    time in ms since 1970."""

    identity: int
    delivery_ms: int


@dataclass(frozen=True, slots=True)
class UndeliveredMessages:
    """The result of `CancelTimed`, as far as the state knows it. `may_wait[i]` is False if `items[i]` was delivered or
    settled before. If it is True, the index of waiting messages knows whether the message exists, and was not
    cancelled before."""

    items: tuple[TimedMessage, ...]
    may_wait: tuple[bool, ...]


class TimedCursor(NamedTuple):
    """The messages up to the key (`through_ms`, `through_identity`) whose identity is below `seen` are settled.
    `through_ms` is in ms since 1970. A later cursor has the same or larger values of the key and of `seen`."""

    through_ms: int = 0
    through_identity: int = 0
    seen: int = 0


class TimedTable:
    """The cursor, and the open messages: identity -> delivery time in ms since 1970. No open message is settled by the
    cursor, and there are at most MAX_OPEN of them."""

    def __init__(self, cursor: TimedCursor | None = None) -> None:
        self.cursor = cursor or TimedCursor()
        self.open: dict[int, int] = {}

    def is_settled(self, time_ms: int, identity: int) -> bool:
        """Return True if the cursor settles the message with this delivery time and identity. An open message is not
        settled yet, although it was delivered."""
        through_ms, through_identity, seen = self.cursor
        return identity < seen and (time_ms, identity) <= (through_ms, through_identity)

    def waits(self, time_ms: int, identity: int) -> bool:
        """Return True if the message was not delivered yet. The table does not know which messages exist, and which
        were cancelled."""
        return identity not in self.open and not self.is_settled(time_ms, identity)

    def check_delivery(self, identities: Sequence[int], times: Sequence[int]) -> None:
        """Raise InternalError if a committed batch cannot deliver the messages with these identities and delivery
        times: the leader checked the batch before the append, so the leader or this replica is faulty."""
        if len(times) != len(identities):
            raise InternalError(f"A batch delivers {len(identities)} waiting messages, and has {len(times)} times.")
        if len(set(identities)) != len(identities):
            raise InternalError("A batch delivers one waiting message twice.")
        for time_ms, identity in zip(times, identities, strict=True):
            if not self.waits(time_ms, identity):
                raise InternalError(f"A batch delivers the waiting message {identity}, which was delivered before.")
        if len(self.open) + len(identities) > MAX_OPEN:
            raise InternalError(
                f"A batch delivers {len(identities)} waiting messages while {len(self.open)} are open: at most "
                f"{MAX_OPEN} can be open."
            )

    def deliver(self, identities: Sequence[int], times: Sequence[int]) -> None:
        """Open the messages that a committed batch delivers. Raises InternalError like `check_delivery`, and changes
        nothing then."""
        self.check_delivery(identities, times)
        self.open.update(zip(identities, times, strict=True))

    def settle(self, cursor: TimedCursor, undelivered: Sequence[int] = ()) -> None:
        """Move the cursor to the end of a turn. `undelivered` has the identities that the turn settles without
        delivery. Raises InvalidArgumentError, and changes nothing, if the cursor would go back, or if an identity of
        `undelivered` was delivered or is not considered by the turn."""
        now = self.cursor
        if cursor[:2] < now[:2] or cursor.seen < now.seen:
            raise InvalidArgumentError(
                f"The cursor of waiting messages cannot go back from {tuple(now)} to {tuple(cursor)}."
            )
        for identity in undelivered:
            if identity in self.open or identity >= cursor.seen:
                raise InvalidArgumentError(
                    f"The waiting message {identity} cannot be settled without delivery: it was delivered, or it is "
                    f"not before {cursor.seen}."
                )
        self.cursor = cursor
        self.open = {
            identity: time_ms for identity, time_ms in self.open.items() if not self.is_settled(time_ms, identity)
        }
