"""Where a consumer stands in one queue: what was fetched but not handed out, and where the next fetch starts. Pure.

    handed out | fetched, in `blocks` | not fetched yet
               ^ position             ^ fetch_offset

The position is not stored: it follows from the next block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from ledger.batch import Batch
from ledger.client.consumer.messages import decoded, messages_of
from ledger.client.records import Message
from ledger.errors import LedgerError


class QueueBatch(NamedTuple):
    """A whole batch of a queue, for those who want its columns. Its first message has `base_offset`, which may lie
    before the position that was sought; `batch.header.topic_id` tells topics apart."""

    queue: int
    base_offset: int
    batch: Batch


class Block:
    """One fetched batch. It is decoded when its first message is taken."""

    __slots__ = ("_messages", "_taken", "append_time_ms", "base_offset", "body", "first_offset", "term")

    def __init__(self, base_offset: int, first_offset: int, term: int, append_time_ms: int, body: bytes) -> None:
        self.base_offset = base_offset
        self.first_offset = first_offset  # messages of the batch before it were not asked for
        self.term = term
        self.append_time_ms = append_time_ms
        self.body = body
        self._messages: list[Message] | None = None
        self._taken = 0

    @property
    def next_offset(self) -> int:
        """The offset of the next message to be taken."""
        if self._messages is None or self._taken == len(self._messages):
            return self.first_offset
        return self._messages[self._taken].offset

    def take(self, count: int) -> list[Message]:
        """The next messages; the block must have been opened."""
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
        """Make the messages that were asked for."""
        messages = messages_of(
            batch,
            topic=topic,
            queue=queue,
            base_offset=self.base_offset,
            term=self.term,
            append_time_ms=self.append_time_ms,
            skip=max(self.first_offset - self.base_offset, 0),
        )
        self._messages = messages if tags is None else [message for message in messages if message.tag in tags]


class Cursor:
    """One queue of one consumer. While `error` is set nothing is fetched: the user is told of it, and must seek.
    Whoever fetches must be told of a seek and of a pause: a fetch may be under way."""

    def __init__(
        self, topic: str, topic_id: int, queue: int, *, offset: int, tags: Collection[str] | None, check_crcs: bool
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.queue = queue
        self.fetch_offset = offset
        self.error: LedgerError | None = None
        # Nothing is fetched for it, and so there is nothing to hand out.
        self.paused = False
        self.buffered_bytes = 0
        # Messages that were not there any more.
        self.skipped = 0
        self._blocks: deque[Block] = deque()
        self._tags = tags
        self._check_crcs = check_crcs

    @property
    def position(self) -> int:
        """The offset of the next message to be handed out, or behind what a filter has passed over."""
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
        """What was fetched ahead is let go: it would take up room that the others could use."""
        self.paused = True
        self.seek(self.position)

    def fetched(self, base_offset: int, term: int, body: bytes, append_time_ms: int = 0) -> None:
        """A batch that came in answer to a fetch at `fetch_offset`; then, `passed` says where the next fetch goes
        on."""
        self._blocks.append(Block(base_offset, max(base_offset, self.fetch_offset), term, append_time_ms, body))
        self.buffered_bytes += len(body)

    def passed(self, next_offset: int) -> None:
        assert next_offset >= self.fetch_offset
        self.fetch_offset = next_offset

    def skip_to(self, first_offset: int) -> None:
        """The queue begins there: what lies between is kept no longer."""
        self.skipped += first_offset - self.fetch_offset
        self.passed(first_offset)

    def take(self, count: int) -> list[Message]:
        """Up to `count` of the messages that have been fetched."""
        messages: list[Message] = []
        while len(messages) < count and (block := self._front()) is not None:
            messages += block.take(count - len(messages))
        self._drop_exhausted()
        return messages

    def take_one(self) -> Message | None:
        block = self._front()
        if block is None:
            return None
        message = block.take_one()
        self._drop_exhausted()
        return message

    def take_batches(self) -> list[QueueBatch]:
        """Everything that has been fetched, whole. A batch of which messages were taken already is given again."""
        batches = []
        while self._blocks and (batch := self._decoded(self._blocks[0])) is not None:
            block = self._blocks.popleft()
            self.buffered_bytes -= len(block.body)
            batches.append(QueueBatch(self.queue, block.base_offset, batch))
        return batches

    def _front(self) -> Block | None:
        """The first block with a message in it, opened."""
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

    def _decoded(self, block: Block) -> Batch | None:
        """The block's batch; None, with `error` set, where it is damaged: what lies behind it must not be handed out as
        if nothing were missing."""
        try:
            return decoded(block.body, self.topic, self.queue, block.base_offset, check_crc=self._check_crcs)
        except LedgerError as error:
            self.seek(block.first_offset)
            self.error = error
            return None
