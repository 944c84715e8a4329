"""Checks the rows of a Spark partition, sorts them, and cuts them into batches of queues. No I/O.

    rows of a partition ── by topic ──┬── with a key: the key's queue, keys in order ──┬── cut ── batches of each queue
                                      └── without: round the queues, a batch to each ──┘

A broker recognises a repeated batch by its number, so every attempt of a task must make the same batches from the same
rows. After a shuffle the rows arrive in any order, so this module sorts the rows. A user whose rows always come in the
same order can set the option rowOrder = "arrival" to avoid the sort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledger.batch import Headers
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.producer.arguments import checked_headers, checked_look_up_keys, checked_tag
from ledger.client.producer.slices import cuts
from ledger.errors import InvalidArgumentError, MessageTooLargeError
from ledger.hashing import queue_of

Table: TypeAlias = "pa.Table"
# Row numbers of a table.
Rows = NDArray[np.int64]

BATCH_BYTES = 256 * 1024
BATCH_ROWS = 65_535
_KINDS: Mapping[str, pa.DataType] = {
    "topic": pa.string(),
    "key": pa.binary(),
    "value": pa.binary(),
    "tag": pa.string(),
    "headers": pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
    "look_up_keys": pa.list_(pa.binary()),
}


@dataclass(frozen=True, slots=True)
class Content:
    """The messages of one batch, column by column. A column is None if no message of the batch has it."""

    values: list[bytes]
    keys: list[bytes | None] | None
    tags: list[str | None] | None
    headers: list[Headers] | None
    look_up_keys: list[tuple[bytes, ...]] | None


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows that form one batch. To save memory, the content of the rows is copied from the table only when it
    is needed."""

    topic: RoutedTopic
    queue: int
    table: Table
    rows: Rows

    def content(self) -> Content:
        """Return the messages of the rows. Raises InvalidArgumentError for a tag, headers or look-up keys that are not
        allowed."""
        table = self.table.take(self.rows)
        keys, tags, headers, more_keys = table["key"], table["tag"], table["headers"], table["look_up_keys"]
        return Content(
            table["value"].to_pylist(),
            None if _is_empty(keys) else keys.to_pylist(),
            None if _is_empty(tags) else [checked_tag(tag) for tag in tags.to_pylist()],
            None if _is_empty(headers) else [_headers(each) for each in headers.to_pylist()],
            None if _is_empty(more_keys) else [checked_look_up_keys(each) for each in more_keys.to_pylist()],
        )


def tables(batches: Iterable[pa.RecordBatch], topic: str | None, order: str, max_bytes: int) -> Iterator[Table]:
    """Yield the rows as tables with the columns of `_KINDS`, in the order in which they are sent.

    With the order "arrival" there is a table for each record batch. With other orders there is one table with all
    rows, which must fit into memory. Raises InvalidArgumentError for an invalid row, or if a table with all rows has
    more than `max_bytes`.
    """
    if order == "arrival":
        yield from (_checked(batch, topic) for batch in batches if batch.num_rows)
        return
    gathered, size = [], 0
    for batch in batches:
        gathered.append(_checked(batch, topic))
        size += gathered[-1].nbytes
        if size > max_bytes:
            raise InvalidArgumentError(
                f"The rows of one partition have more than {max_bytes} bytes, too many to sort them in memory: make "
                'more partitions, lower "maxOffsetsPerTrigger", raise the option "maxPartitionBytes", or set '
                '"rowOrder" to "arrival" if the rows come in the same order each time.'
            )
    whole = pa.concat_tables(gathered) if gathered else None
    if whole is not None and whole.num_rows:
        yield _in_order(whole, order)


def _checked(batch: pa.RecordBatch, topic: str | None) -> Table:
    """Return the batch as a table with the columns of `_KINDS`. Raises InvalidArgumentError for a missing value."""
    columns = {}
    for name, kind in _KINDS.items():
        at = batch.schema.get_field_index(name)
        columns[name] = pa.nulls(batch.num_rows, kind) if at < 0 else batch.column(at).cast(kind)
    if topic is not None:
        columns["topic"] = pa.repeat(pa.scalar(topic), batch.num_rows)
    for name in ("topic", "value"):
        if columns[name].null_count:
            raise InvalidArgumentError(
                f'The column "{name}" is null in {columns[name].null_count} rows: give it a value in every row.'
            )
    return pa.table(columns)


