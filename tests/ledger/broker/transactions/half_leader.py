"""A leader of shard 0 with half batches, without other voters and without a network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from ledger.batch import HalfColumn, encode
from ledger.broker.transactions.other_shards import OtherShards
from ledger.retries import dead_letter_topic
from ledger.state.commands import CreateTopic, RaiseFeatureLevel
from ledger.state.feature_levels import TRANSACTIONS
from ledger.state.transaction_table import TransactionTable
from ledger.transactions import HALF_TOPIC
from store import EntryDraft, EntryKind, Header
from tests.ledger.broker.timed.leader import NOW_MS, ORDERS, Leader

HALF_ID = 3
COLUMN = HalfColumn(ORDERS, 0, 0, "checkout")


class HalfLeader(Leader):
    def __init__(self) -> None:
        super().__init__()
        self.append(RaiseFeatureLevel(TRANSACTIONS))
        self.append(CreateTopic(HALF_TOPIC, 1))
        self.replica.leading(2)

    @property
    def table(self) -> TransactionTable:
        return self.replica.state.transactions

    def half(self, value: bytes = b"value", transaction: int | None = None, queue: int = 0) -> int:
        """Append a half batch, and return its number."""
        number = self.replica.state.next_offset(HALF_ID, 0)
        body = half_batch(value, replace(COLUMN, queue=queue, transaction=transaction), number)
        self.append(EntryDraft(EntryKind.BATCH, body, HALF_ID, 0, number, 1))
        return number

    def dead_letter_topic(self) -> int:
        """Create the dead-letter topic of the producer group, and return its id."""
        self.append(CreateTopic(dead_letter_topic(COLUMN.group), 1))
        topic = self.replica.state.topics.named(dead_letter_topic(COLUMN.group))
        assert topic is not None
        return topic.topic_id

    def values(self, topic_id: int = ORDERS, queue: int = 0) -> list[Header]:
        """Return the headers of the batches in a queue."""
        entries = (self.log.entry(index) for index in range(1, self.log.last_index + 1))
        return [
            header
            for header, _ in entries
            if header.kind is EntryKind.BATCH and (header.topic_id, header.queue) == (topic_id, queue)
        ]


def half_batch(value: bytes, column: HalfColumn, producer: int = 7, **columns: Any) -> bytes:
    """Return a half batch with one message, which a producer of its own sends."""
    return encode(
        [value], topic_id=HALF_ID, queue=0, producer_id=producer + 1, epoch=0, first_sequence=0,
        base_timestamp_ms=NOW_MS, half=column, **columns,
    )  # fmt: skip


# There is only shard 0.
NO_OTHER_SHARDS = cast(OtherShards, None)
