"""Tests that our own encoding of produce requests equals the encoding of protobuf."""

from __future__ import annotations

from typing import Any, cast

import grpc.aio
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from ledger.broker.rpc.broker import BrokerService, add_broker
from ledger.client.connection.channels import GrpcChannel
from ledger.produce_wire import ProduceRequest, parse, serialize
from ledger.v1 import broker_pb2

BATCHES = st.lists(st.one_of(st.binary(max_size=300), st.integers(16_380, 16_390).map(bytes)), max_size=5)


@given(BATCHES, st.sampled_from(["", "00-1", "0" * 200]))
def test_it_is_the_same_as_by_protobuf(batches: list[bytes], traceparent: str) -> None:
    written = broker_pb2.ProduceRequest(batches=batches, traceparent=traceparent).SerializeToString()
    assert serialize(ProduceRequest(batches, traceparent)) == written
    read = parse(written)
    assert (list(read.batches), read.traceparent) == (batches, traceparent)


def test_a_context_that_is_no_text_harms_nothing() -> None:
    assert list(parse(serialize(ProduceRequest([b"a"])) + b"\x12\x02\xff\xfe").batches) == [b"a"]


@pytest.mark.parametrize("unknown", [b"\x18\x07", b"\x1a\x03abc"])
def test_fields_of_a_later_version_are_passed_over(unknown: bytes) -> None:
    assert list(parse(unknown + serialize(ProduceRequest([b"a"])) + unknown).batches) == [b"a"]


@pytest.mark.parametrize("end", range(1, 132))
def test_what_is_cut_short_is_refused(end: int) -> None:
    with pytest.raises(DecodeError):
        parse(serialize(ProduceRequest([bytes(130)]))[:end])


def test_what_is_no_length_is_refused() -> None:
    with pytest.raises(DecodeError):
        parse(b"\x0a" + b"\xff" * 11)


@pytest.mark.real
async def test_clients_and_brokers_speak_so() -> None:
    """Clients and brokers use our own encoding, and not the generated code."""
    got: list[Any] = []

    class Service(BrokerService):
        async def Produce(self, _: Any, context: Any) -> None:  # noqa: N802 (gRPC names)
            got.append(await context.read())
            await context.write(broker_pb2.ProduceResponse(configuration_index=7))

    server = grpc.aio.server()
    add_broker(Service.__new__(Service), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = GrpcChannel(f"127.0.0.1:{port}")
    call = channel.stub.Produce()
    await call.write(cast(Any, ProduceRequest([b"a", b"b"])))
    assert (await call.read()).configuration_index == 7
    assert got == [ProduceRequest([b"a", b"b"])]
    call.cancel()
    await channel.close()
    await server.stop(None)
