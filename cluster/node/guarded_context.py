"""The context of a gRPC call whose requests are counted, and the decoder that tells how long each was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError
from grpc import aio

from cluster.node.delivered import Delivered
from cluster.node.receiving import Context


class MalformedRequestError(Exception):
    """The bytes of a request are no message of the method's type, or the call has no request."""


class RequestDecoder:
    """Decodes the requests of one method. Raises MalformedRequestError without a cause."""

    def __init__(self, deserialize: Callable[[bytes], Any] | None) -> None:
        self._deserialize = deserialize
        # The size of the request that was decoded last. gRPC decodes a request right before it returns the request.
        self.bytes = 0

    def __call__(self, data: bytes) -> Any:
        self.bytes = len(data)
        try:
            return self._deserialize(data) if self._deserialize is not None else data
        except (DecodeError, ValueError):
            pass
        del data  # the traceback of the error would keep it until the call has ended
        raise MalformedRequestError


class CountedReads:
    """The context of a call whose requests are counted in `delivered`. All else is as in the context of gRPC."""

    def __init__(self, context: Context, delivered: Delivered, decoder: RequestDecoder) -> None:
        self._context = context
        self._peer = context.peer()
        self._delivered = delivered
        self._decoder = decoder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def peer(self) -> str:
        return self._peer

    async def read(self) -> Any:
        try:
            request = await self._context.read()
        except MalformedRequestError:
            self._delivered.add(self._peer, self._decoder.bytes)
            raise
        if request is not aio.EOF:
            self._delivered.add(self._peer, self._decoder.bytes)
        return request
