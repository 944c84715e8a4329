"""The position of a consumer in one queue, and the batches that were fetched ahead. No I/O.

    handed out | fetched, in `blocks` | not fetched yet
               ^ position             ^ fetch_offset

A cursor calculates its position: the offset of the first message that was fetched and not handed out, or
`fetch_offset` if there is no such message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ledger.batch import Batch
from ledger.client.consumer.messages import decoded, messages_of
from ledger.client.records import Message
from ledger.errors import DeserializationError, LedgerError


class _QueueAndBatch(NamedTuple):
    queue: int
    base_offset: int
    batch: Batch


class QueueBatch(_QueueAndBatch):
    """A fetched batch of a queue, for programs that read the columns of the batch. It is the tuple
    `(queue, base_offset, batch)`, and has `append_time_ms` besides.

    `base_offset` is the offset of the first message of the batch as the log stores it. `base_offset` can be lower than
    the offset that was passed to seek(). `batch.header.topic_id` is the id of the batch's topic. A consumer with `tags`
    gets batches that lack messages with other tags: `offsets` has the offsets of those that are there.
    `append_time_ms` is the time at which the leader appended the batch, in ms since 1970.
    """

    append_time_ms: int

    def __new__(cls, queue: int, base_offset: int, batch: Batch, append_time_ms: int = 0) -> Self:
        made = super().__new__(cls, queue, base_offset, batch)
        made.append_time_ms = append_time_ms
        return made

    @property
    def offsets(self) -> NDArray[np.int64]:
        """The offset of each message of `batch`."""
        return self.batch.offsets_from(self.base_offset)


class FetchedBlock:
    """One fetched batch, which is decoded when its first message is taken."""

    __slots__ = ("_messages", "_taken", "append_time_ms", "base_offset", "body", "first_offset", "term")

    def __init__(self, base_offset: int, first_offset: int, term: int, append_time_ms: int, body: bytes) -> None:
        self.base_offset = base_offset
        self.first_offset = first_offset  # earlier messages of the batch lie before the fetch offset and are skipped
        self.term = term
        self.append_time_ms = append_time_ms
        self.body = body
        self._messages: list[Message] | None = None
        self._taken = 0

    @property
    def next_offset(self) -> int:
        """The offset of the next message that `take` returns from this block."""
        if self._messages is None or self._taken == len(self._messages):
            return self.first_offset
        return self._messages[self._taken].offset

    def take(self, count: int) -> list[Message]:
        """Remove and return the next `count` messages of the block, or fewer at its end. The caller must have
        called `open` before `take`."""
        assert self._messages is not None
        taken = self._messages[self._taken : self._taken + count]
        self._taken += len(taken)
        return taken

    def take_one(self) -> Message:
        assert self._messages is not None
        self._taken += 1
        return self._messages[self._taken - 1]

    @property
    def exhausted(self) -> bool:
        return self._messages is not None and self._taken >= len(self._messages)

    @property
    def opened(self) -> bool:
        return self._messages is not None

    def open(self, topic: str, queue: int, batch: Batch, tags: Collection[str] | None) -> None:
        """Make the block's messages from the decoded batch: those at `first_offset` or later that have a wanted
        tag."""
        messages = messages_of(
            batch,
            topic=topic,
            queue=queue,
            base_offset=self.base_offset,
            term=self.term,
            append_time_ms=self.append_time_ms,
            skip=batch.first_from(self.first_offset - self.base_offset),
        )
        self._messages = messages if tags is None else [message for message in messages if message.tag in tags]


class Cursor:
    """The position of one consumer in one queue, with the fetched batches of the queue. While a cursor has an `error`,
    the fetcher does not fetch from its queue. The next read raises the error, and the program must then call seek().
    After a seek or a pause the caller must restart the fetcher, because a fetch from the old offset may be under way.
    """

    def __init__(
        self,
        topic: str,
        topic_id: int,
        queue: int,
        *,
        offset: int,
        tags: Collection[str] | None,
        check_crcs: bool,
        deserializer: Callable[[bytes], Any] | None = None,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.queue = queue
        self.fetch_offset = offset
        self.error: LedgerError | None = None
        # While a cursor is paused, the fetcher skips it and it has no blocks.
        self.paused = False
        self.buffered_bytes = 0
        # Messages that were skipped because they were no longer kept.
        self.skipped = 0
        self._blocks: deque[FetchedBlock] = deque()
        self._tags = tags
        self._check_crcs = check_crcs
        self._deserializer = deserializer

    @property
    def position(self) -> int:
        """The offset of the next message to hand out from this queue. Messages that the tag filter removed are
        skipped."""
        return self._blocks[0].next_offset if self._blocks else self.fetch_offset

    @property
    def ready(self) -> bool:
        return bool(self._blocks)

    def seek(self, offset: int) -> None:
        self._blocks.clear()
        self.buffered_bytes = 0
        self.fetch_offset = offset
        self.error = None

    def pause(self) -> None:
        """Pause the queue, and drop its messages that were fetched and not handed out, so that other queues can use
        the memory."""
        self.paused = True
        self.seek(self.position)

    def fetched(self, base_offset: int, term: int, body: bytes, append_time_ms: int = 0) -> None:
        """Add a batch that was fetched at `fetch_offset`. The caller then calls `passed` with the next offset to
        fetch."""
        self._blocks.append(FetchedBlock(base_offset, max(base_offset, self.fetch_offset), term, append_time_ms, body))
        self.buffered_bytes += len(body)

    def passed(self, next_offset: int) -> None:
        assert next_offset >= self.fetch_offset
        self.fetch_offset = next_offset

    def skip_to(self, first_offset: int) -> None:
        """Continue at `first_offset`, the queue's first kept offset, and add the messages before this offset to
        `skipped`."""
        self.skipped += first_offset - self.fetch_offset
        self.passed(first_offset)

    def take(self, count: int) -> list[Message]:
        """Remove and return up to `count` fetched messages."""
        messages: list[Message] = []
        while len(messages) < count and (block := self._front()) is not None:
            messages += block.take(count - len(messages))
        self._drop_exhausted()
        return messages if self._deserializer is None else self._deserialized(messages, self._deserializer)

    def take_one(self) -> Message | None:
        block = self._front()
        if block is None:
            return None
        message = block.take_one()
        self._drop_exhausted()
        if self._deserializer is None:
            return message
        return next(iter(self._deserialized([message], self._deserializer)), None)

    def _deserialized(self, messages: list[Message], deserializer: Callable[[bytes], Any]) -> list[Message]:
        """Return the messages with the values that the deserializer makes. If it fails for a message, return the
        messages before it, set `error`, and go back to the message, so that the program can decide about it."""
        made = []
        for message in messages:
            try:
                made.append(message._replace(value=deserializer(message.value)))
            except Exception as error:
                self.seek(message.offset)
                self.error = DeserializationError(
                    f"The deserializer failed for message {message.id}: {error!r}. To skip the message, "
                    f'seek("{self.topic}", {self.queue}, {message.offset + 1}).',
                    topic=self.topic,
                    queue=self.queue,
                    offset=message.offset,
                )
                self.error.__cause__ = error
                break
        return made

    def take_batches(self) -> list[QueueBatch]:
        """Remove and return all fetched batches. A batch is returned whole, even if some of its messages were
        already taken."""
        batches = []
        while self._blocks and (batch := self._decoded(self._blocks[0])) is not None:
            block = self._blocks.popleft()
            self.buffered_bytes -= len(block.body)
            batches.append(QueueBatch(self.queue, block.base_offset, batch, block.append_time_ms))
        return batches

    def take_block(self) -> tuple[FetchedBlock, Batch] | None:
        """Remove and return the first fetched batch that still has messages, decoded. If there is none, or if the batch
        is damaged, return None."""
        self._drop_exhausted()
        if not self._blocks or (batch := self._decoded(self._blocks[0])) is None:
            return None
        block = self._blocks.popleft()
        self.buffered_bytes -= len(block.body)
        return block, batch

    @property
    def tags(self) -> Collection[str] | None:
        """The wanted tags; None: all messages."""
        return self._tags

    def _front(self) -> FetchedBlock | None:
        """Open the first block that still has messages, and return the block. If no block has messages, or if the
        next batch is damaged, return None."""
        self._drop_exhausted()
        while self._blocks and not self._blocks[0].opened:
            batch = self._decoded(self._blocks[0])
            if batch is None:
                return None
            self._blocks[0].open(self.topic, self.queue, batch, self._tags)
            self._drop_exhausted()
        return self._blocks[0] if self._blocks else None

    def _drop_exhausted(self) -> None:
        while self._blocks and self._blocks[0].exhausted:
            self.buffered_bytes -= len(self._blocks.popleft().body)

    def _decoded(self, block: FetchedBlock) -> Batch | None:
        """Return the decoded batch of the block. If the batch is damaged, set `error`, drop all blocks and return
        None. Blocks after the damaged batch are dropped too: if their messages were handed out, the program would not
        notice the missing messages.
        """
        try:
            return decoded(block.body, self.topic, self.queue, block.base_offset, check_crc=self._check_crcs)
        except LedgerError as error:
            self.seek(block.first_offset)
            self.error = error
            return None
