"""Finds the events of one message in the entries of the log behind it.

A message can have several places: a waiting message is delivered to its queue, and a consumer group moves copies to its
retry topic and its dead letters. `MessageHistory` follows all of them. It changes nothing, and does not depend on the
state, which is newer than the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ledger.batch import Batch, BatchHeader, copied_identities, decided_column, fired_column
from ledger.batch.header import COPIED, DECIDED, FIRED
from ledger.errors import LedgerError
from ledger.message_trace import TracedPlace, TraceEvent
from ledger.retries import DEAD_LETTERS, attempts, consumer_group_of, place_before
from ledger.state.command_encoding import decode_command
from ledger.state.commands import (
    AcknowledgeOffsets,
    CancelTimed,
    ChangeLeases,
    Command,
    DeleteTopic,
    ForgetConsumerGroup,
    QueueLeases,
    ResetOffsets,
    RollBackHalves,
)
from ledger.state.lease_table import ChangeKind, LeaseChange
from ledger.timed import TIMED_TOPIC
from ledger.transactions import HALF_TOPIC
from store import EntryKind, Header

# Places of one message that are followed.
MAX_PLACES = 64

_LEASE_KINDS = {
    ChangeKind.ACKNOWLEDGE: "acknowledged",
    ChangeKind.PUT_OFF: "put off",
    ChangeKind.GIVE_BACK: "given back",
    ChangeKind.EXTEND: "extended",
    ChangeKind.LEASE: "leased",
    ChangeKind.SKIP: "passed over",
}


class MessageHistory:
    """The events of one message. Call `look_at` with each entry, in their order."""

    def __init__(self, places: Iterable[TracedPlace], topic_name: Callable[[int], str], half: int = 0) -> None:
        """`places` are the places that are known already. `topic_name(id)` returns the name of a topic, or "". `half`
        is the number of the half batch that has the message, if it is in one."""
        self._half = half
        self.events: list[TraceEvent] = []
        # In the order in which they were found, at most MAX_PLACES.
        self.places = list(dict.fromkeys(places))
        self._topic_name = topic_name
        self._names: dict[int, str] = {}
        # Groups that have acknowledged the message at a place, and not been reset since.
        self._done: set[tuple[str, TracedPlace]] = set()

    def wants_body(self, header: Header) -> bool:
        """Return True if `look_at` needs the body of the entry. Most batches are passed over by their headers."""
        if header.kind is EntryKind.COMMAND:
            return True
        if header.kind is not EntryKind.BATCH:
            return False
        name = self._name(header.topic_id)
        return consumer_group_of(name) is not None or name == TIMED_TOPIC or self._waits()

    def look_at(self, header: Header, body: bytes | memoryview) -> None:
        """Add the events of an entry for which `wants_body` is True. An entry that this program cannot read has
        none."""
        try:
            if header.kind is EntryKind.COMMAND:
                found = list(self._of_command(decode_command(body)))
            else:
                found = list(self._of_batch(header, body))
        except LedgerError:
            return
        for kind, group, text, at, to in found:
            self.events.append(TraceEvent(header.append_time_ms, header.index, kind, group, text, at, to))
            if to is not None and to not in self.places and len(self.places) < MAX_PLACES:
                self.places.append(to)

    def _name(self, topic_id: int) -> str:
        name = self._names.get(topic_id)
        if name is None:
            name = self._names[topic_id] = self._topic_name(topic_id)
        return name

    def _waits(self) -> bool:
        """Return True if the message can get its place by the batch of a delivery or of a commit."""
        return any(self._name(place.topic_id) in (TIMED_TOPIC, HALF_TOPIC) for place in self.places)

    def _in(self, topic: str) -> Iterator[TracedPlace]:
        return (place for place in self.places if self._name(place.topic_id) == topic)

    # -- batches

    def _of_batch(self, header: Header, body: bytes | memoryview) -> Iterator[_Found]:
        batch = BatchHeader.parse(body)
        if not batch.columns & DECIDED and (group := consumer_group_of(self._name(header.topic_id))) is not None:
            yield from self._moved(header, group, body)
        if batch.columns & FIRED and (fired := fired_column(body, batch)) is not None:
            identities = fired.identities.tolist()
            for place in self._in(TIMED_TOPIC):
                if place.offset in identities:
                    number = identities.index(place.offset)
                    late = header.append_time_ms - int(fired.times_ms[number])
                    yield "delivered", "", f"{late} ms after its delivery time", place, _place(header, number)
        if batch.columns & COPIED and (copied := copied_identities(body, batch)) is not None:
            for place in self._in(TIMED_TOPIC):
                if place.offset in copied.tolist():
                    yield "copied", "", "", place, None
        if batch.columns & DECIDED and (decided := decided_column(body, batch)) is not None:
            for place in self._in(HALF_TOPIC):
                if decided.half == self._half:
                    text = "to the dead letters: no producer knew" if decided.dead else "its transaction committed"
                    yield "delivered", "", text, place, _place(header, place.offset - decided.half)

    def _moved(self, header: Header, group: str, body: bytes | memoryview) -> Iterator[_Found]:
        headers = Batch(bytes(body), check_crc=False).headers()[0]
        before = place_before(headers)
        if before is None or TracedPlace(*before) not in self.places:
            return
        failed = attempts(headers)
        is_dead = self._name(header.topic_id).startswith(DEAD_LETTERS)
        text = f"after {failed} failed " + ("delivery" if failed == 1 else "deliveries")
        yield "dead letter" if is_dead else "retry", group, text, TracedPlace(*before), _place(header, 0)

    # -- commands

    def _of_command(self, command: Command) -> Iterator[_Found]:
        match command:
            case AcknowledgeOffsets(group, offsets):
                for each in offsets:
                    yield from self._acknowledged(group, each.topic_id, each.queue, each.offset)
            case ResetOffsets(group, resets):
                for reset in resets:
                    for place in self._at(reset.topic_id, reset.queue):
                        again = reset.offset <= place.offset
                        self._done.discard((group, place))
                        text = "before the message: it is delivered again" if again else "behind the message"
                        yield "reset", group, f"to offset {reset.offset}, {text}", place, None
            case ForgetConsumerGroup(group):
                for place in self.places:
                    if (group, place) in self._done:
                        self._done.discard((group, place))
                        yield "forgotten", group, "", place, None
            case ChangeLeases(queues):
                for leases in queues:
                    yield from self._leases(leases)
            case CancelTimed(items):
                identities = {item.identity for item in items}
                for place in self._in(TIMED_TOPIC):
                    if place.offset in identities:
                        yield "cancelled", "", "", place, None
            case RollBackHalves(numbers):
                for place in self._in(HALF_TOPIC):
                    if self._half in numbers:
                        yield "rolled back", "", "", place, None
            case DeleteTopic(topic_id):
                for place in self.places:
                    if place.topic_id == topic_id:
                        yield "topic deleted", "", "", place, None
            case _:
                pass

    def _acknowledged(self, group: str, topic_id: int, queue: int, offset: int) -> Iterator[_Found]:
        for place in self._at(topic_id, queue):
            if offset > place.offset and (group, place) not in self._done:
                self._done.add((group, place))
                yield "acknowledged", group, f"all before offset {offset}", place, None

    def _leases(self, leases: QueueLeases) -> Iterator[_Found]:
        for place in self._at(*leases.queue):
            for change in leases.changes:
                if change.first <= place.offset < change.first + change.size:
                    yield _LEASE_KINDS[change.kind], leases.consumer_group, _lease_text(change), place, None

    def _at(self, topic_id: int, queue: int) -> list[TracedPlace]:
        return [place for place in self.places if place.topic_id == topic_id and place.queue == queue]


_Found = tuple[str, str, str, TracedPlace, TracedPlace | None]


def _place(header: Header, number: int) -> TracedPlace:
    return TracedPlace(header.topic_id, header.queue, header.base_offset + number)


def _lease_text(change: LeaseChange) -> str:
    match change.kind:
        case ChangeKind.LEASE:
            return f"for {change.duration_ms / 1000:g} s"
        case ChangeKind.PUT_OFF | ChangeKind.EXTEND:
            return f"for {change.duration_ms / 1000:g} s, by the lease of entry {change.lease}"
        case ChangeKind.ACKNOWLEDGE | ChangeKind.GIVE_BACK:
            return f"by the lease of entry {change.lease}"
        case _:
            return ""
