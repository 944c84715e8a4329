"""Reads one range of offsets, in a task: fetches ahead, and hands over what came as record batches.

While Spark takes what came, the next answer is on its way; more than one is never asked for, so what waits here is
bounded by two answers.
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
from ledger.spark.source.ranges import Range
from ledger.spark.source.row_gatherer import Origin, RowGatherer
from ledger.v1 import broker_pb2

log = logging.getLogger("ledgermq.spark")

_ELSEWHERE_AFTER_MS = 2_000
"""Where another replica can be asked."""


def read_range(wanted: Range, options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All its messages, in order; by `schema`, which names columns of ours. Raises LedgerError."""
    gatherer = RowGatherer(schema, wanted.topic, wanted.queue, options.tags)
    for answer in _Reader(wanted, options).answers():
        for batch, base_offset, origin in answer.batches:
            yield from gatherer.add(batch, base_offset, answer.asked, wanted.end, origin)
    yield from gatherer.flush()


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came when the offset `asked` was asked for; messages before it were given before."""

    asked: int
    batches: list[tuple[Batch, int, Origin]]


class _Reader:
    def __init__(self, wanted: Range, options: ReadOptions) -> None:
        self._wanted = wanted
        self._options = options
        self._connection = connection_to(options.servers)
        self._tag_hashes = sorted(map(tag_hash, options.tags or ()))
        self._nodes: Sequence[int | None] = wanted.nodes or (None,)
        self._failures = 0  # in a row; the next node is asked after each

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
        node = self._nodes[self._failures % len(self._nodes)]
        timeout_ms = REQUEST_TIMEOUT_MS if len(self._nodes) == 1 else _ELSEWHERE_AFTER_MS
        return self._connection.fetch(self._wanted, offset, node, self._tag_hashes, timeout_ms)

    def _decoded(self, batch: broker_pb2.FetchedBatch, node: int) -> tuple[Batch, int, Origin]:
        wanted, base_offset = self._wanted, batch.base_offset
        whole = decoded(batch.body, wanted.topic, wanted.queue, base_offset, check_crc=self._options.verify_crc)
        return whole, base_offset, Origin(batch.term, str(node) if node else None)

    def _next_offset(self, error: LedgerError, offset: int) -> int:
        """Where reading goes on behind this error; raises where it does not."""
        if self._passed_over(error):
            gone_on_at = self._wanted.end if error.first_offset is None else error.first_offset
            log.warning(
                "%s; going on at offset %d, since failOnDataLoss is false.", self._told(error, offset), gone_on_at
            )
            return gone_on_at
        self._failures += 1
        if retries_elsewhere(error) and self._failures < len(self._nodes):
            return offset
        raise self._told(error, offset) from error

    def _passed_over(self, error: LedgerError) -> bool:
        """Whether this tells of messages that are kept no longer, and the user wants what is left."""
        return not self._options.fail_on_data_loss and isinstance(error, (OffsetTooLowError, UnknownTopicError))

    def _told(self, error: LedgerError, offset: int) -> LedgerError:
        wanted, asked = self._wanted, self._wanted.nodes or "its leader"
        return type(error)(
            f'Queue {wanted.queue} of topic "{wanted.topic}" cannot be read from offset {offset} on (asked: {asked}): '
            f"{error}"
        )
