"""A replay knows half batches and the batches with their messages, and tells those that differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.batch import BatchHeader, DecidedColumn, HalfColumn, copied_half, decided_batch, encode
from ledger.broker.transactions.applied_transactions import transaction_step
from ledger.state import CommittedBatch, State
from ledger.state.feature_levels import TRANSACTIONS
from ledger.transactions import HALF_TOPIC, OUTCOME_MS
from ledger.v1 import command_pb2
from ledger.validation.judging.violation import ViolationKind
from ledger.validation.replay.replay import Replayed
from store import EntryDraft, EntryKind, Header
from tests.ledger.validation.stopped_cluster import TIME_MS, Writer
from tests.ledger.validation.test_steps import replayed, states_at

HALF_ID, ORDERS = 1, 2


class HalfWriter:
    """A log with the topic of half batches, and the digests of its state."""

    def __init__(self, directory: Path) -> None:
        self.writer = Writer(directory, segment_bytes=1 << 20)
        self.writer.command(raise_feature_level=command_pb2.RaiseFeatureLevel(level=TRANSACTIONS))
        self.writer.create_topic(HALF_TOPIC, 1)
        self.writer.create_topic("orders", 1)
        self.digests: dict[int, int] = {}
        self._directory = directory
        self._producers = 100

    @property
    def state(self) -> State:
        return self.writer.state

    def half(self, value: bytes, transaction: int | None = None) -> tuple[int, bytes]:
        """Append a half batch, which begins a transaction or belongs to one. Return its number and its bytes."""
        number = self.state.next_offset(HALF_ID, 0)
        self._producers += 1
        body = encode(
            [value], topic_id=HALF_ID, queue=0, producer_id=self._producers, epoch=0, first_sequence=0,
            base_timestamp_ms=TIME_MS, half=HalfColumn(ORDERS, 0, 0, "checkout", transaction),
        )  # fmt: skip
        self._append(body, HALF_ID)
        return number, body

    def decided(self, number: int, body: bytes) -> Header:
        """Append the batch that commits a half batch, with the messages of `body`."""
        return self._decided(body, DecidedColumn(number, number, 0, decides=True))

    def dead(self, number: int, body: bytes, transaction: int, *, time_ms: int) -> Header:
        """Append the batch with the dead letters of a half batch. The first one of a transaction ends it."""
        column = DecidedColumn(number, transaction, 0, decides=number == transaction, dead=True)
        return self._decided(body, column, time_ms)

    def _decided(self, body: bytes, column: DecidedColumn, time_ms: int | None = None) -> Header:
        end = self.state.next_offset(ORDERS, 0)
        batch = decided_batch(body, column, topic_id=ORDERS, queue=0, first_sequence=end)
        return self._append(batch, ORDERS, time_ms)

    def copy(self, number: int, body: bytes) -> Header:
        end = self.state.next_offset(HALF_ID, 0)
        return self._append(copied_half(body, number, end), HALF_ID)

    def _append(self, body: bytes, topic_id: int, time_ms: int | None = None) -> Header:
        end = self.state.next_offset(topic_id, 0)
        header = self.writer.append(EntryDraft(EntryKind.BATCH, body, topic_id, 0, end, 1), time_ms=time_ms)
        batch = BatchHeader.parse(body)
        committed = CommittedBatch(
            topic_id, 0, end, 1, header.append_time_ms, header.index, header.term, batch.producer_id, 0,
            batch.first_sequence,
        )  # fmt: skip
        step = transaction_step(header, batch, memoryview(body))
        assert step is not None
        step.apply(self.state)  # first, as a replica does
        self.state.apply_batch(committed)
        self.digests[header.index] = self.state.digest()
        return header

    def replayed(self) -> Replayed:
        self.writer.stop()
        return replayed(self._directory, tuple(self.digests), 8192)


@pytest.fixture
def log(tmp_path: Path) -> HalfWriter:
    return HalfWriter(tmp_path / "node-1")


def test_a_log_with_transactions_is_replayed(log: HalfWriter) -> None:
    for value in (b"a", b"b" * 300):
        first, body = log.half(value)
        second, _ = log.half(value)
        log.copy(first, body)
        log.decided(first, body)
        log.writer.command(roll_back_halves=command_pb2.RollBackHalves(numbers=[second]))
    assert len(log.state.transactions.outcomes) == 4
    found = log.replayed()
    assert found.told == []
    assert found.is_known
    assert states_at(found, tuple(log.digests)) == log.digests


def test_an_outcome_that_expires_with_a_batch_still_settles_the_half_batch_of_that_batch(log: HalfWriter) -> None:
    first, body = log.half(b"first")
    second, other = log.half(b"second", transaction=first)
    log.dead(first, body, first, time_ms=TIME_MS + 1000)
    log.dead(second, other, first, time_ms=TIME_MS + 1000 + OUTCOME_MS)
    assert not log.state.transactions.outcomes
    assert not log.state.transactions.waiting
    found = log.replayed()
    assert found.told == []
    assert found.is_known
    assert states_at(found, tuple(log.digests)) == log.digests


def test_other_messages_than_those_of_the_half_batch_are_told(log: HalfWriter) -> None:
    first, _ = log.half(b"promised")
    second, other = log.half(b"altered!")
    at = log.decided(first, other)
    copy = log.copy(second, log.half(b"third...")[1])
    told = [(each.kind, each.index) for each in log.replayed().told]
    assert told == [(ViolationKind.DECISION_ALTERED, at.index), (ViolationKind.DECISION_ALTERED, copy.index)]
