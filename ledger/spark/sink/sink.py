"""The writers of `write.format("ledgermq")` and `writeStream.format("ledgermq")`, which send rows as messages.

    columns   value (required); key, tag, headers, topic

A task sends its rows as a producer whose id follows from the query and the partition. All attempts of a task use the
same id, so brokers recognise rows that an earlier attempt has sent, and store them once. Readers see rows as soon as
the rows are committed in the log, before Spark commits the micro-batch.
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

    from ledger.spark.sink.numbered_sender import TaskIdentity

_BYTES = ("binary", "string")
_TYPES = {
    "value": _BYTES,
    "key": _BYTES,
    "tag": ("string",),
    "topic": ("string",),
    "headers": (COLUMNS["headers"].simpleString(),),
    "look_up_keys": ("array<binary>", "array<string>"),
}
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The report of a task to the driver: the number of its rows, and the number of rows that an earlier attempt
    had written."""

    rows: int
    known: int


class BatchWriter(DataSourceArrowWriter):
    """Writes a table. Spark calls its methods."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._name = options.name or (uuid.uuid4().hex, 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write_rows(iterator, self._options, *self._name)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream. Spark calls its methods."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        query, batch = (context and context.getLocalProperty(name) for name in (_QUERY_ID, _BATCH_ID))
        assert query, "Spark has not told the task which query it belongs to"
        assert batch, "Spark has not told the task which micro-batch it belongs to"
        return write_rows(iterator, self._options, query, int(batch))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Do nothing, because the rows of the micro-batch are already committed in the log."""


def write_rows(batches: Iterator[pa.RecordBatch], options: WriteOptions, query: str, epoch: int) -> Written:
    """Send the rows of a task, and return when all rows are committed. Raises LedgerError."""
    from ledger.codec import Codec
    from ledger.spark.sink.numbered_sender import NumberedSender
    from ledger.spark.sink.outgoing_rows import check_sizes, slices, tables
    from ledger.spark.source.connection import connection_to

    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    connection = connection_to(options.servers)
    sender = NumberedSender(connection.client, identity(query, partition, epoch), Codec.named(options.compression))
    topic_of = cache(lambda name: connection.topics([name])[0])  # looked up once, so all rows see the same queues
    for table in tables(batches, options.topic, options.row_order, options.max_partition_bytes):
        check_sizes(table, connection.max_message_bytes)
        rows = list(slices(table, topic_of, partition + epoch))
        connection.run(sender.send(rows))
    return Written(sender.sent.rows, sender.sent.known)


def identity(query: str, partition: int, epoch: int) -> TaskIdentity:
    """Return the producer id and epoch of a task. Producer id and epoch are the same in all attempts of a task, and
    different for different tasks."""
    from ledger.spark.sink.numbered_sender import TaskIdentity

    return TaskIdentity(xxhash.xxh3_64_intdigest(f"{query}/{partition}".encode()), epoch)


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Raise InvalidArgumentError if a required column is missing, is unknown or has a type that cannot be written."""
    there = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in there:
        raise InvalidArgumentError(
            f'The column "value" is missing; it has the values of the messages. The columns are {", ".join(there)}.'
        )
    if "topic" not in there and options.topic is None:
        raise InvalidArgumentError('The topic is not known: set the option "topic", or add a column "topic".')
    for name, kind in there.items():
        if name not in COLUMNS:
            raise InvalidArgumentError(
                f'The column "{name}" cannot be written: drop or rename it. Allowed columns are {", ".join(_TYPES)}.'
            )
        if name in _TYPES and kind not in _TYPES[name]:
            raise InvalidArgumentError(
                f'The column "{name}" has type {kind} and must be {" or ".join(_TYPES[name])}: cast it.'
            )


def check_topic(options: WriteOptions) -> None:
    """Ask the cluster whether the topic in the option "topic" exists. Raises UnknownTopicError if the topic does
    not exist."""
    from ledger.spark.source.connection import connection_to

    if options.topic is None:
        return
    try:
        connection_to(options.servers).topics([options.topic])
    except UnknownTopicError as error:
        raise UnknownTopicError(f'The option "topic" is "{options.topic}": {error}') from error


def check_name(options: WriteOptions, *, streaming: bool) -> None:
    """Raise InvalidArgumentError if a stream has the options "producer" and "epoch"."""
    if streaming and options.name is not None:
        raise InvalidArgumentError(
            'The options "producer" and "epoch" are allowed for batches only: remove them, because a stream has its '
            "own producer and epochs."
        )


def check_mode(*, overwrite: bool, streaming: bool) -> None:
    """Raise InvalidArgumentError for a mode that would have to replace messages in the log."""
    if overwrite and streaming:
        raise InvalidArgumentError('Messages cannot be replaced: outputMode "complete" is not possible; use "update".')
    if overwrite:
        raise InvalidArgumentError(
            'Messages cannot be replaced: mode "overwrite" is not possible; use .mode("append").'
        )
