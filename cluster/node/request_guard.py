"""Guards all gRPC methods of a server: callers without proof, requests that fill the memory, malformed requests, and
unexpected errors.

A call passes these steps, and a call that fails at one of them costs nothing more:

    admit      the caller is proven, by the metadata of the call. Nothing of the request is read before
    receive    the request is complete, after a turn (receiving.py)
    decode     otherwise INVALID_ARGUMENT
    method     after an unexpected error INTERNAL; the text of the error stays in the log of the node

gRPC reads the request of a unary call before it calls the method. Therefore the guard serves unary methods as methods
with a stream of requests, and reads one request itself. Callers notice no difference.

Without the guard, gRPC logs a traceback for each request that cannot be decoded and for each error that a method does
not expect, and sends the text of the error to the caller. The guard logs at most one line a minute of each kind. The
line of an unexpected error has the traceback.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
from grpc import aio

from cluster.node.delivered import Delivered
from cluster.node.guarded_context import CountedReads, MalformedRequestError, RequestDecoder
from cluster.node.method_guard import Handler, MethodGuard
from cluster.node.receiving import Context, Receiving
from ledger.broker.rpc.throttling import calling_client
from ledger.broker.slow.slow_requests import SlowRequests
from raft.transport.rare_log import RareLog

log = logging.getLogger("ledgermq.node.requests")

# A method with one request, which returns its response or writes a stream of them, and a method with streams of both.
Call = Callable[[Any, Context], Awaitable[Any]]
Stream = Callable[[Any, Context], Awaitable[None]]
# Ends the call of this method if its caller is not proven.
Admit = Callable[[str, Context], Awaitable[None]]


async def admit_everybody(method: str, context: Context) -> None:
    pass


class RequestGuard(MethodGuard):
    """`RequestGuard` is the interceptor of one gRPC server."""

    def __init__(
        self,
        admit: Admit = admit_everybody,
        delivered: Delivered | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
        slow: SlowRequests | None = None,
    ) -> None:
        """`delivered` counts the requests that the methods got. `slow` records calls with one request that were slow;
        None: they are not measured."""
        super().__init__()
        self._slow = slow
        self._admit = admit
        self._delivered = delivered or Delivered()
        self._receiving = Receiving()
        self._malformed = RareLog(log, monotonic_s)
        self._unexpected = RareLog(log, monotonic_s)

    def _guard(self, method: str, handler: Handler) -> Handler:
        decode = RequestDecoder(handler.request_deserializer)
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(
                self._guarded_stream(method, cast("Stream", handler.stream_stream), decode),
                decode,
                handler.response_serializer,
            )
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(
                self._guarded_call(method, cast("Call", handler.unary_stream), decode),
                decode,
                handler.response_serializer,
            )
        return grpc.stream_unary_rpc_method_handler(
            self._guarded_call(method, cast("Call", handler.unary_unary), decode), decode, handler.response_serializer
        )

    def _guarded_call(self, method: str, behavior: Call, decode: RequestDecoder) -> Call:
        slow = self._slow if self._slow is not None and self._slow.measures(method) else None

        async def guarded(_: Any, context: Context) -> Any:
            try:
                await self._admit(method, context)
                request = await self._receiving.read(CountedReads(context, self._delivered, decode))
                if request is aio.EOF:
                    raise MalformedRequestError
                if slow is None:
                    return await behavior(request, context)
                began_ms = slow.now_ms()
                response = await behavior(request, context)
                if slow.now_ms() - began_ms >= slow.threshold_ms:
                    slow.called(method, request, response, calling_client(context), began_ms)
                return response
            except Exception as error:
                await self._end(method, error, context)

        return guarded

    def _guarded_stream(self, method: str, behavior: Stream, decode: RequestDecoder) -> Stream:
        async def guarded(requests: Any, context: Context) -> None:
            try:
                await self._admit(method, context)
                await behavior(requests, cast("Context", CountedReads(context, self._delivered, decode)))
            except Exception as error:
                await self._end(method, error, context)

        return guarded

    async def _end(self, method: str, error: Exception, context: Context) -> None:
        """End the call after this error. Errors with which a method itself ended the call are passed on."""
        if isinstance(error, aio.AbortError | asyncio.CancelledError | aio.UsageError) or context.done():
            raise error
        if isinstance(error, MalformedRequestError):
            self._malformed.warning("a request of %s from %s cannot be decoded", method, context.peer())
            code, text = grpc.StatusCode.INVALID_ARGUMENT, "the request cannot be decoded: upgrade the caller"
        else:
            self._unexpected.error("%s failed, which is a defect of ledgermq: %r", method, error, traceback_of=error)
            code = grpc.StatusCode.INTERNAL
            text = "the node failed to serve the request: its log has the details of the defect"
        try:
            await context.abort(code, text)
        except aio.AbortError:
            raise
        except Exception as ended:  # gRPC has no public name for this error
            # The call has ended already, for example because the caller is gone, so it takes no status. gRPC logs a
            # traceback for every error except this one.
            raise asyncio.CancelledError from ended
