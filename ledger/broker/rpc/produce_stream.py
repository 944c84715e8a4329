"""Serves the produce stream of a client. The stream sends one response for each request, in order, and appends later
requests before the earlier requests have their responses.

Two tasks share what the stream owes: one task reads requests and appends them, the other task sends responses. In one
turn of the event loop, the batches of many requests in flight are appended and written to the log together. While the
stream or the node owes too much, no request is read, and gRPC's flow control slows the producer down.

A client that sends requests and does not read the responses is refused after `STALLED_S`. gRPC delivers a status only
behind the responses before it. So the stream first drops everything that it owes, and then waits with the status until
the client reads again or disconnects.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
from grpc import aio

from ledger.batch import place_of, plain_size_of, producer_of
from ledger.batch.check import LARGEST_PLAIN_BYTES
from ledger.broker.fetch.fetch_result import detached
from ledger.broker.produce.proposals import Committed
from ledger.broker.rpc.two_way_stream import StalledError, StallLimit, raise_defect
from ledger.broker.slow.slow_requests import ProducedRequest, SlowRequests
from ledger.broker.turn_budget import TurnBudget
from ledger.errors import LedgerError, to_wire
from ledger.slow_request import UNKNOWN_CLIENT, CallingClient
from ledger.v1 import broker_pb2

# Batches of one request.
MAX_BATCHES = 1024

# Streams of one node.
MAX_STREAMS = 10_000

# Requests of one stream. The next request is read when the oldest has its response.
REQUESTS_IN_FLIGHT = 64

# What one stream can owe: results that are not sent, and bytes of batches that are not committed. One request more is
# read, so a stream with larger requests has one of them in flight.
STREAM_RESULTS = 2048
STREAM_BYTES = 16 << 20
# The same for all streams of a node. A stream that owes nothing reads one request in spite of `NODE_RESULTS`, so that
# clients that do not read their responses do not stop the others.
NODE_RESULTS = 100_000
NODE_BYTES = 256 << 20

# A stream whose client accepts no response for this time is refused.
STALLED_S = 10.0

# Steps of all streams in one turn of the event loop. A step takes up to 100 us: one batch, or `STEP_BYTES` bytes.
MAX_TURN_STEPS = 512
STEP_BYTES = 32 << 10


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


class ProduceLoad:
    """What all produce streams of one node owe: results that are not sent, and bytes of batches that are not
    committed."""

    def __init__(
        self, node_results: int = NODE_RESULTS, node_bytes: int = NODE_BYTES, slow: SlowRequests | None = None
    ) -> None:
        """`slow` records the requests that were slow; None: they are not measured."""
        self.slow = slow
        self.turns = TurnBudget(MAX_TURN_STEPS)
        # Both are >= 0, and the sums over all `OwedResponses` of the node.
        self.results = 0
        self.bytes = 0
        self._node_results = node_results
        self._node_bytes = node_bytes
        # The streams that wait for room, in the order of their arrival.
        self._waiting: deque[tuple[OwedResponses, asyncio.Future[None]]] = deque()

    def has_room(self, owed: OwedResponses) -> bool:
        return self.bytes < self._node_bytes and (self.results < self._node_results or not owed.results)

    async def room(self, owed: OwedResponses) -> None:
        """Return when the streams of the node owe less than the limits."""
        while not self.has_room(owed):
            freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((owed, freed))
            await freed

    def add(self, results: int, size: int) -> None:
        """Count results and bytes. Negative numbers mean that less is owed."""
        self.results += results
        self.bytes += size
        if self._waiting and (results < 0 or size < 0):
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for owed, freed in waiting:
            if freed.done():
                continue  # the stream has ended
            if self.has_room(owed):
                freed.set_result(None)
            else:
                self._waiting.append((owed, freed))


@dataclass(slots=True)
class OwedRequest:
    """A request whose response is not sent. The times are of the clock of `SlowRequests`, and 0 without one."""

    received_ms: float
    # The context of a span in which the request is to be shown, or "".
    traceparent: str
    outcomes: list[Outcome] = field(default_factory=list)
    # How many outcomes are not known yet.
    undecided: int = 0
    # When its batches had been appended.
    proposed_ms: float = 0.0
    # Topic id and queue of its first batch.
    place: tuple[int, int] = (0, 0)


class OwedResponses:
    """The requests of one stream whose responses are not sent, oldest first."""

    def __init__(self, load: ProduceLoad, client: CallingClient = UNKNOWN_CLIENT) -> None:
        """`client` is the client of the stream, for the records of slow requests."""
        # The results that are not sent, and the bytes of batches that are not committed.
        self.results = 0
        self.bytes = 0
        self._load = load
        self._client = client
        # The producer id of the newest batch, which `load.slow` knows to be of this client.
        self._producer = 0
        self._requests: deque[OwedRequest] = deque()
        # Set when the oldest request may have become decided, and when less is owed.
        self._decided = asyncio.Event()
        self._less = asyncio.Event()

    @property
    def has_room(self) -> bool:
        within = self.results < STREAM_RESULTS and self.bytes < STREAM_BYTES
        return within and len(self._requests) < REQUESTS_IN_FLIGHT

    async def room(self) -> None:
        """Return when the stream can read another request."""
        while not self.has_room:
            await next_of(self._less)
        await self._load.room(self)

    async def append(self, batches: Batches, request: Sequence[bytes], traceparent: str = "") -> None:
        """Append the batches of a request, in their order. `traceparent` is the context of a span, or ""."""
        slow = self._load.slow
        owed = OwedRequest(0.0 if slow is None else slow.now_ms(), traceparent)
        self._count(len(request), 0)
        for batch in request:
            await self._load.turns.spend(1 + _checked_bytes(batch) // STEP_BYTES)
            outcome = submit(batches, batch)
            if not isinstance(outcome, LedgerError):
                self._await_commit(owed, outcome, len(batch))
            owed.outcomes.append(outcome)
        first = request[0] if request else b""
        owed.place = place_of(first)
        if slow is not None:
            owed.proposed_ms = slow.now_ms()
            for batch in request:
                self._note_producer(slow, producer_of(batch))
        self._requests.append(owed)
        self._decided.set()

    async def oldest(self) -> Sequence[Outcome]:
        """Return the outcomes of the oldest request, when all of them are known. `sent` removes the request."""
        while not self._requests or self._requests[0].undecided:
            await next_of(self._decided)
        return self._requests[0].outcomes

    def sent(self) -> None:
        request = self._requests.popleft()
        self._count(-len(request.outcomes), 0)
        self._less.set()
        slow = self._load.slow
        if slow is not None and (request.traceparent or slow.is_slow(request.received_ms)):
            results = [result_of(each) for each in request.outcomes]
            slow.produced(
                ProducedRequest(request.received_ms, request.proposed_ms, *request.place, results, request.traceparent),
                self._client,
            )

    def _note_producer(self, slow: SlowRequests, producer_id: int) -> None:
        if producer_id != self._producer:
            self._producer = producer_id
            slow.senders.note(producer_id, self._client)

    async def all_sent(self) -> None:
        while self._requests:
            await next_of(self._less)

    def drop(self) -> None:
        """Forget all requests. Their batches are committed or refused as if the responses had been sent."""
        self._requests.clear()
        self._count(-self.results, 0)

    def _await_commit(self, owed: OwedRequest, outcome: asyncio.Future[Committed], size: int) -> None:
        def decided(_: object) -> None:
            self._count(0, -size)
            self._less.set()
            owed.undecided -= 1
            if not owed.undecided:
                self._decided.set()

        self._count(0, size)
        owed.undecided += 1
        outcome.add_done_callback(decided)

    def _count(self, results: int, size: int) -> None:
        self.results += results
        self.bytes += size
        self._load.add(results, size)


async def next_of(event: asyncio.Event) -> None:
    """Wait until the event is set anew."""
    event.clear()
    await event.wait()


def result_of(outcome: Outcome) -> Committed | LedgerError:
    """Return the result of a batch that is decided. Raises CancelledError if the node stops."""
    if isinstance(outcome, LedgerError):
        return outcome
    error = outcome.exception()
    return error if isinstance(error, LedgerError) else outcome.result()


async def serve_produce(
    batches: Batches,
    context: aio.ServicerContext[Any, Any],
    load: ProduceLoad,
    client: CallingClient = UNKNOWN_CLIENT,
) -> None:
    """Serve the stream of one producer until it ends. `load` counts what the streams of this node owe."""
    owed = OwedResponses(load, client)
    reader = asyncio.create_task(append_requests(batches, owed, context), name="produce requests")
    writer = asyncio.create_task(answer_in_order(batches, owed, context, load), name="produce answers")
    try:
        await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
        raise_defect(failure_of(writer))  # without a writer, the reader would wait for room for ever
        if not isinstance(failure_of(writer), StalledError):
            await reader  # if the call has ended, gRPC cancels this method
    finally:
        for task in (reader, writer):
            task.cancel()
        await asyncio.gather(reader, writer, return_exceptions=True)
        owed.drop()
    if isinstance(failure_of(writer), StalledError):
        await context.abort(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            f"the client read no response of this produce stream for {STALLED_S:.0f} s: read the responses while "
            "sending, and open a new stream",
        )


def failure_of(task: asyncio.Task[None]) -> BaseException | None:
    """Return what the task has raised, or None if it runs, has ended, or was cancelled."""
    return task.exception() if task.done() and not task.cancelled() else None


async def append_requests(batches: Batches, owed: OwedResponses, context: aio.ServicerContext[Any, Any]) -> None:
    """Read and append requests until the client ends the stream and all responses are sent."""
    await owed.room()
    while (request := await context.read()) is not aio.EOF:
        if len(request.batches) > MAX_BATCHES:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"a request with {len(request.batches)} batches is over the limit of {MAX_BATCHES}: send "
                f"smaller requests",
            )
        await owed.append(batches, request.batches, request.traceparent)
        del request  # the batches would stay in memory until the next request
        await owed.room()
    await owed.all_sent()


def submit(batches: Batches, batch: bytes) -> Outcome:
    """Append a batch, and return its future or the error that refused it."""
    try:
        return batches.produce(batch)
    except LedgerError as error:
        return detached(error)


async def answer_in_order(
    batches: Batches, owed: OwedResponses, context: aio.ServicerContext[Any, Any], load: ProduceLoad
) -> None:
    """Send the responses in order. Raises StalledError if the client accepts no response for `STALLED_S`."""
    limit = StallLimit(STALLED_S)
    while True:
        outcomes = await owed.oldest()
        await load.turns.spend(len(outcomes))
        response = response_of(outcomes, batches.configuration_index)
        with limit:
            await context.write(response)
        owed.sent()


def response_of(outcomes: Sequence[Outcome], configuration_index: int) -> broker_pb2.ProduceResponse:
    """Return the response to a request whose batches are decided."""
    response = broker_pb2.ProduceResponse(configuration_index=configuration_index)
    for outcome in outcomes:
        result = result_of(outcome)
        if isinstance(result, LedgerError):
            response.results.add(error=to_wire(result))
        else:
            response.results.add(
                base_offset=result.base_offset,
                term=result.term,
                append_time_ms=result.append_time_ms,
                duplicate=result.duplicate,
            )
    return response


def _checked_bytes(batch: bytes) -> int:
    """Return how many bytes the check of a batch reads: those before compression, which may be many more."""
    return max(len(batch), min(plain_size_of(batch), LARGEST_PLAIN_BYTES))
