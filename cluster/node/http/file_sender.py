"""Bytes of a file to an HTTP client by sendfile(2): from the page cache to the socket, and never through this process.

    loop     headers ─> all written out? ─> hand over ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─> end of the response
    thread                                     └─ sendfile ─> full? poll ─> sendfile ─ ... a turn, then the next one

Aiohttp leaves this to the event loop, uvloop's has no `sendfile`, and then aiohttp reads and writes. So it is done
here, on a copy of the connection's descriptor, in a thread, which may wait for a disk or a slow client. A turn of the
thread is short, so nothing outlives a cancelled request for long. Nobody else writes to the connection meanwhile:
aiohttp answers its requests one after the other.
"""

from __future__ import annotations

import asyncio
import os
import select
import time
from concurrent.futures import Executor

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

TURN_S = 0.1
STALLED_S = 30.0
"""A client that takes nothing for so long is let go, for others to have its place."""
_MOST_AT_ONCE = 8 << 20


class FileSender:
    """For one file; `close` is due. Calls into `threads` at most one function at a time."""

    def __init__(self, threads: Executor, descriptor: int) -> None:
        """Takes the open file over."""
        self._threads = threads
        self._file = descriptor
        self._turn: asyncio.Future[int] | None = None

    async def send(self, request: web.Request, writer: AbstractStreamWriter, offset: int, count: int) -> None:
        """Send `count` bytes from `offset`, once the headers that `writer` has are out. Raises ConnectionError where
        the client has gone, or takes nothing, and OSError where the file cannot be read; the connection is at its end
        then, for less has come than the headers say."""
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client has gone")
        await _written_out(transport, writer)
        socket = os.dup(transport.get_extra_info("socket").fileno())
        try:
            await self._send_all(socket, offset, count)
        except OSError:
            transport.abort()
            raise
        finally:
            self._after_turn(socket)

    def close(self) -> None:
        self._after_turn(self._file)

    async def _send_all(self, socket: int, offset: int, count: int) -> None:
        loop = asyncio.get_running_loop()
        moved = time.monotonic()
        while count:
            self._turn = loop.run_in_executor(self._threads, _send_for_a_turn, socket, self._file, offset, count)
            sent = await asyncio.shield(self._turn)
            offset, count = offset + sent, count - sent
            if sent:
                moved = time.monotonic()
            elif time.monotonic() - moved > STALLED_S:
                raise ConnectionResetError(f"the client has taken nothing for {STALLED_S:.0f} s")

    def _after_turn(self, descriptor: int) -> None:
        """Close it, but not under a thread that uses it still: its number might be another file's by then."""
        turn = self._turn
        if turn is None or turn.done():
            os.close(descriptor)
        else:
            turn.add_done_callback(lambda _: os.close(descriptor))


async def _written_out(transport: asyncio.WriteTransport, writer: AbstractStreamWriter) -> None:
    """Returns once nothing waits in the transport: what is sent beside it would overtake that."""
    transport.set_write_buffer_limits(high=0)
    try:
        while transport.get_write_buffer_size():
            await writer.drain()
            await asyncio.sleep(0)
    finally:
        transport.set_write_buffer_limits()


def _send_for_a_turn(socket: int, file: int, offset: int, count: int) -> int:
    """How many bytes went out in the next moment; 0 where the client takes none."""
    sent, end = 0, time.monotonic() + TURN_S
    while sent < count and (left := end - time.monotonic()) > 0:
        try:
            now = os.sendfile(socket, file, offset + sent, min(count - sent, _MOST_AT_ONCE))
        except BlockingIOError:
            _wait_until_writable(socket, left)
            continue
        if not now:
            raise OSError("the file is shorter than it was")
        sent += now
    return sent


def _wait_until_writable(socket: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(socket, select.POLLOUT)
    poll.poll(seconds * 1000)
