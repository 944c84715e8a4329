"""Messages by key: the batches that the key index finds, as they lie in the log, the newest first.

Like a fetch, nothing is decoded here; the hashes in front of a batch tell how many of its messages count, and whoever
asked compares the keys. One answer is bounded in bytes and in steps along the index, and says at which position of
the log, the same on every replica, the next one goes on. The index is not believed against the log.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from ledger.batch import key_hashes
from ledger.broker.broker_replica import BrokerReplica
from ledger.errors import ReplicaBehindError, StorageFailedError
from ledger.hashing import key_hash
from ledger.v1 import broker_pb2
from store import EntryKind, Header, IndexDamagedError, KeyHit, RangeDamagedError
from store.index.key_index import FOR_EVER
from store.log.entry import EntryFlawError

log = logging.getLogger("ledgermq.broker.query")

MAX_ANSWER_BYTES = 4 << 20
STEPS_AT_ONCE = 64
"""Along the index, before others have their turn: each may read a batch that is not in memory."""
MAX_TURNS = 1600


@dataclass(slots=True)
class Budget:
    """What one answer may still have; the first batch always fits."""

    messages: int
    bytes: int

    def allows(self, size: int) -> bool:
        return size <= self.bytes or self.bytes == MAX_ANSWER_BYTES


async def query_messages(
    replica: BrokerReplica, request: broker_pb2.QueryMessagesRequest
) -> broker_pb2.QueryMessagesResponse:
    """Raises UnknownTopicError; ReplicaBehindError where the index is built anew, StorageFailedError where it is
    damaged, or the log is."""
    replica.state.topics.require(request.topic_id, 0)
    try:
        return await _Query(replica, request).answer()
    except IndexDamagedError as error:
        log.error("shard %d: %s", replica.shard, error)
        raise StorageFailedError(str(error)) from error
    except RangeDamagedError as damage:
        raise StorageFailedError(f"not all batches with that key can be read on this node: {damage}") from damage


class _Query:
    """One search, and the answer that grows of it."""

    def __init__(self, replica: BrokerReplica, request: broker_pb2.QueryMessagesRequest) -> None:
        self._replica = replica
        self._topic_id = request.topic_id
        self._hash = key_hash(request.key)
        self._before = request.before_position or FOR_EVER
        self._search = replica.keys.search(
            request.topic_id,
            self._hash,
            begin_ms=request.begin_ms if request.HasField("begin_ms") else 0,
            end_ms=request.end_ms if request.HasField("end_ms") else FOR_EVER,
            before=self._before,
        )
        self._budget = Budget(request.max_messages or MAX_ANSWER_BYTES, MAX_ANSWER_BYTES)
        self._response = broker_pb2.QueryMessagesResponse()

    async def answer(self) -> broker_pb2.QueryMessagesResponse:
        search, turns = self._search, 0
        while not search.done:
            for hit in search.take(STEPS_AT_ONCE):
                if not self._budget.allows(hit.size):
                    return self._to_be_continued(hit.position + 1)
                self._add(hit)
                if self._budget.messages <= 0:
                    return self._to_be_continued(hit.position)
            # To pass over what was given before is free: each answer comes further than the one before.
            turns += search.reached < self._before
            if turns >= MAX_TURNS and not search.done:
                return self._to_be_continued(search.reached)
            await asyncio.sleep(0)
            if search.is_void:
                raise ReplicaBehindError("the key index of this node is being built anew: try again shortly")
        return self._response

    def _to_be_continued(self, before: int) -> broker_pb2.QueryMessagesResponse:
        self._response.next_before_position = before
        return self._response

    def _add(self, hit: KeyHit) -> None:
        header, body = batch_at(self._replica, hit)
        hashes = key_hashes(body)
        messages = 0 if hashes is None or header.topic_id != self._topic_id else int((hashes == self._hash).sum())
        if messages == 0:
            return  # another key's, with the same hash
        found = self._response.batches.add(queue=header.queue).batch
        found.base_offset, found.append_time_ms = header.base_offset, header.append_time_ms
        found.term, found.body = header.term, body
        self._budget.messages -= messages
        self._budget.bytes -= hit.size


def batch_at(replica: BrokerReplica, hit: KeyHit) -> tuple[Header, bytes]:
    """The entry that a hit names. Raises `IndexDamagedError` where there is no such batch."""
    commit_log = replica.log
    if commit_log.reading.position(commit_log.first_index) <= hit.position < commit_log.end:
        try:
            header, body = commit_log.reading.entry_at(hit.position, hit.size)
        except EntryFlawError:
            pass
        else:
            if (header.kind, header.position, header.size) == (EntryKind.BATCH, hit.position, hit.size):
                return header, bytes(body)
    raise IndexDamagedError(replica.keys.directory, f"the log has no batch of {hit.size} bytes at {hit.position}")
