"""The scrub: while the node serves, it slowly reads the entries that the start of the node did not read.

A start from a checkpoint trusts the entries before the checkpoint. The scrub finds damage among the entries before the
checkpoint, before a reader needs these entries. The scrub passes each flaw to `on_flaw`, and continues after the flaw
when `on_flaw` returns.
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
# The pause between two pieces. It limits the scrub to 50 MB or 10,000 entries a second and a few percent of a core.
PAUSE_S = 0.02

# How long the scrub waits after a disk error that can be temporary. Then it begins again at the log start.
AGAIN_S = 10.0
NOT_READ = "the scrub could not read the log, and will begin again at the log start"

# Runs a function on a helper thread, and reports a failure of the disk to the shard. The second argument is the log
# line of a failure that can be temporary: what failed, and what follows.
Beside = Callable[[Callable[[], object], str], Awaitable[None]]


class Scrub:
    """Reads those entries of one shard's log that the start of the replica did not read."""

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
        # The first entry of the log when the reading began; 0 if the scrub must begin to read.
        self._first = 0
        self._found: Iterator[FoundEntry | Flaw] = iter(())
        # A flaw that was found and not passed to `on_flaw` yet.
        self._flaw: Flaw | None = None

    async def run(self, beside: Beside) -> None:
        """Read the entries that the start did not read, and return when all of them are read. `run` reads the disk
        only through `beside`, which does the reading on a helper thread."""
        if self._last < self._log.first_index:
            return
        while not self._is_over and self._last >= self._log.first_index:
            if self._first != self._log.first_index:
                self._begin()
            await beside(self._read_piece, NOT_READ)
            if self._flaw is not None:
                flaw, self._flaw = self._flaw, None
                await self._on_flaw(flaw)
            await asyncio.sleep(AGAIN_S if self._first == 0 else PAUSE_S)
        log.info("scrub finished: the log was read up to entry %d, the checkpoint of this start", self._last)

    def _read_piece(self) -> None:
        try:
            self._read_on()
        except StoreError as error:
            if self._first == self._log.first_index:
                if error.retriable:
                    self._first = 0
                else:
                    self._is_over = True
                raise
            log.debug("retention removed a segment while the scrub read it: %s", error)

    def _begin(self) -> None:
        """Start to read at the log start. The scrub starts again at the log start when retention has moved the log
        start."""
        self._first = self._log.first_index
        segments = self._log.reading.segment_files(self._last)
        # `segments` leaves out a file without entries, so the first segment may begin after the log start.
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
