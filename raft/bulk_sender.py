"""Sends entries and pieces of snapshots from the leader to its followers at the end of each turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from raft.core import Append, SnapshotChunk
from raft.interfaces import Log, Transport
from raft.log_start import LogStart
from store import Readable, StoreError


class BulkSender:
    """Reads byte ranges of one log and passes them to the transport."""

    def __init__(self, log: Log, log_start: LogStart | None, transport: Transport) -> None:
        self._log = log
        self._log_start = log_start
        self._transport = transport

    def send(self, messages: Sequence[Append | SnapshotChunk]) -> None:
        """Send all messages whose entries can be read. Raise StoreError if the entries of some messages cannot be
        read."""
        self._transport.replicate(self._readable(message for message in messages if isinstance(message, Append)))
        for message in messages:
            if isinstance(message, SnapshotChunk):
                assert self._log_start is not None, "a log that always begins with entry 1 has no snapshot to send"
                self._transport.send_snapshot(message, self._log_start.piece(message.offset))

    def _readable(self, appends: Iterable[Append]) -> Iterator[tuple[Append, Readable]]:
        """Yield each Append with its entries. After the last readable Append, raise the first error of a range that
        cannot be read."""
        failure: StoreError | None = None
        for append in appends:
            first, last = append.prev_index + 1, append.last_index
            try:
                entries = self._log.view_range(first, last) if first <= last else b""
            except StoreError as error:
                failure = failure or error
            else:
                yield append, entries
        if failure is not None:
            raise failure
