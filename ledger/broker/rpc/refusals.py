"""Turns the errors of a broker into the error field of its responses: the decorator of every unary method."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Protocol, TypeVar

from grpc import aio

from ledger.errors import LedgerError, StorageFailedError, to_wire
from ledger.v1 import error_pb2
from store import StoreError

Context = aio.ServicerContext[Any, Any]


class Refusable(Protocol):
    """A response with an error field."""

    @property
    def error(self) -> error_pb2.Error: ...


class RefusingService:
    """Base of the services whose methods are decorated with `answers`."""

    def refused(self, error: LedgerError) -> None:
        """Called for every refused request, before the response is sent."""


Service = TypeVar("Service", bound=RefusingService)
Request = TypeVar("Request")
Response = TypeVar("Response", bound=Refusable)


def answers(
    make_response: Callable[[], Response],
) -> Callable[
    [Callable[[Service, Request, Response], Awaitable[None]]],
    Callable[[Service, Request, Context], Coroutine[Any, Any, Response]],
]:
    """Makes a gRPC method of a method that fills in a response.

    A LedgerError goes into the response's error field; what the method had filled in before stays. Every other
    exception goes on to gRPC.
    """

    def decorate(
        fill: Callable[[Service, Request, Response], Awaitable[None]],
    ) -> Callable[[Service, Request, Context], Coroutine[Any, Any, Response]]:
        @wraps(fill)
        async def method(service: Service, request: Request, context: Context) -> Response:
            response = make_response()
            try:
                await fill(service, request, response)
            except LedgerError as error:
                service.refused(error)
                response.error.CopyFrom(to_wire(error))
            return response

        return method

    return decorate


@contextmanager
def storage_checked(sentence: str) -> Iterator[None]:
    """Raises StorageFailedError, beginning with `sentence`, where the store raises StoreError."""
    try:
        yield
    except StoreError as failure:
        raise StorageFailedError(f"{sentence}: {failure}") from failure
