"""Reads one range of offsets in a Spark task, and returns the messages as record batches.

While Spark processes one answer, the reader fetches the next one. The reader never fetches more than one answer ahead,
so it holds at most two answers in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import pyarrow as pa

from ledger.batch import Batch
from ledger.client.consumer.messages import decoded
from ledger.errors import LedgerError, OffsetTooLowError, UnknownTopicError
from ledger.hashing import tag_hash
from ledger.spark.source.connection import REQUEST_TIMEOUT_MS, Fetched, connection_to, retries_elsewhere
from ledger.spark.source.options import ReadOptions
from ledger.spark.source.ranges import OffsetRange
from ledger.spark.source.row_gatherer import Origin, RowGatherer
from ledger.v1 import broker_pb2

log = logging.getLogger("ledgermq.spark")

# The timeout of a fetch if another replica can be asked afterwards.
_ELSEWHERE_AFTER_MS = 2_000


def read_range(wanted: OffsetRange, options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield all messages of the range in order, with the columns of `schema`. Raises LedgerError."""
    gatherer = RowGatherer(schema, wanted.topic, wanted.queue, options.tags)
    for answer in _Reader(wanted, options).answers():
        for batch, base_offset, origin in answer.batches:
            yield from gatherer.add(batch, base_offset, answer.asked, wanted.end, origin)
    yield from gatherer.flush()


@dataclass(frozen=True, slots=True)
class _Answer:
    """The batches of a fetch from offset `asked`. The first batch may contain messages before the offset `asked`;
    the reader leaves these messages out."""

    asked: int
    batches: list[tuple[Batch, int, Origin]]


class _Reader:
    def __init__(self, wanted: OffsetRange, options: ReadOptions) -> None:
        self._wanted = wanted
        self._options = options
        self._connection = connection_to(options.servers)
        self._tag_hashes = sorted(map(tag_hash, options.tags or ()))
        self._nodes: Sequence[int | None] = wanted.nodes or (None,)
        self._failures = 0  # failures in a row
        self._turn = 0  # which of the nodes is asked; after each failure the next one

    def answers(self) -> Iterator[_Answer]:
        offset, end = self._wanted.start, self._wanted.end
        fetching: Future[Fetched] | None = None
        while offset < end:
            fetching = fetching or self._fetch(offset)
            try:
                came = fetching.result()
                answer = _Answer(offset, [self._decoded(batch, came.node) for batch in came.queue.batches])
            except LedgerError as error:
                offset, fetching = self._next_offset(error, offset), None
                continue
            self._failures = 0
            offset = came.queue.next_offset
            fetching = self._fetch(offset) if offset < end else None
            yield answer

    def _fetch(self, offset: int) -> Future[Fetched]:
        node = self._nodes[self._turn % len(self._nodes)]
        timeout_ms = REQUEST_TIMEOUT_MS if len(self._nodes) == 1 else _ELSEWHERE_AFTER_MS
        return self._connection.fetch(self._wanted, offset, node, self._tag_hashes, timeout_ms)

    def _decoded(self, batch: broker_pb2.FetchedBatch, node: int) -> tuple[Batch, int, Origin]:
        wanted, base_offset = self._wanted, batch.base_offset
        whole = decoded(batch.body, wanted.topic, wanted.queue, base_offset, check_crc=self._options.verify_crc)
        return whole, base_offset, Origin(batch.term, str(node) if node else None)

    def _next_offset(self, error: LedgerError, offset: int) -> int:
        """Return the offset at which reading continues after this error, or raise the error."""
        if self._passed_over(error):
            gone_on_at = self._wanted.end if error.first_offset is None else error.first_offset
            log.warning(
                "%s; reading continues at offset %d, because failOnDataLoss is false.",
                self._told(error, offset),
                gone_on_at,
            )
            return gone_on_at
        self._failures += 1
        self._turn += 1
        if retries_elsewhere(error) and self._failures < len(self._nodes):
            return offset
        raise self._told(error, offset) from error

    def _passed_over(self, error: LedgerError) -> bool:
        """Return whether the error reports messages that are no longer kept, and failOnDataLoss is false."""
        return not self._options.fail_on_data_loss and isinstance(error, (OffsetTooLowError, UnknownTopicError))

    def _told(self, error: LedgerError, offset: int) -> LedgerError:
        wanted, asked = self._wanted, self._wanted.nodes or "its leader"
        return type(error)(
            f'Queue {wanted.queue} of topic "{wanted.topic}" cannot be read from offset {offset} on '
            f"(asked: {asked}): {error}"
        )