def _in_order(table: Table, order: str) -> Table:
    """Return the rows sorted.

    The order "content" sorts all rows by content. The order "key" sorts rows with a key by key, and keeps the order of
    rows with equal keys; it sorts rows without a key by content.
    """
    if order == "content":
        return _by_content(table)
    keyed = pc.is_valid(table["key"])
    by_key = table.filter(keyed)
    by_key = by_key.take(pc.sort_indices(by_key, [("topic", "ascending"), ("key", "ascending")]))  # it is stable
    return pa.concat_tables([by_key, _by_content(table.filter(pc.invert(keyed)))])


def _by_content(table: Table) -> Table:
    names = ("topic", "key", "value", "tag", "headers as text", "look_up_keys as text")
    sorted_by = table
    for name in names[-2:]:
        texts = pa.array(map(repr, table[name.removesuffix(" as text")].to_pylist()), pa.string())
        sorted_by = sorted_by.append_column(name, texts)
    return table.take(pc.sort_indices(sorted_by, [(name, "ascending") for name in names]))


# -- queues and batches


def slices(table: Table, topic_of: Callable[[str], RoutedTopic], first_queue: int) -> Iterator[Slice]:
    """Yield the rows of each batch in the order in which the batches are sent.

    Rows without a key go to the queues of their topic in turn, beginning with `first_queue`.
    """
    names = pc.dictionary_encode(table["topic"].combine_chunks())
    for number, name in sorted(enumerate(names.dictionary.to_pylist()), key=lambda each: each[1]):
        rows = np.flatnonzero(np.asarray(names.indices) == number)
        yield from _of_topic(table.take(rows), topic_of(name), first_queue)


def _of_topic(table: Table, topic: RoutedTopic, first_queue: int) -> Iterator[Slice]:
    queues = len(topic.shards)
    of_key = _queues(table["key"], queues)
    sizes = _sizes(table)
    for queue in range(queues):
        for rows in _cut(np.flatnonzero(of_key == queue), sizes):
            yield Slice(topic, queue, table, rows)
    for turn, rows in enumerate(_cut(np.flatnonzero(of_key < 0), sizes)):
        yield Slice(topic, (first_queue + turn) % queues, table, rows)


def _queues(keys: pa.ChunkedArray, queues: int) -> NDArray[np.int64]:
    """Return the queue of each row with a key, and -1 for rows without a key."""
    encoded = pc.dictionary_encode(keys.combine_chunks())
    distinct = np.array([queue_of(key, queues) for key in encoded.dictionary.to_pylist()] + [-1], np.int64)
    numbers = np.asarray(encoded.indices.fill_null(len(distinct) - 1))
    queue_of_row: NDArray[np.int64] = distinct[numbers]
    return queue_of_row


def _sizes(table: Table) -> NDArray[np.int64]:
    """Return the approximate size of each row, in bytes."""
    parts = [pc.fill_null(pc.binary_length(table[name]), 0) for name in ("value", "key", "tag")]
    sizes: NDArray[np.int64] = np.sum([np.asarray(part, np.int64) for part in parts], axis=0)
    for name in ("headers", "look_up_keys"):
        if table[name].null_count < len(table):
            sizes += np.array([len(repr(each)) if each else 0 for each in table[name].to_pylist()], np.int64)
    return sizes


def _cut(rows: Rows, sizes: NDArray[np.int64]) -> Iterator[Rows]:
    for start, stop, _ in cuts(sizes[rows], max_bytes=BATCH_BYTES, max_count=BATCH_ROWS):
        yield rows[start:stop]


def _is_empty(column: pa.ChunkedArray) -> bool:
    return bool(column.null_count == len(column))


def _headers(pairs: list[dict[str, str | bytes | None]] | None) -> Headers:
    if not pairs:
        return ()
    if wrong := [pair for pair in pairs if pair is None or pair["key"] is None or pair["value"] is None]:
        raise InvalidArgumentError(
            f'The column "headers" has a header without name or value ({wrong[0]}): give both or remove the header.'
        )
    return tuple(checked_headers([(pair["key"], pair["value"]) for pair in pairs]) or ())  # type: ignore[misc]


def check_sizes(table: Table, max_message_bytes: int) -> None:
    """Raise MessageTooLargeError if a value is larger than the cluster's limit (0: no limit is known)."""
    longest = pc.max(pc.binary_length(table["value"])).as_py()
    if max_message_bytes and longest > max_message_bytes:
        raise MessageTooLargeError(
            f'The column "value" has {longest} bytes in one row, over the cluster\'s limit of {max_message_bytes}: '
            "split the value, or raise the limit."
        )
