"""How a producer sends messages with ids: what is in one batch, and what happens if a broker has some of them already.

A naive broker loses answers, refuses batches for a while, and remembers ids. Each id must be in its log once, each send
must get the place of the message with its id, and a sequencer keeps the order of its sends.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ledger.batch import Batch, BatchHeader, message_ids
from ledger.client.connection.backoff import Backoff
from ledger.client.producer.arguments import checked_message_id
from ledger.client.producer.delivery import DeliverySettings
from ledger.client.producer.producer_batch import NONE, Acknowledged, Answer, Piece, ProducerBatch
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.client.producer.recorder import Recorder
from ledger.errors import (
    BusyError,
    InvalidArgumentError,
    LedgerError,
    RepeatedMessage,
    RepeatedMessagesError,
    SequenceGapError,
    UnavailableError,
)
from ledger.history import Send, read_history
from ledger.validation.judging.acknowledged import sent_in


@dataclass
class Told:
    """The receipt of one send."""

    value: bytes
    places: list[tuple[int, int]] = field(default_factory=list)
    errors: list[LedgerError] = field(default_factory=list)

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        self.places.append((queue, first_offset))

    def scheduled(self, *_: object) -> None:
        raise AssertionError

    def failed(self, error: LedgerError) -> None:
        self.errors.append(error)


class RememberingBroker:
    """One queue. Producers have epochs and sequence numbers, and messages have ids."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.ids: dict[bytes, int] = {}
        # (producer id, epoch) -> next sequence; producer id -> newest epoch; a batch -> its base offset.
        self.next: dict[tuple[int, int], int] = {}
        self.epochs: dict[int, int] = {}
        self.batches: dict[tuple[int, int, int], int] = {}

    def produce(self, data: bytes) -> Answer:
        header = BatchHeader.parse(data)
        place = (header.producer_id, header.epoch, header.first_sequence)
        if place in self.batches:
            return Acknowledged(self.batches[place], 1, 1, duplicate=True)
        if header.first_sequence != self.next.get(place[:2], 0) or header.epoch < self.epochs.get(place[0], 0):
            return SequenceGapError("a gap")
        ids = message_ids(data, header) or []
        if repeats := [RepeatedMessage(at, 0, self.ids[each], 1) for at, each in enumerate(ids) if each in self.ids]:
            return RepeatedMessagesError("repeated", repeats=repeats)
        base = self.batches[place] = len(self.log)
        self.log += Batch(data).values()
        self.ids.update({each: base + at for at, each in enumerate(ids)})
        self.next[place[:2]] = header.first_sequence + header.count
        self.epochs[place[0]] = header.epoch
        return Acknowledged(base, 1, 1, duplicate=False)


class Sender:
    def __init__(self, producer_id: int, broker: RememberingBroker, chance: random.Random) -> None:
        delivery = DeliverySettings(producer_id=producer_id, batch_bytes=200, delivery_timeout_ms=100_000, linger_ms=0)
        self.sequencer = QueueSequencer(1, 0, 0, delivery, Backoff(1, 2, chance))
        self.broker, self.chance, self.now = broker, chance, 0.0
        self.wire: deque[ProducerBatch] = deque()
        self.recorder: Recorder | None = None

    def send(self, value: bytes, name: bytes | None) -> Told:
        told = Told(value)
        piece = Piece([value], len(value), told)
        if self.recorder is not None:
            self.recorder.handed_over("t", piece)
        if name is not None:
            piece.name(checked_message_id(name))
        self.sequencer.add(piece, self.now, 0)
        return told

    def step(self, trouble: float = 0.0) -> None:
        self.now += 10
        self.wire.extend(self.sequencer.take(self.now))
        if not self.wire:
            return
        batch = self.wire.popleft()
        draw = self.chance.random()
        answer: Answer
        if draw < trouble / 2:
            answer = BusyError("not now")
        elif draw < trouble:
            self.broker.produce(batch.encoded)
            answer = UnavailableError("the answer was lost")
        else:
            answer = self.broker.produce(batch.encoded)
        for result in self.sequencer.answered(batch, answer, self.now):
            if self.recorder is not None:
                self.recorder.settling(result)
            result.deliver()

    def finish(self) -> None:
        for _ in range(10_000):
            if self.sequencer.idle and not self.wire:
                return
            self.step()
        raise AssertionError("the sender does not come to an end")


