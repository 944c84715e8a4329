"""Serves the produce stream of a client. The stream sends one response for each request, in order, and appends later
requests before the earlier requests have their responses.

Two tasks share a bounded queue: one task reads requests and appends them, the other task sends responses. In one turn
of the event loop, the batches of many requests in flight are appended and written to the log together. If the queue is
full, gRPC's flow control slows the producer down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import grpc
from grpc import aio

from ledger.broker.produce.proposals import Committed
from ledger.errors import LedgerError, to_wire
from ledger.v1 import broker_pb2

# Batches of one request. One turn of the event loop appends them.
MAX_BATCHES = 4096

# Streams of one node.
MAX_STREAMS = 10_000

# Requests of one stream. The next request is read when the oldest has its response.
REQUESTS_IN_FLIGHT = 64


class Batches(Protocol):
    """The interface through which a produce stream gives batches to the broker."""

    @property
    def configuration_index(self) -> int:
        """The index of the applied configuration of shard 0, or 0 before a configuration is applied. Clients use
        this index to notice a newer configuration."""

    def produce(self, batch: bytes) -> asyncio.Future[Committed]:
        """Append a batch. Raises LedgerError if the batch is refused at once. The returned future can also end in
        LedgerError."""


Outcome = asyncio.Future[Committed] | LedgerError


async def serve_produce(batches: Batches, context: aio.ServicerContext[Any, Any]) -> None:
    """Serve the stream of one producer until it ends."""
    owed: asyncio.Queue[Sequence[Outcome]] = asyncio.Queue(REQUESTS_IN_FLIGHT)
    writer = asyncio.create_task(answer_in_order(batches, owed, context), name="produce answers")
    try:
        while (request := await context.read()) is not aio.EOF:
            if len(request.batches) > MAX_BATCHES:
                await context.abort(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"a request with {len(request.batches)} batches is over the limit of {MAX_BATCHES}: send "
                    f"smaller requests",
                )
            await owed.put([submit(batches, batch) for batch in request.batches])
        await owed.join()
    finally:
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)


def submit(batches: Batches, batch: bytes) -> Outcome:
    """Append a batch, and return its future or the error that refused it."""
    try:
        return batches.produce(batch)
    except LedgerError as error:
        return error


async def answer_in_order(
    batches: Batches, owed: asyncio.Queue[Sequence[Outcome]], context: aio.ServicerContext[Any, Any]
) -> None:
    while True:
        outcomes = await owed.get()
        results = [await result(outcome) for outcome in outcomes]
        await context.write(
            broker_pb2.ProduceResponse(results=results, configuration_index=batches.configuration_index)
        )
        owed.task_done()


async def result(outcome: Outcome) -> broker_pb2.ProduceResult:
    try:
        if isinstance(outcome, LedgerError):
            raise outcome
        # A client that disconnects does not cancel the entry.
        committed = outcome.result() if outcome.done() else await asyncio.shield(outcome)
    except LedgerError as error:
        return broker_pb2.ProduceResult(error=to_wire(error))
    return broker_pb2.ProduceResult(
        base_offset=committed.base_offset,
        term=committed.term,
        append_time_ms=committed.append_time_ms,
        duplicate=committed.duplicate,
    )
