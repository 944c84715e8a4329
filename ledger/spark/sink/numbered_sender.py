"""Sends batches with sequence numbers that are the same in every attempt of a task.

    producer    (query, partition)                      ┐
    epoch       number of the micro-batch               ├  the broker appends each batch once, in order
    sequence    rows before the batch in its queue      ┘

Brokers recognise repeated batches by (producer, epoch, sequence), so a task that is run again sends all its batches
again. The epoch of a micro-batch fences late tasks of earlier micro-batches.

Batches are sent in order, a few at a time, on one stream to each shard's leader. After a failure the sender repeats all
batches from the first one that is not acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

import grpc
import grpc.aio

from ledger.batch import Codec, encode
from ledger.client.connection.cluster_client import ClusterClient, no_leader
from ledger.client.connection.environment import now_ms
from ledger.client.connection.stream_end import end_of_stream, unproven
from ledger.errors import (
    AuthenticationError,
    DeliveryTimeoutError,
    DuplicateForgottenError,
    LedgerError,
    ProducerFencedError,
    RequestTimeoutError,
    ThrottledError,
    UnavailableError,
    from_wire,
)
from ledger.spark.sink.outgoing_rows import Slice
from ledger.v1 import broker_pb2

_Call = grpc.aio.StreamStreamCall[broker_pb2.ProduceRequest, broker_pb2.ProduceResponse]

# At most as many batches as a broker remembers of a producer and queue, so that it recognises all repeated batches.
MAX_IN_FLIGHT = 5
# How long the sender tries again without any progress.
_DELIVERY_TIMEOUT_S = 120.0
# How long a node may take to read a batch, and to answer it.
_ANSWER_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """The producer id and epoch of a task's rows. Producer id and epoch are the same in every attempt of the task."""

    producer_id: int
    epoch: int


@dataclass(slots=True)
class SentRows:
    """The number of committed rows. `known` of these rows had already been committed by an earlier attempt."""

    rows: int = 0
    known: int = 0


class OtherRowsError(LedgerError):
    """An earlier attempt has written other rows under the same name. To continue, restore the query's newest
    checkpoint, or start the query with a new checkpoint.
    """


@dataclass(frozen=True, slots=True)
class _Numbered:
    data: bytes
    first_sequence: int
    count: int

    @property
    def next_sequence(self) -> int:
        return self.first_sequence + self.count


