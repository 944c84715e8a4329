"""Tests that protobuf can read the hand-written serialization of fetch responses."""

from __future__ import annotations

from typing import Any

import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.broker.fetch.fetch import MAX_FETCH_QUEUES
from ledger.broker.fetch.fetch_result import FetchedBatch, FetchedQueue, FetchResult
from ledger.broker.rpc.broker import BrokerService, add_broker
from ledger.broker.rpc.fetch_wire import serialize, serialize_refusal
from ledger.client.connection.channels import GrpcChannel
from ledger.errors import OffsetTooLowError, to_wire
from ledger.v1 import broker_pb2

OFFSETS = st.integers(0, (1 << 63) - 1)
IDS = st.integers(0, (1 << 32) - 1)
BODIES = st.one_of(st.binary(max_size=300), st.integers(16_370, 16_390).map(bytes))
BATCHES = st.builds(FetchedBatch, OFFSETS, OFFSETS, OFFSETS, BODIES)
ERRORS = st.sampled_from([None, OffsetTooLowError("gone", first_offset=7, end_offset=9)])
QUEUES = st.builds(
    FetchedQueue, IDS, IDS, OFFSETS, OFFSETS, OFFSETS, error=ERRORS, batches=st.lists(BATCHES, max_size=3)
)
RESULTS = st.builds(FetchResult, st.lists(QUEUES, max_size=3))


def by_protobuf(result: FetchResult, configuration_index: int) -> broker_pb2.FetchResponse:
    return broker_pb2.FetchResponse(
        queues=[
            broker_pb2.FetchedQueue(
                topic_id=queue.topic_id,
                queue=queue.queue,
                error=None if queue.error is None else to_wire(queue.error),
                batches=[
                    broker_pb2.FetchedBatch(
                        base_offset=batch.base_offset,
                        append_time_ms=batch.append_time_ms,
                        term=batch.term,
                        body=bytes(batch.body),
                    )
                    for batch in queue.batches
                ],
                next_offset=queue.next_offset,
                first_offset=queue.first_offset,
                end_offset=queue.end_offset,
            )
            for queue in result.queues
        ],
        configuration_index=configuration_index,
    )


@given(RESULTS, OFFSETS)
def test_it_is_the_same_as_by_protobuf(result: FetchResult, configuration_index: int) -> None:
    """The parsed response equals the one that protobuf would serialize, except that queues without batches come
    last.
    """
    result.queues.sort(key=lambda queue: not queue.batches)
    written = broker_pb2.FetchResponse.FromString(serialize(result, configuration_index))
    assert written == by_protobuf(result, configuration_index)


def test_a_refused_fetch_has_the_error_in_every_queue() -> None:
    queues = [broker_pb2.QueueFetch(topic_id=1, queue=queue, offset=7) for queue in range(2)]
    error = OffsetTooLowError("gone", first_offset=7, end_offset=9)
    written = broker_pb2.FetchResponse.FromString(serialize_refusal(broker_pb2.FetchRequest(queues=queues), error))
    assert written == by_protobuf(FetchResult([FetchedQueue(1, queue, 7, error=error) for queue in range(2)]), 0)


def test_a_refusal_names_no_more_queues_than_a_fetch_can_have() -> None:
    request = broker_pb2.FetchRequest(queues=[broker_pb2.QueueFetch(topic_id=1)] * (MAX_FETCH_QUEUES + 1))
    written = broker_pb2.FetchResponse.FromString(serialize_refusal(request, OffsetTooLowError("gone")))
    assert len(written.queues) == MAX_FETCH_QUEUES


@pytest.mark.real
async def test_brokers_answer_so_and_clients_read_it() -> None:
    """A server uses the hand-written serialization instead of the generated code, and a client can read the response.
    The body of a batch may be a memoryview.
    """
    result = FetchResult([FetchedQueue(1, 2, 3, batches=[FetchedBatch(0, 5, 1, memoryview(b"views")[:4])])])

    class Service(BrokerService):
        async def Fetch(self, request: Any, context: Any) -> bytes:  # noqa: N802 (gRPC names)
            return serialize(result, 7)

    server = grpc.aio.server()
    add_broker(Service.__new__(Service), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = GrpcChannel(f"127.0.0.1:{port}")
    try:
        came = await channel.stub.Fetch(broker_pb2.FetchRequest())
    finally:
        await channel.close()
        await server.stop(None)
    assert came == by_protobuf(FetchResult([FetchedQueue(1, 2, 3, batches=[FetchedBatch(0, 5, 1, b"view")])]), 7)
