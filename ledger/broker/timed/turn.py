"""Chooses the waiting messages that a leader delivers in its next turn.

A turn takes due messages in the order of their keys, and then moves the cursor of the shard to the last of them:

    |  settled  |  due: this turn takes the first ones  |  still due  |  not due yet
                cursor ───────────────────────────────> cursor        now

A message that was appended with a delivery time before the cursor is *late*. Usually there are few late messages, and
they come first in the order of keys. If there are more of them than fit into a turn, the cursor cannot move by keys.
Then a turn takes late messages in the order of their identities, which is their order in the queue of `%TIMED`, and
moves `seen`, the other part of the cursor.

The time that the clocks of a majority have passed can go back: by milliseconds when a voter's answer took longer than
the last one, and by more if the clocks of a majority were ahead and are set right. Then a message can be late and not
due:

    |  settled, or late and due  |  late, not due  |  waits
                                now              cursor

While such messages wait, `seen` does not move, because it would settle them. Delivered messages stay open. If too many
messages are open, the late messages that are not due are delivered early.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ledger.batch import BatchHeader, timed_column
from ledger.batch.header import COPIED
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.timed.applied_timed import cursor_of
from ledger.broker.timed.waiting_batches import batch_at, first_that_fit
from ledger.state.timed_table import MAX_OPEN, TimedCursor, TimedTable
from ledger.timed import MAX_IDENTITY, TIMED_TOPIC
from store import TimedKey
from store.index.timed_unit import NO_UNITS, Units

log = logging.getLogger("ledgermq.broker.timed")

MOST_MESSAGES = 4096
# A turn for late messages looks through so many messages of `%TIMED`.
_MOST_SCANNED = 16 * MOST_MESSAGES


@dataclass(frozen=True, slots=True)
class Turn:
    """Messages to deliver, and the cursor after their delivery. `is_last` is False if more messages are due."""

    units: Units
    cursor: TimedCursor
    is_last: bool


def next_turn(replica: BrokerReplica, now_ms: int, unreadable: Mapping[int, int]) -> Turn:
    """Return the leader's next turn at `now_ms`, a time that the clocks of a majority have passed.

    `unreadable` has the identities and delivery times of messages that this node cannot read now. The turn leaves them
    out, and its cursor does not settle them. Raises StoreError, and LedgerError if this node does not lead."""
    projected, table, index = replica.check_leads(0), replica.state.timed, replica.timed.index
    skip = {*table.open, *unreadable}
    now, before = TimedKey(now_ms, MAX_IDENTITY), TimedKey(*table.cursor[:2])
    holds = _has_late_not_due(replica, now, before)
    if holds and projected.timed.room <= MAX_OPEN // 2:
        log.warning(
            "shard %d: the clocks of most voters went back by %d ms, and too many messages were delivered since: "
            "messages that are due until the earlier time are delivered now",
            replica.shard, before.time_ms - now_ms,
        )  # fmt: skip
        now, holds = before, False
    # While the cursor is held back, delivered messages stay open. Half of the room is kept for the time after that: the
    # first turn then delivers the messages that held the cursor back.
    kept_free = MAX_OPEN // 2 if unreadable or holds else 0
    room = min(MOST_MESSAGES, projected.timed.room - kept_free)
    if room <= 0:
        return Turn(NO_UNITS, table.cursor, is_last=True)
    found = index.due(now, room, cursor_of(replica.state), skip)
    units = first_that_fit(replica.log, found)
    is_last = len(found) < room and len(units) == len(found)
    if holds:
        return Turn(waiting_of(replica, units), table.cursor, is_last)
    if not is_last and _last_key(units) <= before:
        return _late_turn(replica, room, unreadable)
    through = now if is_last else _last_key(units)
    cursor = TimedCursor(*max(through, before), replica.state.timed_end())
    return Turn(waiting_of(replica, units), _held_back(cursor, table.cursor, unreadable), is_last)


def moves_on(replica: BrokerReplica, turn: Turn) -> bool:
    """Return True if this turn is worth its entries: it delivers messages, or its cursor settles messages that an
    earlier leader delivered, or it has looked through late messages."""
    table = replica.state.timed
    if len(turn.units):
        return True
    if not turn.is_last:
        return turn.cursor != table.cursor
    after = TimedTable(turn.cursor)
    return any(after.is_settled(time_ms, identity) for identity, time_ms in table.open.items())


def _has_late_not_due(replica: BrokerReplica, now: TimedKey, before: TimedKey) -> bool:
    """Return True if messages wait with keys after `now` and up to `before`, the key of the cursor."""
    if now >= before:
        return False
    late = replica.timed.index.read(now.time_ms + 1, before.time_ms + 1, 1, cursor=cursor_of(replica.state))
    return len(late) > 0


def _late_turn(replica: BrokerReplica, room: int, unreadable: Mapping[int, int]) -> Turn:
    """Return a turn of late messages in the order of their identities."""
    table, index = replica.state.timed, replica.timed.index
    through_ms, through_identity, seen = table.cursor
    before, last = TimedKey(through_ms, through_identity), min(replica.state.timed_end(), seen + _MOST_SCANNED)
    units: list[Units] = []
    for identity, time_ms in _messages_from(replica, seen, last):
        if (time_ms, identity) <= before and identity not in table.open and identity not in unreadable:
            if len(units) == room:
                last = identity
                break
            if (unit := index.get(identity, time_ms)) is not None:
                units.append(unit)
    chosen = first_that_fit(replica.log, np.concatenate(units) if units else NO_UNITS)
    if len(chosen) < len(units):
        last = int(chosen["identity"][-1]) + 1
    cursor = TimedCursor(through_ms, through_identity, last)
    return Turn(waiting_of(replica, chosen), _held_back(cursor, table.cursor, unreadable), is_last=False)


def _messages_from(replica: BrokerReplica, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield identity and delivery time of the messages [first, end) in this shard's queue of `%TIMED`, in this
    order. Copies are passed over, because they keep the identities of their messages."""
    if (queue_id := timed_queue(replica)) is None:
        return
    queue = replica.queues.get(*queue_id)
    at = max(first, queue.first_offset)
    while at < end:
        unit = queue.read(at, 1)
        header, body = batch_at(replica.log, int(unit["position"][0]), int(unit["size"][0]))
        batch = BatchHeader.parse(body)
        timed = timed_column(body, batch)
        if timed is not None and not batch.columns & COPIED:
            begin = at - header.base_offset
            yield from zip(range(at, header.base_offset + batch.count), timed.times_ms[begin:].tolist(), strict=True)
        at = header.base_offset + batch.count


