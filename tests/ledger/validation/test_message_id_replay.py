"""A replay remembers message ids as nodes do, and tells messages that are in a topic twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.batch import BatchHeader, HalfColumn, decided_batch, encode, message_ids, read_in
from ledger.batch.transactions import DecidedColumn
from ledger.broker.transactions.applied_transactions import transaction_step
from ledger.hashing import message_id_hash
from ledger.state import CommittedBatch, State
from ledger.state.feature_levels import MESSAGE_IDS
from ledger.transactions import HALF_TOPIC
from ledger.v1 import command_pb2
from ledger.validation.judging.violation import ViolationKind
from ledger.validation.replay.replay import Replayed
from store import EntryDraft, EntryKind, Header
from tests.ledger.validation.stopped_cluster import TIME_MS, Writer
from tests.ledger.validation.test_steps import replayed, states_at

HALF_ID, ORDERS, PAYMENTS = 1, 2, 3


class IdWriter:
    """A log whose batches have message ids, and the digests of its state."""

    def __init__(self, directory: Path) -> None:
        self.writer = Writer(directory, segment_bytes=1 << 20)
        self.writer.command(raise_feature_level=command_pb2.RaiseFeatureLevel(level=MESSAGE_IDS))
        for name in (HALF_TOPIC, "orders", "payments"):
            self.writer.create_topic(name, 2)
        self.digests: dict[int, int] = {}
        self._directory = directory
        self._producers = 100

    @property
    def state(self) -> State:
        return self.writer.state

    def batch(
        self, *names: bytes, topic_id: int = ORDERS, queue: int = 0, half: HalfColumn | None = None
    ) -> tuple[Header, bytes]:
        """Append a batch whose messages have these ids, as a leader does that does not look for ids."""
        self._producers += 1
        body = encode(
            list(names), topic_id=topic_id, queue=queue, producer_id=self._producers, epoch=0, first_sequence=0,
            base_timestamp_ms=TIME_MS, half=half, ids=[message_id_hash(name) for name in names],
        )  # fmt: skip
        return self.append(body), body

    def append(self, body: bytes) -> Header:
        batch = BatchHeader.parse(body)
        key = (batch.topic_id, batch.queue)
        end = self.state.next_offset(*key)
        header = self.writer.append(EntryDraft(EntryKind.BATCH, body, *key, end, batch.count))
        self.state.apply_batch(
            CommittedBatch(
                *key,
                end,
                batch.count,
                header.append_time_ms,
                header.index,
                header.term,
                batch.producer_id,
                0,
                batch.first_sequence,
            )
        )
        step = transaction_step(header, batch, memoryview(body))
        if step is not None:
            step.apply(self.state)
        if (ids := message_ids(body, batch)) is not None:
            self.state.apply_message_ids(read_in(body, batch), ids, key, end, header.append_time_ms)
        self.digests[header.index] = self.state.digest()
        return header

    def replayed(self) -> Replayed:
        self.writer.stop()
        return replayed(self._directory, tuple(self.digests), 8192)


@pytest.fixture
def log(tmp_path: Path) -> IdWriter:
    return IdWriter(tmp_path / "node-1")


def test_a_log_with_message_ids_is_replayed(log: IdWriter) -> None:
    log.batch(b"a", b"b")
    log.batch(b"c", queue=1)
    log.batch(b"a", topic_id=PAYMENTS)  # ids count for one topic
    _, half = log.batch(b"d", topic_id=HALF_ID, half=HalfColumn(ORDERS, 0, 0, "checkout"))
    column = DecidedColumn(0, 0, 0, decides=True)
    log.append(decided_batch(half, column, topic_id=ORDERS, queue=0, first_sequence=2))
    found = log.replayed()
    assert found.told == []
    assert states_at(found, tuple(log.digests)) == log.digests


def test_a_message_that_is_stored_twice_is_told(log: IdWriter) -> None:
    log.batch(b"a", b"b")
    again, _ = log.batch(b"c", b"a", queue=1)
    twins, _ = log.batch(b"d", b"d")
    half, _ = log.batch(b"b", topic_id=HALF_ID, half=HalfColumn(ORDERS, 0, 0, "checkout"))
    told = [(each.kind, each.index, each.topic_id, each.queue, each.offset) for each in log.replayed().told]
    repeated = ViolationKind.MESSAGE_REPEATED
    assert told == [
        (repeated, again.index, ORDERS, 1, 1),
        (repeated, twins.index, ORDERS, 0, 3),
        (repeated, half.index, HALF_ID, 0, 0),
    ]
