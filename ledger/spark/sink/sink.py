"""Rows as messages: what `write.format("ledgermq")` and `writeStream.format("ledgermq")` do.

    columns   value (needed); key, tag, headers, topic

A task's rows go out under a name that the same rows have whenever they are written: the query (or, of a batch, this
one write) and the partition; so what a task that died has sent already is not sent twice. It is not hidden either:
readers see rows as soon as they are committed in the log, before Spark has committed the micro-batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import xxhash
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ledger.errors import InvalidArgumentError, UnknownTopicError
from ledger.spark.source.options import WriteOptions
from ledger.spark.source.schema import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

    from ledger.spark.sink.numbered_sender import Identity

_BYTES = ("binary", "string")
_TYPES = {
    "value": _BYTES,
    "key": _BYTES,
    "tag": ("string",),
    "topic": ("string",),
    "headers": (COLUMNS["headers"].simpleString(),),
}
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver: its rows, and how many of them an earlier attempt had written."""

    rows: int
    known: int


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._name = options.name or (uuid.uuid4().hex, 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write_rows(iterator, self._options, *self._name)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        query, batch = (context and context.getLocalProperty(name) for name in (_QUERY_ID, _BATCH_ID))
        assert query, "Spark has not told the task which query it belongs to"
        assert batch, "Spark has not told the task which micro-batch it belongs to"
        return write_rows(iterator, self._options, query, int(batch))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """All is in the log already."""


def write_rows(batches: Iterator[pa.RecordBatch], options: WriteOptions, query: str, epoch: int) -> Written:
    """In a task. Returns when all rows are committed; raises LedgerError."""
    from ledger.codec import Codec
    from ledger.spark.sink.numbered_sender import NumberedSender
    from ledger.spark.sink.outgoing_rows import check_sizes, slices, tables
    from ledger.spark.source.connection import connection_to

    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    connection = connection_to(options.servers)
    sender = NumberedSender(connection.client, identity(query, partition, epoch), Codec.named(options.compression))
    topic_of = cache(lambda name: connection.topics([name])[0])  # the same for all rows, whatever becomes of it
    for table in tables(batches, options.topic, options.row_order, options.max_partition_bytes):
        check_sizes(table, connection.max_message_bytes)
        rows = list(slices(table, topic_of, partition + epoch))
        connection.run(sender.send(rows))
    return Written(sender.sent.rows, sender.sent.known)


def identity(query: str, partition: int, epoch: int) -> Identity:
    """The same for all attempts, and for nobody else."""
    from ledger.spark.sink.numbered_sender import Identity

    return Identity(xxhash.xxh3_64_intdigest(f"{query}/{partition}".encode()), epoch)


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """InvalidArgumentError unless there is what is needed, of a type that can be sent, and nothing unknown."""
    there = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in there:
        raise InvalidArgumentError(f'There is no column "value", which has the messages: there are {", ".join(there)}.')
    if "topic" not in there and options.topic is None:
        raise InvalidArgumentError('Neither the option "topic" nor a column "topic" says where rows are to go.')
    for name, kind in there.items():
        if name not in COLUMNS:
            raise InvalidArgumentError(
                f'The column "{name}" is none that can be written: {", ".join(_TYPES)} can. Drop or rename it.'
            )
        if name in _TYPES and kind not in _TYPES[name]:
            raise InvalidArgumentError(
                f'The column "{name}" is of type {kind}, and must be {" or ".join(_TYPES[name])}.'
            )


def check_topic(options: WriteOptions) -> None:
    """UnknownTopicError where the option names none that there is; asks the cluster."""
    from ledger.spark.source.connection import connection_to

    if options.topic is None:
        return
    try:
        connection_to(options.servers).topics([options.topic])
    except UnknownTopicError as error:
        raise UnknownTopicError(f'The option "topic" is "{options.topic}": {error}') from error


def check_name(options: WriteOptions, *, streaming: bool) -> None:
    """InvalidArgumentError where a stream, which has a name of its own, is given one."""
    if streaming and options.name is not None:
        raise InvalidArgumentError('The options "producer" and "epoch" are of batches: a stream has its own.')


def check_mode(*, overwrite: bool, streaming: bool) -> None:
    """InvalidArgumentError where a log would have to forget what it has."""
    if overwrite and streaming:
        raise InvalidArgumentError('A log is only appended to: outputMode "complete" cannot be written; use "update".')
    if overwrite:
        raise InvalidArgumentError('A log is only appended to: mode "overwrite" cannot be had; use .mode("append").')
