"""Why a stream to a node has ended, as an error."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import grpc.aio

from ledger.client.connection.channels import failure, failure_of
from ledger.client.connection.session import ProofEndedError, ProvenStream
from ledger.errors import InternalError, LedgerError, UnavailableError

log = logging.getLogger("ledgermq.client")


async def end_of_stream(address: str, call: Any, error: Exception | None = None) -> LedgerError:
    """Return why the stream `call` to the node at `address` has ended. `error` is what its read or write raised; None:
    the node has ended it. Raises CancelledError as `failure` does."""
    if isinstance(error, LedgerError):  # for example the proof of who the client is has failed
        return error
    if isinstance(error, grpc.aio.AioRpcError):
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            return unproven(address, call, error.details())
        return failure(address, error)
    if error is not None and not isinstance(error, asyncio.InvalidStateError | grpc.aio.UsageError):
        log.error("the stream to node %s failed in this client", address, exc_info=error)
        return InternalError(
            f"The stream to node {address} failed in this client: {error!r}. This is a defect of ledgermq: please "
            "report it."
        )
    # A write to a call that has ended, or its end.
    code, details = await call.code(), await call.details()
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return unproven(address, call, details)
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return failure_of(address, code, details)
    return UnavailableError(f"The stream to node {address} has ended ({code.name}: {details or 'no details'}).")


def unproven(address: str, call: Any, details: str | None) -> LedgerError:
    """Return the error of a stream whose node does not accept the proof of this client, or no longer. It is retriable
    if a new proof may help; the next stream then proves anew who the client is."""
    if isinstance(call, ProvenStream):
        call.end_session()
        return ProofEndedError(f"Node {address} asks again who this client is.")
    return failure_of(address, grpc.StatusCode.UNAUTHENTICATED, details)
