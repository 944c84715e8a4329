"""Makes calls as no gRPC library does: sends a part of a request and then nothing, or does not read a long response. It
writes the frames of HTTP/2 itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 4, 6, 8
_END_HEADERS, _ACK, _END_STREAM = 4, 1, 1
_STREAM = 1
_FRAME_BYTES = 16 << 10
_INITIAL_WINDOW = 4
_DEFAULT_WINDOW = 65_535


class HalfRequest:
    """One call on one connection. It allows the server to send 64 KiB, as HTTP/2 does by default, and then no more."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # What the server allows to send on the connection and on the stream.
        self._windows = {0: _DEFAULT_WINDOW, _STREAM: _DEFAULT_WINDOW}
        self._initial_window = _DEFAULT_WINDOW
        self._allowed = asyncio.Event()
        self.ended = asyncio.create_task(self._read())

    async def send(self, path: str, announced: int, sent: int) -> None:
        """Call a method, and send `sent` bytes of a request that is to have `announced` bytes."""
        await self._call(path, announced, bytes(sent))

    async def ask(self, path: str, request: bytes) -> None:
        """Call a method with a whole request. A response of more than 64 KiB waits on the server."""
        await self._call(path, len(request), request)
        self._write(_DATA, _END_STREAM, _STREAM, b"")

    async def _call(self, path: str, announced: int, request: bytes) -> None:
        fields = ((":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "here"), ("te", "trailers"))
        block = b"".join(_literal(name, value) for name, value in (*fields, ("content-type", "application/grpc")))
        self._write(_HEADERS, _END_HEADERS, _STREAM, block)
        left = struct.pack(">BI", 0, announced) + request
        while left:
            room = min(_FRAME_BYTES, *self._windows.values())
            if room <= 0:
                self._allowed.clear()
                await self._allowed.wait()
                continue
            self._write(_DATA, 0, _STREAM, left[:room])
            self._windows = {stream: window - len(left[:room]) for stream, window in self._windows.items()}
            left = left[room:]
            await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    def begin(self) -> None:
        self._writer.write(_PREFACE)
        self._write(_SETTINGS, 0, 0, b"")

    def _write(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self._writer.write(struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload)

    async def _read(self) -> None:
        """Read what the server sends, until it ends the connection."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                header = await self._reader.readexactly(9)
                size = int.from_bytes(header[:3])
                kind, flags, stream = struct.unpack(">BBI", header[3:])
                self._receive(kind, flags, stream, await self._reader.readexactly(size))

    def _receive(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            for identifier, value in struct.iter_unpack(">HI", payload):
                if identifier == _INITIAL_WINDOW:
                    self._windows[_STREAM] += value - self._initial_window
                    self._initial_window = value
            self._write(_SETTINGS, _ACK, 0, b"")
        elif kind == _PING and not flags & _ACK:
            self._write(_PING, _ACK, 0, payload)
        elif kind == _WINDOW_UPDATE and stream in self._windows:
            self._windows[stream] += int.from_bytes(payload)
        self._allowed.set()


@contextlib.asynccontextmanager
async def half_request(address: str) -> AsyncIterator[HalfRequest]:
    """Open a connection for one half request."""
    host, _, port = address.rpartition(":")
    request = HalfRequest(*await asyncio.open_connection(host, int(port)))
    request.begin()
    try:
        yield request
    finally:
        request.close()
        request.ended.cancel()
        await asyncio.gather(request.ended, return_exceptions=True)


def _literal(name: str, value: str) -> bytes:
    """Return a header field that is not indexed and not compressed. Name and value are shorter than 127 bytes."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
