"""A naive model of the timed index: a dictionary of all messages, searched whole for each question."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from store.index.timed_index import TimedIndex
from store.index.timed_unit import NOTHING_SETTLED, TimedIndexCursor, TimedKey, Units, WaitingTotal

# Identity, delivery time, position, size, place, share.
Message = tuple[int, int, int, int, int, int]


@dataclass(frozen=True)
class Put:
    """A batch of timed messages, or of copies."""

    messages: tuple[Message, ...]
    is_copy: bool = False

    def apply(self, index: TimedIndex) -> None:
        columns = list(zip(*self.messages, strict=True))
        identities, times = np.array(columns[0], np.uint64), np.array(columns[1], np.int64)
        places, shares = np.array(columns[4], np.uint32), np.array(columns[5], np.uint32)
        change = index.replace if self.is_copy else index.put
        change(identities, times, columns[2][0], columns[3][0], places, shares)


@dataclass(frozen=True)
class Cancel:
    keys: tuple[TimedKey, ...]

    def apply(self, index: TimedIndex) -> None:
        index.cancel_all(self.keys)


@dataclass(frozen=True)
class Settle:
    cursor: TimedIndexCursor

    def apply(self, index: TimedIndex) -> None:
        index.drop_settled(self.cursor)


Event = Put | Cancel | Settle


@dataclass
class Model:
    """The waiting messages after these events, which are the log."""

    events: list[Event] = field(default_factory=list)
    waiting: dict[int, Message] = field(default_factory=dict)
    known: dict[int, int] = field(default_factory=dict)
    cursor: TimedIndexCursor = NOTHING_SETTLED
    next_identity: int = 0
    position: int = 0

    def put(self, times: Iterable[int], shares: Iterable[int]) -> Put:
        size = 10 + len(self.events)
        batch = Put(
            tuple(
                (self.next_identity + place, time, self.position, size, place, share)
                for place, (time, share) in enumerate(zip(times, shares, strict=False))
            )
        )
        self.waiting |= {message[0]: message for message in batch.messages}
        self.known |= {message[0]: message[1] for message in batch.messages}
        self.next_identity += len(batch.messages)
        return self._noted(batch)

    def copy(self, identities: Iterable[int]) -> Put:
        size = 10 + len(self.events)
        batch = Put(
            tuple(
                (identity, self.known[identity], self.position, size, place, 7)
                for place, identity in enumerate(identities)
            ),
            is_copy=True,
        )
        first = {message[0]: message for message in reversed(batch.messages)}
        self.waiting |= {identity: message for identity, message in first.items() if identity in self.waiting}
        return self._noted(batch)

    def cancel(self, keys: Iterable[TimedKey]) -> list[int | None]:
        keys = tuple(keys)
        self.events.append(Cancel(keys))
        results: list[int | None] = []
        for key in keys:
            found = self.waiting.get(key.identity)
            if found is not None and found[1] == key.time_ms:
                del self.waiting[key.identity]
                results.append(found[5])
            else:
                results.append(None)
        return results

    def settle(self, cursor: TimedIndexCursor) -> Settle:
        self.cursor = cursor
        event = Settle(cursor)
        self.events.append(event)
        return event

    def left(self, skip: Collection[int] = ()) -> list[Message]:
        """Return the messages that wait, sorted by key."""
        found = [each for each in self.waiting.values() if not self._is_settled(each) and each[0] not in skip]
        return sorted(found, key=lambda each: (each[1], each[0]))

    def due(self, through: TimedKey, limit: int, skip: Collection[int] = ()) -> list[Message]:
        return [each for each in self.left(skip) if (each[1], each[0]) <= through][:limit]

    def read(self, from_ms: int, to_ms: int, limit: int, after: TimedKey | None) -> list[Message]:
        left = [each for each in self.left() if from_ms <= each[1] < to_ms]
        return [each for each in left if after is None or (each[1], each[0]) > after][:limit]

    def next_ms(self, after: TimedKey) -> int | None:
        return next((each[1] for each in self.left() if (each[1], each[0]) > after), None)

    def count_before(self, time_ms: int) -> WaitingTotal:
        shares = [each[5] for each in self.left() if each[1] < time_ms]
        return WaitingTotal(len(shares), sum(shares))

    def _is_settled(self, message: Message) -> bool:
        time_ms, identity, seen = self.cursor
        return (message[1], message[0]) <= (time_ms, identity) and message[0] < seen

    def _noted(self, batch: Put) -> Put:
        self.position += batch.messages[0][3]
        self.events.append(batch)
        return batch


def messages_of(units: Units | None) -> list[Message]:
    return [] if units is None else [unit[:6] for unit in units.tolist()]