def _held_back(cursor: TimedCursor, now: TimedCursor, unreadable: Mapping[int, int]) -> TimedCursor:
    """Return the last cursor from `now` to `cursor` that settles none of the unreadable messages. `seen` holds back
    messages up to the key of `now`, and the key holds back later messages."""
    before, through, seen = TimedKey(*now[:2]), TimedKey(*cursor[:2]), cursor.seen
    for identity, time_ms in unreadable.items():
        if (time_ms, identity) <= before:
            seen = min(seen, identity)
        elif (time_ms, identity) <= through:
            through = TimedKey(time_ms, identity - 1) if identity else TimedKey(time_ms - 1, MAX_IDENTITY)
    return TimedCursor(*max(through, before), max(seen, now.seen))


def timed_queue(replica: BrokerReplica) -> tuple[int, int] | None:
    """Return topic id and number of this shard's queue of `%TIMED`, or None if the shard has none."""
    topic = replica.state.topics.named(TIMED_TOPIC)
    if topic is None or replica.shard not in topic.shards:
        return None
    return topic.topic_id, topic.shards.index(replica.shard)


def waiting_of(replica: BrokerReplica, units: Units) -> Units:
    """Return the units without those that an entry on its way delivers or cancels."""
    projected = replica.check_leads(0).timed
    keys = zip(units["time"].tolist(), units["identity"].tolist(), strict=True)
    return units[np.fromiter((projected.waits(time, identity) for time, identity in keys), np.bool_, len(units))]


def _last_key(units: Units) -> TimedKey:
    return TimedKey(int(units["time"][-1]), int(units["identity"][-1]))
