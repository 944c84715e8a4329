"""Byte ranges that `raft.transport.bulk` encodes and decodes are equal to those of protobuf."""

from __future__ import annotations

from typing import Any

import grpc.aio
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from raft.transport.bulk import Bulk, parse, serialize
from raft.transport.grpc_transport import RaftService, add_raft, number
from raft.v1 import raft_pb2

NUMBERS = st.integers(0, 2**64 - 1)
HEADS = st.builds(
    raft_pb2.AppendRequest,
    term=NUMBERS,
    prev_index=NUMBERS,
    prev_term=NUMBERS,
    commit=NUMBERS,
    snapshot=st.none() | st.builds(raft_pb2.SnapshotPiece, index=NUMBERS, piece=st.binary(max_size=20)),
)
ENTRIES = st.one_of(st.binary(max_size=300), st.integers(16_380, 16_390).map(bytes))


@given(HEADS, ENTRIES)
def test_protobuf_reads_the_same(head: raft_pb2.AppendRequest, entries: bytes) -> None:
    whole = raft_pb2.AppendRequest()
    whole.CopyFrom(head)
    whole.entries = entries
    assert raft_pb2.AppendRequest.FromString(serialize(Bulk(head, entries))) == whole


@given(HEADS, ENTRIES)
def test_what_protobuf_or_this_wrote_is_read(head: raft_pb2.AppendRequest, entries: bytes) -> None:
    whole = raft_pb2.AppendRequest()
    whole.CopyFrom(head)
    whole.entries = entries
    assert parse(whole.SerializeToString()) == Bulk(head, entries)
    assert parse(serialize(Bulk(head, entries))) == Bulk(head, entries)


@pytest.mark.parametrize("end", range(1, 132))
def test_what_is_cut_short_is_refused(end: int) -> None:
    with pytest.raises(DecodeError):
        parse(serialize(Bulk(raft_pb2.AppendRequest(), bytes(130)))[:end])


@pytest.mark.real
async def test_nodes_read_it_so() -> None:
    """A gRPC server uses the decoder of bulk.py and not the decoder that the generated code registered."""
    got: list[Any] = []

    class Service(RaftService):
        async def Replicate(self, _: Any, context: Any) -> None:  # noqa: N802 (gRPC names)
            got.append(await context.read())

    server = grpc.aio.server()
    add_raft(Service.__new__(Service), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sent = Bulk(raft_pb2.AppendRequest(term=7), b"entries")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.stream_stream("/raft.v1.Raft/Replicate")()
        await call.write(serialize(sent))
        assert await call.read() is grpc.aio.EOF
    assert got == [sent]
    await server.stop(None)


@pytest.mark.parametrize("text", ["", "-1", "one", "1" * 5_000])
def test_a_metadata_value_that_is_no_number_is_the_number_of_no_node(text: str) -> None:
    assert number(text) == -1
