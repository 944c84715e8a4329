"""Sends part of a file to an HTTP client by sendfile(2), from the page cache to the socket.

    event loop   headers ─> all written out? ─> hand over ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─> end of the response
    thread                                         └─ sendfile ─> full? poll ─> sendfile ─ ... one turn, next turn

Aiohttp uses the `sendfile` method of the event loop. uvloop has no such method, so aiohttp would copy the bytes
through this process. Therefore this module calls sendfile in a thread, on a duplicate of the connection's file
descriptor. The thread is allowed to wait for the disk or for a slow client. The thread sends for at most `TURN_S`
seconds in one turn, so it ends soon after a request is cancelled. While sendfile runs, no other code writes to the
connection, because aiohttp answers the requests of a connection one after another.

With TLS, the bytes go through the transport in pieces, because sendfile would bypass the encryption.
"""

from __future__ import annotations

import asyncio
import os
import select
import time
from concurrent.futures import Executor
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from cluster.node.http import downloads
from cluster.node.http.downloads import DownloadPace

TURN_S = 0.1
_MOST_AT_ONCE = 8 << 20
# With TLS.
_PIECE_BYTES = 256 << 10


class FileSender:
    """Sends parts of one open file. A file sender uses at most one thread of `threads` at a time. The owner of a
    `FileSender` must call `close`."""

    def __init__(self, threads: Executor, descriptor: int, pace: DownloadPace) -> None:
        """Take over the open file `descriptor`; `close` closes it. `pace` judges the client."""
        self._threads = threads
        self._pace = pace
        self._file = descriptor
        self._turn: asyncio.Future[Any] | None = None

    async def send(self, request: web.Request, writer: AbstractStreamWriter, offset: int, count: int) -> None:
        """Send `count` bytes from `offset`, after the headers in `writer`.

        Raises ConnectionError if the client has disconnected or is too slow, and OSError if the file cannot be read.
        After an error the connection is closed, because fewer bytes were sent than the headers announced."""
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client has disconnected")
        if transport.get_extra_info("ssl_object") is not None:
            try:
                await self._send_encrypted(writer, offset, count)
            except OSError:
                transport.abort()
                raise
            return
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

    async def _send_encrypted(self, writer: AbstractStreamWriter, offset: int, count: int) -> None:
        """Send through the transport, which encrypts the bytes. sendfile would send them in plain text."""
        loop = asyncio.get_running_loop()
        while count:
            wanted = min(count, _PIECE_BYTES)
            self._turn = loop.run_in_executor(self._threads, os.pread, self._file, wanted, offset)
            piece: bytes = await asyncio.shield(self._turn)
            if not piece:
                raise OSError("the file has become shorter")
            offset, count = offset + len(piece), count - len(piece)
            await send_piece(writer, piece, self._pace)

    async def _send_all(self, socket: int, offset: int, count: int) -> None:
        loop = asyncio.get_running_loop()
        while count:
            self._turn = loop.run_in_executor(self._threads, _send_for_a_turn, socket, self._file, offset, count)
            sent = await asyncio.shield(self._turn)
            offset, count = offset + sent, count - sent
            self._pace.moved(sent)

    def _after_turn(self, descriptor: int) -> None:
        """Close `descriptor` when the running turn of the thread ends. Until the turn ends, the thread can still
        use the descriptor, so the number of the descriptor must not be given to another file."""
        turn = self._turn
        if turn is None or turn.done():
            os.close(descriptor)
        else:
            turn.add_done_callback(lambda _: os.close(descriptor))


async def send_bytes(request: web.Request, writer: AbstractStreamWriter, content: bytes, pace: DownloadPace) -> None:
    """Send bytes that are in memory, after the headers in `writer`. If the client has disconnected or is too slow,
    close the connection and raise ConnectionError."""
    try:
        for offset in range(0, len(content), _PIECE_BYTES):
            await send_piece(writer, content[offset : offset + _PIECE_BYTES], pace)
    except OSError:
        if request.transport is not None:
            request.transport.abort()
        raise


async def send_piece(writer: AbstractStreamWriter, piece: bytes, pace: DownloadPace) -> None:
    """Send at most `_PIECE_BYTES`. Raises ConnectionError if the client has disconnected or is too slow."""
    try:
        async with asyncio.timeout(downloads.WINDOW_S):
            await writer.write(piece)
            await writer.drain()
    except TimeoutError as error:
        raise ConnectionAbortedError(f"the client has taken no bytes for {downloads.WINDOW_S:.0f} s") from error
    pace.moved(len(piece))


async def _written_out(transport: asyncio.WriteTransport, writer: AbstractStreamWriter) -> None:
    """Return when the transport has written all its bytes to the socket. Only then can sendfile begin, because
    otherwise the bytes of the file would reach the client before the bytes of the transport."""
    transport.set_write_buffer_limits(high=0)
    try:
        while transport.get_write_buffer_size():
            await writer.drain()
            await asyncio.sleep(0)
    finally:
        transport.set_write_buffer_limits()


def _send_for_a_turn(socket: int, file: int, offset: int, count: int) -> int:
    """Send for at most `TURN_S` seconds. Return the number of bytes sent. Return 0 if the client accepts no bytes."""
    sent, end = 0, time.monotonic() + TURN_S
    while sent < count and (left := end - time.monotonic()) > 0:
        try:
            now = os.sendfile(socket, file, offset + sent, min(count - sent, _MOST_AT_ONCE))
        except BlockingIOError:
            _wait_until_writable(socket, left)
            continue
        if not now:
            raise OSError("the file has become shorter")
        sent += now
    return sent


def _wait_until_writable(socket: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(socket, select.POLLOUT)
    poll.poll(seconds * 1000)
