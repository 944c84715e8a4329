"""Guards all gRPC methods of a server against malformed requests and unexpected errors.

Without the guard, gRPC logs a traceback for each request that cannot be decoded and for each error that a method does
not expect, and sends the text of the error to the caller. A caller that sends such requests without end would fill the
log. The guard ends these calls with a status that says whose fault it was:

    the request cannot be decoded          INVALID_ARGUMENT
    the method raised an unexpected error  INTERNAL; the text of the error stays in the log of the node

The guard logs at most one line a minute of each kind. The line of an unexpected error has the traceback.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from raft.transport.rare_log import RareLog

log = logging.getLogger("ledgermq.node.requests")

Context = aio.ServicerContext[Any, Any]
# A method with one request and one response, and a method with streams of both.
Call = Callable[[Any, Context], Awaitable[Any]]
Stream = Callable[[Any, Context], Awaitable[None]]


class MalformedRequestError(Exception):
    """The bytes of a request are no message of the method's type."""


class RequestGuard(aio.ServerInterceptor):
    """`RequestGuard` is the interceptor of one gRPC server."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._malformed = RareLog(log, monotonic_s)
        self._unexpected = RareLog(log, monotonic_s)
        # The guarded handlers, by method. A server has a fixed number of methods.
        self._guarded: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        method = handler_call_details.method
        guarded = self._guarded.get(method)
        if guarded is None:
            handler = await continuation(handler_call_details)
            if handler is None:
                return None  # no such method: gRPC answers UNIMPLEMENTED
            guarded = self._guarded[method] = self._guard(method, handler)
        return guarded

    def _guard(self, method: str, handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
        decode = _decoder(handler.request_deserializer)
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(
                self._guarded_stream(method, cast("Stream", handler.stream_stream)), decode, handler.response_serializer
            )
        return grpc.unary_unary_rpc_method_handler(
            self._guarded_call(method, cast("Call", handler.unary_unary)),
            _undecoded(decode),
            handler.response_serializer,
        )

    def _guarded_call(self, method: str, behavior: Call) -> Call:
        async def guarded(request: Any, context: Context) -> Any:
            try:
                if isinstance(request, MalformedRequestError):
                    raise request
                return await behavior(request, context)
            except Exception as error:
                await self._end(method, error, context)

        return guarded

    def _guarded_stream(self, method: str, behavior: Stream) -> Stream:
        async def guarded(requests: Any, context: Context) -> None:
            try:
                await behavior(requests, context)
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


def _decoder(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    """Return a function that decodes a request, or raises MalformedRequestError without a cause."""

    def decode(data: bytes) -> Any:
        try:
            return deserialize(data) if deserialize is not None else data
        except (DecodeError, ValueError) as error:
            raise MalformedRequestError from error

    return decode


def _undecoded(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a function that decodes a request, or returns the MalformedRequestError. gRPC decodes the request of a
    unary call before it calls the method, and would log a traceback for an error."""

    def try_to_decode(data: bytes) -> Any:
        try:
            return decode(data)
        except MalformedRequestError as error:
            return error

    return try_to_decode
