"""Puts a guard before the methods of a gRPC server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc
from grpc import aio

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


class MethodGuard(aio.ServerInterceptor, ABC):
    """An interceptor that replaces the handler of each method by a guarded one, at the first call of the method."""

    def __init__(self) -> None:
        # The guarded handlers, by method. A server has a fixed number of methods.
        self._guarded: dict[str, Handler] = {}

    @abstractmethod
    def _guard(self, method: str, handler: Handler) -> Handler:
        """Return the handler behind the guard, or `handler` itself if the method needs none. `method` is the full
        name."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        method = handler_call_details.method
        guarded = self._guarded.get(method)
        if guarded is None:
            handler = await continuation(handler_call_details)
            if handler is None:
                return None  # no such method: gRPC answers UNIMPLEMENTED
            guarded = self._guarded[method] = self._guard(method, handler)
        return guarded
