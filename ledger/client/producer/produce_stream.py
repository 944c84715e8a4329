"""One gRPC stream that carries batches of one or more producers to one node, and the answers back in the same order.

Batches that are ready are sent together in requests of up to 1 MiB, and several requests can be in flight. The stream
returns every batch exactly once to its producer, with the answer of the broker. If the stream breaks, it returns each
unanswered batch with an error and with a flag that says whether the batch was sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import grpc
import grpc.aio

from ledger.client.connection.stream_end import end_of_stream, unproven
from ledger.client.producer.producer_batch import Acknowledged, Answer
from ledger.errors import AuthenticationError, InternalError, LedgerError, UnavailableError, from_wire
from ledger.produce_wire import ProduceRequest
from ledger.v1 import broker_pb2
from ledger.v1.broker_pb2_grpc import BrokerStub

MAX_REQUEST_BYTES = 1024 * 1024
# With smaller requests, client, leader and followers work at the same time on the batches that many producers send in
# the same turn. Larger requests cost less CPU time. docs/performance-notes.md compares 64, 256 and 1,024.
MAX_REQUEST_BATCHES = 256
MAX_REQUESTS_IN_FLIGHT = 16


class EncodedBatch(Protocol):
    """An interface: a batch that a stream can carry."""

    @property
    def encoded(self) -> bytes: ...
    @property
    def trace(self) -> str:
        """The context of the span of a send, as ProduceRequest has it; "" if nothing is traced."""


# What numbers the batches of a queue, and what it numbers.
Q = TypeVar("Q")
B = TypeVar("B", bound=EncodedBatch)


@dataclass(frozen=True, slots=True)
class AttemptResult(Generic[Q, B]):
    """The result of one attempt to send a batch.

    `sent` is False if the batch never left this process. `after_ms` is the time in ms from the request to its answer.
    """

    sequencer: Q
    batch: B
    answer: Answer
    sent: bool = True
    after_ms: float = 0


# Takes the results of attempts at the node at an address, in the order in which the batches were submitted.
TakeResults = Callable[[str, Sequence[AttemptResult[Q, B]]], None]


class StreamUser(Protocol[Q, B]):
    """An interface: a producer that sends batches on a stream."""

    @property
    def attempts_ended(self) -> TakeResults[Q, B]: ...


# A batch on a stream, with its user and its sequencer. The user is None if its producer has left the stream.
_Carried = tuple[StreamUser[Q, B] | None, Q, B]


@dataclass(frozen=True, slots=True)
class _Request(Generic[Q, B]):
    carried: list[_Carried[Q, B]]
    written_at: float


class ProduceStream(Generic[Q, B]):
    """A stream of batches to the node at `address`.

    With each response, the stream calls `on_configuration` with the index of the node's configuration. If `broken` is
    True, the stream accepts no more batches.
    """

    def __init__(self, address: str, stub: BrokerStub, on_configuration: Callable[[int], None]) -> None:
        self.address = address
        self.broken = False
        self._on_configuration = on_configuration
        self._loop = asyncio.get_running_loop()
        self._ready: deque[_Carried[Q, B]] = deque()
        self._in_flight: deque[_Request[Q, B]] = deque()
        self._wake = asyncio.Event()
        self._call: Any = stub.Produce()
        self._writer = self._loop.create_task(self._guard(self._write))
        self._reader = self._loop.create_task(self._guard(self._read))

    def submit(self, user: StreamUser[Q, B], sequencer: Q, batches: Sequence[B]) -> None:
        assert not self.broken
        self._ready.extend((user, sequencer, batch) for batch in batches)
        self._wake.set()

    def waited(self) -> float:
        """Return for how many seconds the oldest unanswered request has waited for its answer, or 0 if every
        request has an answer."""
        return self._loop.time() - self._in_flight[0].written_at if self._in_flight else 0.0

    def breaks(self, error: LedgerError) -> None:
        """End the stream, and return every unanswered batch with `error`."""
        if self.broken:
            return
        self.broken = True
        self._call.cancel()
        self._writer.cancel()
        self._reader.cancel()
        sent = [carried for request in self._in_flight for carried in request.carried]
        result = [(user, AttemptResult(sequencer, batch, error)) for user, sequencer, batch in sent]
        result += [(user, AttemptResult(sequencer, batch, error, sent=False)) for user, sequencer, batch in self._ready]
        self._in_flight.clear()
        self._ready.clear()
        self._return(result)

    def withdraw(self, leaving: StreamUser[Q, B], error: LedgerError) -> None:
        """Return every unanswered batch of this user with `error`. The answers to those that were sent are ignored."""
        result = []
        for request in self._in_flight:
            for place, (user, sequencer, batch) in enumerate(request.carried):
                if user is leaving:
                    request.carried[place] = (None, sequencer, batch)
                    result.append(AttemptResult(sequencer, batch, error))
        kept = deque[_Carried[Q, B]]()
        for carried in self._ready:
            user, sequencer, batch = carried
            if user is leaving:
                result.append(AttemptResult(sequencer, batch, error, sent=False))
            else:
                kept.append(carried)
        self._ready = kept
        if result:
            leaving.attempts_ended(self.address, result)

    async def close(self) -> None:
        self.breaks(UnavailableError(f"The stream to node {self.address} was closed by this client."))
        await asyncio.gather(self._writer, self._reader, return_exceptions=True)

    async def _guard(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run `work`, the task that reads answers or the task that writes requests. If one of the two tasks fails,
        end the whole stream."""
        try:
            await work()
        except Exception as error:
            self.breaks(await end_of_stream(self.address, self._call, error))

    async def _write(self) -> None:
        await self._call.wait_for_connection()  # batches that wait for the connection count as not sent
        while True:
            while not self._ready or len(self._in_flight) >= MAX_REQUESTS_IN_FLIGHT:
                self._wake.clear()
                await self._wake.wait()
            request = _Request(self._next_request(), self._loop.time())
            self._in_flight.append(request)
            batches = [batch for _, _, batch in request.carried]
            trace = next((batch.trace for batch in batches if batch.trace), "")
            await self._call.write(ProduceRequest([batch.encoded for batch in batches], trace))

    def _next_request(self) -> list[_Carried[Q, B]]:
        """Remove and return the batches of the next request. A request has 1 to MAX_REQUEST_BATCHES batches. A request
        has at most MAX_REQUEST_BYTES bytes, unless its first batch is larger.
        """
        taken = [self._ready.popleft()]
        size = _bytes(taken[0])
        while self._ready and len(taken) < MAX_REQUEST_BATCHES and size + _bytes(self._ready[0]) <= MAX_REQUEST_BYTES:
            size += _bytes(self._ready[0])
            taken.append(self._ready.popleft())
        return taken

    async def _read(self) -> None:
        while True:
            response = await self._call.read()
            if response is grpc.aio.EOF:
                self.breaks(await end_of_stream(self.address, self._call))
                return
            self._on_configuration(response.configuration_index)
            self._answered(response)

    def _answered(self, response: broker_pb2.ProduceResponse) -> None:
        if not self._in_flight or len(response.results) != len(self._in_flight[0].carried):
            self.breaks(
                InternalError(
                    f"Node {self.address} answered {len(response.results)} batches, which is not the number that was "
                    "sent."
                )
            )
            return
        request = self._in_flight.popleft()
        after_ms = (self._loop.time() - request.written_at) * 1000
        self._wake.set()
        answers = [_answer(result) for result in response.results]
        proof_ended = any(isinstance(answer, AuthenticationError) for answer in answers)
        if proof_ended:
            refusal = unproven(self.address, self._call, "the proof has ended")
            answers = [refusal if isinstance(answer, AuthenticationError) else answer for answer in answers]
        self._return(
            [
                (user, AttemptResult(sequencer, batch, answer, after_ms=after_ms))
                for (user, sequencer, batch), answer in zip(request.carried, answers, strict=True)
            ]
        )
        if proof_ended:  # the node may have appended batches of later requests before
            self.breaks(UnavailableError(f"The stream to node {self.address} ended with the proof of this client."))

    def _return(self, results: Iterable[tuple[StreamUser[Q, B] | None, AttemptResult[Q, B]]]) -> None:
        of_users: dict[StreamUser[Q, B], list[AttemptResult[Q, B]]] = {}
        for user, result in results:
            if user is not None:
                of_users.setdefault(user, []).append(result)
        for user, own in of_users.items():
            try:
                user.attempts_ended(self.address, own)
            except Exception as error:  # of this user, for example of its history. The others get their results
                self._loop.call_exception_handler({"message": "a producer cannot take results", "exception": error})


def _bytes(carried: _Carried[Q, B]) -> int:
    return len(carried[2].encoded)


def _answer(result: broker_pb2.ProduceResult) -> Answer:
    if result.HasField("error"):
        return from_wire(result.error)
    return Acknowledged(result.base_offset, result.term, result.append_time_ms, result.duplicate)
