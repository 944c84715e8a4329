"""Reads the lines of a file or of standard input for `ledgermq produce`.

A separate thread reads the input, because reading from a terminal or a pipe can block. The thread is a daemon and
reads the file descriptor directly, so that it cannot prevent the process from ending. Between the thread and the event
loop there is a short queue, which limits the memory.
"""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

from cluster.cli.failure import CommandError
from cluster.load.line_splitter import LONGEST_LINE_BYTES, LineSplitter

_READ_BYTES = 1 << 20
_QUEUED_READS = 4


@dataclass(frozen=True, slots=True)
class Source:
    """The input of `ledgermq produce`. If `separator` is None, a line ends with a line feed, or with a carriage return
    and a line feed."""

    name: str
    descriptor: int
    separator: bytes | None
    longest_bytes: int = LONGEST_LINE_BYTES

    @property
    def total_bytes(self) -> int | None:
        """The size of the input if it is a regular file, otherwise None."""
        status = os.fstat(self.descriptor)
        return status.st_size if stat.S_ISREG(status.st_mode) else None


class LineReader:
    """Iterates over the lines of the input, in lists. `read_bytes` is the number of bytes read so far."""

    def __init__(self, source: Source) -> None:
        self.read_bytes = 0
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._room = threading.BoundedSemaphore(_QUEUED_READS)
        self._items: asyncio.Queue[list[bytes] | OSError | None] = asyncio.Queue()
        threading.Thread(target=self._read, name="reader", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        while (item := await self._items.get()) is not None:
            if isinstance(item, OSError):
                raise CommandError(f"{self._source.name} cannot be read: {item.strerror}") from item
            self._room.release()
            yield item

    def _read(self) -> None:
        splitter = LineSplitter(self._source.separator or b"\n", longest_bytes=self._source.longest_bytes)
        with suppress(RuntimeError):  # the loop has ended
            try:
                while data := os.read(self._source.descriptor, _READ_BYTES):
                    self.read_bytes += len(data)
                    self._pass(splitter.feed(data))
                self._pass(splitter.finish())
            except OSError as error:
                self._loop.call_soon_threadsafe(self._items.put_nowait, error)
            self._loop.call_soon_threadsafe(self._items.put_nowait, None)

    def _pass(self, lines: list[bytes]) -> None:
        if not lines:
            return
        if self._source.separator is None:
            lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
        self._room.acquire()
        self._loop.call_soon_threadsafe(self._items.put_nowait, lines)
