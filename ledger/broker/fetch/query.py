"""Answers queries that look up messages by one of their keys. A result has the batches that the key index finds, newest
first, with the bytes that the log stores. The broker decodes no message. The key hashes at the front of a batch say
how many of its messages can have the key. The client compares the keys themselves. The bytes of one result and its
steps through the key index are limited. The result says at which position of the log the next query continues. Log
positions are equal on every replica, so another replica can answer the next query. The query checks every hit of
the index against the log."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import NamedTuple

from ledger.batch import indexed_hashes
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.log_batches import batch_entry_at
from ledger.errors import ReplicaBehindError, StorageFailedError
from ledger.hashing import key_hash
from ledger.topics import check_readable
from store import Header, IndexDamagedError, KeyHit, RangeDamagedError
from store.index.key_index import FOR_EVER

log = logging.getLogger("ledgermq.broker.query")

MAX_ANSWER_BYTES = 4 << 20
# Steps through the index before other tasks run. Each step may read a batch that is not in memory.
STEPS_AT_ONCE = 64
MAX_TURNS = 1600


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """A query for the messages of one topic that have a certain key or look-up key.

    The query returns only batches that were appended in [begin_ms, end_ms), in ms since 1970, and lie before
    `before_position`. `max_messages` limits the messages of one result. A value of None or 0 means no limit."""

    topic_id: int
    key: bytes
    begin_ms: int | None = None
    end_ms: int | None = None
    max_messages: int = 0
    before_position: int = 0


class FoundBatch(NamedTuple):
    """A batch that can contain messages with the key."""

    queue: int
    base_offset: int
    append_time_ms: int
    term: int
    body: bytes


@dataclass(slots=True)
class KeyQueryResult:
    """The found batches, newest first. The next query continues before `next_before_position`; 0 means that there
    are no more batches."""

    batches: list[FoundBatch] = field(default_factory=list)
    next_before_position: int = 0


@dataclass(slots=True)
class QueryBudget:
    """The number of messages and bytes that one result can still have. The first batch is returned even if it is
    larger than the budget."""

    messages: int
    bytes: int

    def allows(self, size: int) -> bool:
        return size <= self.bytes or self.bytes == MAX_ANSWER_BYTES


async def query_messages(replica: BrokerReplica, query: KeyQuery) -> KeyQueryResult:
    """Return the batches that can contain messages with the key of the query.

    Raises UnknownTopicError, InvalidTopicNameError for a topic that no client reads, ReplicaBehindError if this node is
    rebuilding its key index, or StorageFailedError if the index or the log is damaged.
    """
    check_readable(replica.state.topics.require(query.topic_id, 0).name)
    try:
        return await _Query(replica, query).result()
    except IndexDamagedError as error:
        log.error("shard %d: %s", replica.shard, error)
        raise StorageFailedError(str(error)) from error
    except RangeDamagedError as damage:
        raise StorageFailedError(f"this node cannot read all batches with that key: {damage}") from damage


class _Query:
    """`_Query` searches the key index for one query, and collects the result."""

    def __init__(self, replica: BrokerReplica, query: KeyQuery) -> None:
        self._replica = replica
        self._topic_id = query.topic_id
        self._hash = key_hash(query.key)
        self._before = query.before_position or FOR_EVER
        self._search = replica.keys.search(
            query.topic_id,
            self._hash,
            begin_ms=0 if query.begin_ms is None else query.begin_ms,
            end_ms=FOR_EVER if query.end_ms is None else query.end_ms,
            before=self._before,
        )
        self._budget = QueryBudget(query.max_messages or MAX_ANSWER_BYTES, MAX_ANSWER_BYTES)
        self._result = KeyQueryResult()

    async def result(self) -> KeyQueryResult:
        search, turns = self._search, 0
        while not search.done:
            for hit in search.take(STEPS_AT_ONCE):
                if not self._budget.allows(hit.size):
                    return self._to_be_continued(hit.position + 1)
                self._add(hit)
                if self._budget.messages <= 0:
                    return self._to_be_continued(hit.position)
            # Passing the hits of earlier results costs no turn, so each result gets further than the one before.
            turns += search.reached < self._before
            if turns >= MAX_TURNS and not search.done:
                return self._to_be_continued(search.reached)
            await asyncio.sleep(0)
            if search.is_void:
                raise ReplicaBehindError("this node is rebuilding its key index: try again shortly")
        return self._result

    def _to_be_continued(self, before: int) -> KeyQueryResult:
        self._result.next_before_position = before
        return self._result

    def _add(self, hit: KeyHit) -> None:
        header, body = batch_at(self._replica, hit)
        hashes = indexed_hashes(body)
        messages = 0 if hashes is None or header.topic_id != self._topic_id else int((hashes == self._hash).sum())
        if messages == 0:
            return  # the hit belongs to another key with the same hash in the index
        self._result.batches.append(
            FoundBatch(header.queue, header.base_offset, header.append_time_ms, header.term, body)
        )
        self._budget.messages -= messages
        self._budget.bytes -= hit.size


def batch_at(replica: BrokerReplica, hit: KeyHit) -> tuple[Header, bytes]:
    """Read the entry to which a hit of the key index points. Raises IndexDamagedError if the log has no batch of
    this size at this position."""
    found = batch_entry_at(replica.log, hit.position, hit.size)
    if found is not None:
        header, body = found
        return header, bytes(body)
    raise IndexDamagedError(replica.keys.directory, f"the log has no batch of {hit.size} bytes at {hit.position}")
