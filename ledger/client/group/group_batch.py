"""Messages of one queue that a consumer of a group hands out together, as columns."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from itertools import compress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ledger.batch import Batch, Headers
from ledger.batch.columns import BinaryColumn
from ledger.client.checked_arguments import shown
from ledger.client.consumer.cursor import FetchedBlock
from ledger.client.consumer.messages import messages_of
from ledger.client.records import Message
from ledger.errors import InvalidArgumentError

T = TypeVar("T")


def check_messages(messages: Iterable[object]) -> None:
    """Raise InvalidArgumentError if something else than messages and batches is in the list."""
    for message in messages:
        if not isinstance(message, Message | GroupBatch):
            raise InvalidArgumentError(
                f"messages has {shown(message)}, which is no message and no batch of this consumer: give each message "
                "by itself, as in finish(first, second)."
            )


def check_message(message: object) -> None:
    """Raise InvalidArgumentError if this is no message: a batch is none."""
    if not isinstance(message, Message):
        raise InvalidArgumentError(f"message is {shown(message)}: give one message that this consumer received.")


class GroupBatch:
    """Messages of one queue, in ascending order of their offsets. `finish(batch)` finishes all of them.

    Fields:

        topic, queue    where the messages are
        offset          the offset of the first message
        offsets         the offset of each message, as a numpy array
        term            the Raft term of the messages' entry
        append_time_ms  the time at which the leader appended the messages, in ms since 1970
        batch           the fetched batch. It can have more messages than this object: those that were consumed before,
                        that were moved to a retry topic, or that the tag filter removes
    """

    __slots__ = ("_base_offset", "_there", "append_time_ms", "batch", "offset", "offsets", "queue", "term", "topic")

    def __init__(self, topic: str, queue: int, block: FetchedBlock, batch: Batch, there: NDArray[np.bool_]) -> None:
        self.topic = topic
        self.queue = queue
        self.batch = batch
        # Which messages of `batch` belong to this object; None: all.
        self._there = None if there.all() else there
        self._base_offset = block.base_offset
        self.offsets: NDArray[np.int64] = batch.offsets_from(block.base_offset)[there]
        self.offset = int(self.offsets[0])
        self.term = block.term
        self.append_time_ms = block.append_time_ms

    def __len__(self) -> int:
        return len(self.offsets)

    def __repr__(self) -> str:
        return f"GroupBatch({self.topic!r}, {self.queue}, offset={self.offset}, messages={len(self)})"

    def values(self) -> list[bytes]:
        """Return the value of each message, as bytes: a `deserializer` of the consumer is not used."""
        return self._chosen(self.batch.values())

    def keys(self) -> list[bytes | None]:
        """Return the key of each message, None for a message without a key."""
        return self._chosen(self.batch.keys())

    def tags(self) -> list[str | None]:
        """Return the tag of each message, None for a message without a tag."""
        return self._chosen(self.batch.tags())

    def headers(self) -> list[Headers]:
        """Return the headers of each message, () for a message without headers."""
        return self._chosen(self.batch.headers())

    def timestamps_ms(self) -> NDArray[np.int64]:
        """Return the timestamp of each message, in ms since 1970."""
        deltas = self.batch.columns.timestamp_deltas
        if deltas is None:
            return np.full(len(self), self.batch.header.base_timestamp_ms, np.int64)
        times = deltas + np.int64(self.batch.header.base_timestamp_ms)
        return times if self._there is None else times[self._there]

    def messages(self) -> list[Message]:
        """Return all messages as objects, for example to pass one of them to reconsume_later(). The values are
        bytes."""
        made = messages_of(
            self.batch,
            topic=self.topic,
            queue=self.queue,
            base_offset=self._base_offset,
            term=self.term,
            append_time_ms=self.append_time_ms,
        )
        return self._chosen(made)

    def to_arrow(self) -> Any:
        """Return a pyarrow.RecordBatch with the columns offset, timestamp_ms, key, value and tag.

        Keys, values and tags are views of the fetched bytes, not copies, if this object has all messages of its batch.
        Raises InvalidArgumentError if pyarrow is not installed.
        """
        try:
            import_arrow()
        except ModuleNotFoundError as error:
            raise InvalidArgumentError("to_arrow() needs the package pyarrow: run pip install pyarrow.") from error
        arrow = sys.modules["pyarrow"]
        columns, count = self.batch.columns, len(self.batch)
        strings = {
            "key": _arrow_strings(arrow, arrow.binary(), columns.keys, count),
            "value": _arrow_strings(arrow, arrow.binary(), columns.bodies, count),
            "tag": _arrow_strings(arrow, arrow.string(), columns.tags, count),
        }
        if self._there is not None:
            mask = arrow.array(self._there)
            strings = {name: column.filter(mask) for name, column in strings.items()}
        named = {"offset": arrow.array(self.offsets), "timestamp_ms": arrow.array(self.timestamps_ms()), **strings}
        return arrow.RecordBatch.from_arrays(list(named.values()), names=list(named))

    def _chosen(self, column: list[T]) -> list[T]:
        return column if self._there is None else list(compress(column, self._there.tolist()))


def group_batch(
    topic: str, queue: int, block: FetchedBlock, batch: Batch, *, tags: Collection[str] | None, settled: Collection[int]
) -> GroupBatch | None:
    """Return the messages of a fetched batch that the program has not got yet, with one of `tags` and without those in
    `settled`. If no message is left, return None."""
    there = np.ones(len(batch), np.bool_)
    there[: batch.first_from(block.next_offset - block.base_offset)] = False
    if tags is not None:
        there &= np.fromiter((tag in tags for tag in batch.tags()), np.bool_, len(batch))
    if settled:
        there &= ~np.isin(batch.offsets_from(block.base_offset), list(settled))
    return GroupBatch(topic, queue, block, batch, there) if there.any() else None


def import_arrow() -> None:
    """Load pyarrow, which takes a third of a second. Raises ModuleNotFoundError."""
    __import__("pyarrow")


def _arrow_strings(arrow: Any, kind: Any, column: BinaryColumn | None, count: int) -> Any:
    """Return a column as an Arrow array whose buffers are those of the batch."""
    if column is None:
        return arrow.nulls(count, kind)
    validity = None if column.validity is None else arrow.py_buffer(column.validity)
    return arrow.Array.from_buffers(
        kind, count, [validity, arrow.py_buffer(column.offsets), arrow.py_buffer(column.data)]
    )
