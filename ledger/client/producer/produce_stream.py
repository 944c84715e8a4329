"""One gRPC stream that carries batches to one node, and the answers back in the same order.

Batches that are ready are sent together in requests of up to 1 MiB, and several requests can be in flight. The stream
returns every batch exactly once, with the answer of the broker. If the stream breaks, it returns each unanswered batch
with an error and with a flag that says whether the batch was sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from ledger.client.connection.stream_end import end_of_stream, unproven
from ledger.client.producer.producer_batch import Acknowledged, Answer, ProducerBatch
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.errors import InternalError, LedgerError, UnavailableError, from_wire
from ledger.produce_wire import ProduceRequest
from ledger.v1 import broker_pb2, error_pb2
from ledger.v1.broker_pb2_grpc import BrokerStub

MAX_REQUEST_BYTES = 1024 * 1024
MAX_REQUEST_BATCHES = 1024
MAX_REQUESTS_IN_FLIGHT = 16


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of one attempt to send a batch.

    `sent` is False if the batch never left this process. `after_ms` is the time in ms from the request to its answer.
    """

    sequencer: QueueSequencer
    batch: ProducerBatch
    answer: Answer
    sent: bool = True
    after_ms: float = 0


@dataclass(frozen=True, slots=True)
class _Request:
    batches: list[tuple[QueueSequencer, ProducerBatch]]
    written_at: float


class ProduceStream:
    """A stream of batches to the node at `address`.

    The stream calls `on_return` with the results of attempts, in the order in which the batches were submitted. With
    each response, the stream calls `on_configuration` with the index of the node's configuration. If `broken` is True,
    the stream accepts no more batches.
    """

    def __init__(
        self,
        address: str,
        stub: BrokerStub,
        on_return: Callable[[Sequence[AttemptResult]], None],
        on_configuration: Callable[[int], None],
    ) -> None:
        self.address = address
        self.broken = False
        self._on_return = on_return
        self._on_configuration = on_configuration
        self._loop = asyncio.get_running_loop()
        self._ready: deque[tuple[QueueSequencer, ProducerBatch]] = deque()
        self._in_flight: deque[_Request] = deque()
        self._wake = asyncio.Event()
        self._call: Any = stub.Produce()
        self._writer = self._loop.create_task(self._guard(self._write))
        self._reader = self._loop.create_task(self._guard(self._read))

    def submit(self, sequencer: QueueSequencer, batches: Sequence[ProducerBatch]) -> None:
        assert not self.broken
        self._ready.extend((sequencer, batch) for batch in batches)
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
        sent = [pair for request in self._in_flight for pair in request.batches]
        result = [AttemptResult(sequencer, batch, error) for sequencer, batch in sent]
        result += [AttemptResult(sequencer, batch, error, sent=False) for sequencer, batch in self._ready]
        self._in_flight.clear()
        self._ready.clear()
        if result:
            self._on_return(result)

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
            trace = next((batch.trace for _, batch in request.batches if batch.trace), "")
            await self._call.write(ProduceRequest([batch.encoded for _, batch in request.batches], trace))

    def _next_request(self) -> list[tuple[QueueSequencer, ProducerBatch]]:
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
        if not self._in_flight or len(response.results) != len(self._in_flight[0].batches):
            self.breaks(
                InternalError(
                    f"Node {self.address} answered {len(response.results)} batches, which is not the number that was "
                    "sent."
                )
            )
            return
        if any(result.error.code == error_pb2.UNAUTHENTICATED for result in response.results):
            # The node appended none of the batches that it refused.
            self.breaks(unproven(self.address, self._call, "the proof has ended"))
            return
        request = self._in_flight.popleft()
        after_ms = (self._loop.time() - request.written_at) * 1000
        self._wake.set()
        self._on_return(
            [
                AttemptResult(sequencer, batch, _answer(result), after_ms=after_ms)
                for (sequencer, batch), result in zip(request.batches, response.results, strict=True)
            ]
        )


def _bytes(pair: tuple[QueueSequencer, ProducerBatch]) -> int:
    return len(pair[1].encoded)


def _answer(result: broker_pb2.ProduceResult) -> Answer:
    if result.HasField("error"):
        return from_wire(result.error)
    return Acknowledged(result.base_offset, result.term, result.append_time_ms, result.duplicate)
