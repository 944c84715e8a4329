"""Writes messages as a file that a browser saves: JSON lines, or Parquet.

Both are written piece by piece, so that a large file needs little memory. Parquet needs pyarrow, which a node does not
need otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from cluster.message_json import json_format
from ledger.client.records import Message
from ledger.errors import InvalidArgumentError

NO_PYARROW = (
    "This node cannot write Parquet files, because pyarrow is not installed: run "
    "`pip install 'ledgermq[server,parquet]'` on its machine and restart the node, or download JSON lines."
)


class MessageFile(Protocol):
    """An interface: makes the bytes of one file."""

    # The type of the content, and the end of the file's name.
    content_type: str
    ending: str

    def add(self, messages: Sequence[Message]) -> bytes:
        """Return the bytes that follow. They may be empty."""

    def end(self) -> bytes:
        """Return the last bytes of the file."""


class JsonLines:
    """Writes each message as `ledgermq consume --format json` prints it."""

    content_type = "application/x-ndjson"
    ending = "jsonl"

    def add(self, messages: Sequence[Message]) -> bytes:
        return json_format(messages)

    def end(self) -> bytes:
        return b""


class ParquetFile:
    """Writes a row for each message, and a row group for each call of `add`."""

    content_type = "application/vnd.apache.parquet"
    ending = "parquet"

    def __init__(self) -> None:
        import pyarrow as pa  # here, because a node works without it
        from pyarrow import parquet

        time = pa.timestamp("ms", "UTC")
        header = pa.struct([("name", pa.string()), ("value", pa.binary())])
        self._schema = pa.schema(
            [
                ("topic", pa.string()),
                ("queue", pa.int32()),
                ("offset", pa.int64()),
                ("timestamp", time),
                ("append_time", time),
                ("term", pa.int64()),
                ("key", pa.binary()),
                ("tag", pa.string()),
                ("headers", pa.list_(header)),
                ("look_up_keys", pa.list_(pa.binary())),
                ("value", pa.binary()),
            ]
        )
        self._table: Any = pa.table
        self._sink = _Sink()
        self._writer = parquet.ParquetWriter(self._sink, self._schema, compression="zstd")

    def add(self, messages: Sequence[Message]) -> bytes:
        columns = {
            "topic": [one.topic for one in messages],
            "queue": [one.queue for one in messages],
            "offset": [one.offset for one in messages],
            "timestamp": [one.timestamp_ms for one in messages],
            "append_time": [one.append_time_ms for one in messages],
            "term": [one.term for one in messages],
            "key": [one.key for one in messages],
            "tag": [one.tag for one in messages],
            "headers": [[{"name": name, "value": value} for name, value in one.headers] for one in messages],
            "look_up_keys": [list(one.look_up_keys) for one in messages],
            "value": [one.value for one in messages],
        }
        self._writer.write_table(self._table(columns, schema=self._schema))
        return self._sink.taken()

    def end(self) -> bytes:
        self._writer.close()
        return self._sink.taken()


class _Sink:
    """A file that is only written to. Its bytes are taken away while it grows."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._size += len(part)
        return len(part)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        """The bytes stay until they are taken."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def taken(self) -> bytes:
        """Return what was written since the last call."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data


def has_parquet() -> bool:
    """Return True if this node can write Parquet files."""
    return find_spec("pyarrow") is not None


def message_file(form: str) -> MessageFile:
    """Return a new file in the form "jsonl" or "parquet". Raises InvalidArgumentError."""
    if form == "jsonl":
        return JsonLines()
    if form != "parquet":
        raise InvalidArgumentError(f"{form[:40]!r} is no form of a download: use jsonl or parquet.")
    if not has_parquet():
        raise InvalidArgumentError(NO_PYARROW)
    return ParquetFile()
