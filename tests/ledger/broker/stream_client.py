"""The client of a gRPC stream, as its node sees it: what a handler may call of its context."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from grpc import aio


class AbortedError(Exception):
    """The node has ended the stream. The arguments are the status and the details."""


class StreamClient:
    """Sends `requests`, the end of the stream for None. While `may_send` is not set, the client reads nothing, and gRPC
    goes on sending the message that it is sending, also if the writing task is cancelled."""

    def __init__(self, *requests: Any) -> None:
        self.requests: asyncio.Queue[Any] = asyncio.Queue()
        # What the node has sent.
        self.received: list[Any] = []
        # The status with which the node has ended the stream.
        self.ended: grpc.StatusCode | None = None
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.is_sending = False
        # True: gRPC sends nothing more if the writing task is cancelled.
        self.gives_up = False
        for request in requests:
            self.requests.put_nowait(request)

    async def read(self) -> Any:
        request = await self.requests.get()
        return aio.EOF if request is None else request

    async def write(self, message: Any) -> None:
        assert not self.is_sending, "gRPC sends one message of a stream at a time"
        self.is_sending = True
        try:
            await self.may_send.wait()
        except asyncio.CancelledError:
            self.is_sending = not self.gives_up
            raise
        self.is_sending = False
        self.received.append(message)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        assert not self.is_sending, "gRPC sends one message of a stream at a time"
        self.ended = code
        raise AbortedError(code, details)
