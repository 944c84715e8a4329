"""An answer that says why not, in protobuf."""

from __future__ import annotations

from typing import Protocol, TypeVar

from ledger.errors import LedgerError, to_wire
from ledger.v1 import error_pb2


class Refusable(Protocol):
    """Every response of a broker that can be an error."""

    @property
    def error(self) -> error_pb2.Error: ...


Response = TypeVar("Response", bound=Refusable)


def refused(response: Response, error: LedgerError) -> Response:
    response.error.CopyFrom(to_wire(error))
    return response
