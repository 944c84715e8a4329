"""Reads one span of a log in a Spark task, and returns the messages of the wanted topics as record batches.

An entry belongs to the span in which it begins, so tasks read their spans independently. The task checks the bytes as
the validation does, and reports damage as an error or as a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ledger.batch import Batch
from ledger.errors import CorruptBatchError
from ledger.spark.source.log_options import LogOptions
from ledger.spark.source.row_gatherer import MAX_BYTES, Origin, RowGatherer
from ledger.validation.sources.access import access_to
from ledger.validation.sources.errors import SegmentGoneError, SourceError
from ledger.validation.spans.batches import batches_of, body_of
from ledger.validation.spans.block import SpanBlock
from ledger.validation.spans.entries import Entries
from ledger.validation.spans.pieces import GapKind
from ledger.validation.spans.span_reader import runs_in

if TYPE_CHECKING:
    from ledger.spark.source.log_span import LogSpan

log = logging.getLogger("ledgermq.spark")

_EVERYTHING = 1 << 62


def read_log_span(wanted: LogSpan, options: LogOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a span as record batches, each of one queue.

    Raises CorruptBatchError if the span is damaged, unless the option failOnDataLoss is false.
    """
    replica, span = wanted.replica, wanted.span
    segment = replica.segments[span.segment]
    try:
        block = SpanBlock.read(access_to(segment.path), segment, span.begin, span.end, replica.largest_entry)
    except (SourceError, SegmentGoneError) as error:
        _lost(f"{error}", options)
        return
    gathered = _Gathered(wanted, options, schema)
    index = 0
    for piece in runs_in(block, span.begin if span.is_exact else None):
        if isinstance(piece, Entries):
            index = piece.header(-1).index
            yield from gathered.add(block, piece)
        elif (piece.kind is not GapKind.BLANK or piece.junk is not None) and index != replica.last_index:
            _lost(f"{segment.path}, position {piece.position}: {piece.reason}", options)
    yield from gathered.flush()


class _Gathered:
    """The rows of a span that were read so far, by topic and queue."""

    def __init__(self, wanted: LogSpan, options: LogOptions, schema: pa.Schema) -> None:
        self._wanted = wanted
        self._options = options
        self._schema = schema
        self._of_queue: dict[tuple[int, int], RowGatherer] = {}
        self._bytes = 0
        node = wanted.replica.node
        self._replica = wanted.replica.source if node is None else str(node)

    def add(self, block: SpanBlock, entries: Entries) -> Iterator[pa.RecordBatch]:
        facts, broken = batches_of(block, entries)
        for each in broken:
            _lost(f"{block.segment.path}, position {each.position}: {each.reason}", self._options)
        for fact in facts:
            topic = self._wanted.names.get(int(fact["topic_id"]))
            if topic is None or fact["index"] > self._wanted.last_index:
                continue
            batch = Batch(body_of(block, fact), check_crc=False)  # `batches_of` has compared the CRC already
            base, origin = int(fact["base_offset"]), Origin(int(fact["term"]), self._replica)
            yield from self._gatherer(fact, topic).add(batch, base, 0, _EVERYTHING, origin)
            self._bytes += batch.header.plain_size
            if self._bytes >= MAX_BYTES:
                yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        self._bytes = 0
        for gatherer in self._of_queue.values():
            yield from gatherer.flush()

    def _gatherer(self, fact: np.void, topic: str) -> RowGatherer:
        place = int(fact["topic_id"]), int(fact["queue"])
        gatherer = self._of_queue.get(place)
        if gatherer is None:
            gatherer = self._of_queue[place] = RowGatherer(self._schema, topic, place[1], self._options.tags)
        return gatherer


def _lost(sentence: str, options: LogOptions) -> None:
    if options.fail_on_data_loss:
        raise CorruptBatchError(
            f'{sentence}. Run `ledgermq log verify` for details, or set the option "failOnDataLoss" to "false" to read '
            "the undamaged messages."
        )
    log.warning("%s; reading only the undamaged messages, because failOnDataLoss is false.", sentence)