class NumberedSender:
    """Sends the rows of one task."""

    def __init__(self, client: ClusterClient, identity: TaskIdentity, codec: Codec) -> None:
        self.sent = SentRows()
        self._client = client
        self._identity = identity
        self._codec = codec
        self._next_sequence: defaultdict[tuple[int, int], int] = defaultdict(int)

    async def send(self, slices: Iterable[Slice]) -> None:
        """Send the rows, and return when all rows are committed. Raises LedgerError.

        A slice is encoded just before it is sent, so that only a few encoded batches are in memory.
        """
        of_shard: defaultdict[int, deque[Slice]] = defaultdict(deque)
        for each in slices:
            of_shard[each.topic.shards[each.queue]].append(each)
        await asyncio.gather(*(self._send_to(shard, waiting) for shard, waiting in of_shard.items()))

    async def _send_to(self, shard: int, waiting: deque[Slice]) -> None:
        loop = asyncio.get_running_loop()
        in_flight: deque[_Numbered] = deque()
        failures, last_success = 0, loop.time()
        while waiting or in_flight:
            before = self.sent.rows
            try:
                await self._stream(shard, waiting, in_flight)
            except LedgerError as error:
                if not error.retriable:
                    raise _told(error) from error
                if self.sent.rows > before:
                    failures, last_success = 0, loop.time()
                if loop.time() - last_success > _DELIVERY_TIMEOUT_S:
                    raise DeliveryTimeoutError(
                        f"No rows could be sent for {_DELIVERY_TIMEOUT_S:.0f} s; the last error was: {error}",
                        maybe_committed=True,
                    ) from error
                failures += 1
                throttle_ms = error.throttle_ms or 0 if isinstance(error, ThrottledError) else 0
                await asyncio.sleep(max(throttle_ms, self._client.backoff.wait_ms(failures)) / 1000)

    async def _stream(self, shard: int, waiting: deque[Slice], in_flight: deque[_Numbered]) -> None:
        """Send batches until all are acknowledged or one fails. Unacknowledged batches stay in `in_flight`."""
        address = self._client.routes.table.leader_address(shard)
        if address is None:
            self._client.routes.refresh_soon()
            raise no_leader(shard)
        call = self._client.connections.stub(address).Produce()
        try:
            for batch in in_flight:
                await _write(call, address, batch)
            while waiting or in_flight:
                while waiting and len(in_flight) < MAX_IN_FLIGHT:
                    in_flight.append(self._numbered(waiting.popleft()))
                    await _write(call, address, in_flight[-1])
                self._settle(in_flight[0], await _answer(call, address))
                in_flight.popleft()
        except grpc.aio.AioRpcError as error:
            failed = await end_of_stream(address, call, error)
            self._client.routes.note(shard, address, failed)
            raise failed from error
        except LedgerError as error:
            self._client.routes.note(shard, address, error)
            raise
        finally:
            call.cancel()

    def _numbered(self, rows: Slice) -> _Numbered:
        place = (rows.topic.topic_id, rows.queue)
        content, first_sequence = rows.content(), self._next_sequence[place]
        data = encode(
            content.values,
            topic_id=rows.topic.topic_id,
            queue=rows.queue,
            producer_id=self._identity.producer_id,
            epoch=self._identity.epoch,
            first_sequence=first_sequence,
            base_timestamp_ms=now_ms(),
            keys=content.keys,
            tags=content.tags,
            headers=content.headers,
            look_up_keys=content.look_up_keys,
            codec=self._codec,
        )
        self._next_sequence[place] += len(content.values)
        return _Numbered(data, first_sequence, len(content.values))

    def _settle(self, batch: _Numbered, result: broker_pb2.ProduceResult) -> None:
        """Count an acknowledged batch, or raise its error. A repeated batch counts as acknowledged."""
        known = result.duplicate
        if result.HasField("error"):
            error = from_wire(result.error)
            if not isinstance(error, DuplicateForgottenError):
                raise error
            if batch.next_sequence > (error.next_sequence or 0):
                raise OtherRowsError(
                    f"Rows {batch.first_sequence} to {batch.next_sequence - 1} of a queue should be written, but an "
                    f"earlier attempt has written {error.next_sequence} other rows. A micro-batch must have the same "
                    "rows whenever it is run. Check that the query was not started from an older copy of its "
                    "checkpoint."
                )
            known = True
        self.sent.rows += batch.count
        self.sent.known += batch.count if known else 0


async def _write(call: _Call, address: str, batch: _Numbered) -> None:
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):  # a node that hangs does not open the HTTP/2 window again
            with contextlib.suppress(asyncio.InvalidStateError):  # the stream has ended: the next read tells why
                await call.write(broker_pb2.ProduceRequest(batches=[batch.data]))
    except TimeoutError:
        raise RequestTimeoutError(f"Node {address} did not read a batch in time.") from None


async def _answer(call: _Call, address: str) -> broker_pb2.ProduceResult:
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            response = await call.read()
    except TimeoutError:
        raise RequestTimeoutError(f"Node {address} did not answer in time.") from None
    if not isinstance(response, broker_pb2.ProduceResponse):  # the end of the stream
        raise UnavailableError(f"Node {address} ended the stream.")
    result: broker_pb2.ProduceResult = response.results[0]
    if result.HasField("error") and isinstance(error := from_wire(result.error), AuthenticationError):
        raise unproven(address, call, error.message)
    return result


def _told(error: LedgerError) -> LedgerError:
    if isinstance(error, ProducerFencedError):
        return ProducerFencedError(
            f"{error} A later micro-batch of this query has been written already: either this task belongs to an "
            "earlier micro-batch and is late, or the query was started from an older copy of its checkpoint."
        )
    return error