@pytest.mark.parametrize("seed", range(30))
def test_each_id_is_stored_once_and_each_send_hears_where(seed: int) -> None:
    chance = random.Random(seed)
    broker = RememberingBroker()
    senders = [Sender(number, broker, chance) for number in (7, 8, 9)]
    sends: list[tuple[bytes | None, Told]] = []
    for number in range(300):
        name = chance.choice((None, b"id %d" % chance.randrange(60), b"id %d" % number))
        value = b"%d" % number if name is None else name
        sends.append((name, chance.choice(senders).send(value, name)))
        for sender in senders:
            if chance.random() < 0.5:
                sender.step(trouble=0.3)
    for sender in senders:
        sender.finish()
    for _, told in sends:
        assert told.errors == []
        assert len(told.places) == 1
        assert broker.log[told.places[0][1]] == told.value
    assert len(broker.log) == len({told.places[0] for _, told in sends})
    named = [value for value in broker.log if value.startswith(b"id")]
    assert len(named) == len(set(named)) == len({name for name, _ in sends if name is not None})


def test_the_rest_of_a_batch_goes_before_later_batches() -> None:
    broker, chance = RememberingBroker(), random.Random(1)
    first, second = Sender(7, broker, chance), Sender(8, broker, chance)
    first.send(b"b", b"b")
    first.finish()
    second.sequencer._delivery = DeliverySettings(
        producer_id=8, batch_bytes=1_000, delivery_timeout_ms=100_000, linger_ms=5
    )
    told = [second.send(value, value) for value in (b"a", b"b", b"c")]
    second.sequencer._close()
    later = second.send(b"d", b"d")
    second.sequencer._close()
    second.now += 10
    second.wire.extend(second.sequencer.take(second.now))
    assert len(second.wire) == 2, "both batches are in flight"
    second.finish()
    assert broker.log == [b"b", b"a", b"c", b"d"]
    assert [each.places for each in (*told, later)] == [[(0, 1)], [(0, 0)], [(0, 2)], [(0, 3)]]


def test_a_history_gives_no_number_to_a_message_that_is_not_stored_again(tmp_path: Path) -> None:
    """Its number is free for the next message, and a log with its number would be taken for one that lost it."""
    sender, path = Sender(7, RememberingBroker(), random.Random(1)), tmp_path / "history"
    sender.recorder = recorder = Recorder(path, 0, 7, lambda: 0)
    told = []
    for name in (b"a", b"a", b"b"):
        told.append(sender.send(name, name))
        sender.finish()
    recorder.close()
    assert [each.places for each in told] == [[(0, 0)], [(0, 0)], [(0, 1)]]
    sends = [each for each in read_history(path) if isinstance(each, Send)]
    assert [each.offset for each in sends] == [0, 0, 1]
    assert [(each.producer, each.sequence) for each in sends] == [(f"{7:016x}", 0), ("", NONE), (f"{7:016x}", 1)]
    (sent,) = sent_in(read_history(path))
    assert sent.messages["offset"].tolist() == [0, 1]


def test_what_can_be_in_one_batch() -> None:
    sender = Sender(7, RememberingBroker(), random.Random(1))
    for name in (b"a", b"b", b"a", None, None, b"c"):
        sender.send(b"x", name)
    sender.sequencer._close()
    assert [(batch.count, batch.ids is None) for batch in sender.sequencer._line] == [
        (2, False),
        (1, False),
        (2, True),
        (1, False),
    ]


@pytest.mark.parametrize("wrong", [b"", "", b"x" * 257, "\ud800", 7])
def test_ids_that_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgumentError, match="message"):
        checked_message_id(wrong)  # type: ignore[arg-type]
