"""Turns errors of the broker into the error field of responses. `answers` decorates every unary method."""

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
        """`answers` calls this method for every refused request, before the response is sent."""


Service = TypeVar("Service", bound=RefusingService)
Request = TypeVar("Request")
Response = TypeVar("Response", bound=Refusable)


def answers(
    make_response: Callable[[], Response],
) -> Callable[
    [Callable[[Service, Request, Response], Awaitable[None]]],
    Callable[[Service, Request, Context], Coroutine[Any, Any, Response]],
]:
    """Make a gRPC method from a method that fills in a response.

    A LedgerError is put into the error field of the response; the fields that the method has already filled in keep
    their values. Exceptions other than LedgerError are raised to gRPC.
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
    """Turn a StoreError into StorageFailedError with a message that begins with `sentence`."""
    try:
        yield
    except StoreError as failure:
        raise StorageFailedError(f"{sentence}: {failure}") from failure
