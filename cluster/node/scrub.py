"""Reads, a little at a time while the node works, what its start did not read of the log.

A start that goes on at a checkpoint trusts what lies before; damage there is found here, before anybody needs those
bytes. Whoever is told of a flaw sees to it; reading goes on behind it when that is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from store import CommitLog, Flaw, FlawKind, FoundEntry, LogReader, ReadOnlyDisk, StoreError

log = logging.getLogger("ledgermq.node.scrub")

PIECE_ENTRIES = 200
PIECE_BYTES = 1 << 20
PAUSE_S = 0.02
"""Between pieces: at most 50 MB or 10,000 entries a second, and some percent of a core."""

Beside = Callable[[Callable[[], object]], Awaitable[None]]
"""Does something on a helper thread, and tells the shard where the disk fails."""


class Scrub:
    """Of one shard's log, up to the last entry that was not read."""

    def __init__(
        self,
        disk: ReadOnlyDisk,
        commit_log: CommitLog,
        segment_bytes: int,
        on_flaw: Callable[[Flaw], Awaitable[None]],
    ) -> None:
        self._disk = disk
        self._log = commit_log
        self._segment_bytes = segment_bytes
        self._on_flaw = on_flaw
        self._last = commit_log.unread_up_to
        self._is_over = False
        self._first = 0
        self._found: Iterator[FoundEntry | Flaw] = iter(())
        self._flaw: Flaw | None = None
        """The one that was found last, and is not seen to yet."""

    async def run(self, beside: Beside) -> None:
        """Ends when all was read."""
        if self._last < self._log.first_index:
            return
        while not self._is_over and self._last >= self._log.first_index:
            if self._first != self._log.first_index:
                self._begin()
            await beside(self._read_piece)
            if self._flaw is not None:
                flaw, self._flaw = self._flaw, None
                await self._on_flaw(flaw)
            await asyncio.sleep(PAUSE_S)
        log.info("the log was read up to entry %d, where this start went on", self._last)

    def _read_piece(self) -> None:
        try:
            self._read_on()
        except StoreError as error:
            if self._first == self._log.first_index:
                self._is_over = True
                raise
            log.debug("a segment was let go while it was read: %s", error)

    def _begin(self) -> None:
        """At the log's beginning, which moves on."""
        self._first = self._log.first_index
        segments = self._log.reading.segment_files(self._last)
        # The file in which the start lies may hold no entry any more: it is not among them then.
        start = self._log.start_tail
        start = replace(start, end=max(start.end, segments[0].base)) if segments else start
        reader = LogReader(self._disk, segments, segment_bytes=self._segment_bytes, start=start)
        self._found = iter(reader)

    def _read_on(self) -> None:
        budget = PIECE_BYTES
        for _ in range(PIECE_ENTRIES):
            found = next(self._found, None)
            if isinstance(found, Flaw):
                if found.kind is not FlawKind.TORN:
                    self._flaw = found
                    return
            elif found is None or found.header.index >= self._last:
                self._is_over = True
                return
            else:
                budget -= found.header.size
                if budget <= 0:
                    return
