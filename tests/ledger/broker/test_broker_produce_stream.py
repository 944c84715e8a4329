"""A produce stream is bounded in what it owes, and a client that does not read its responses is refused."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import grpc
import pytest
from grpc import aio

from ledger.batch import Codec, encode
from ledger.broker.produce.proposals import Committed
from ledger.broker.rpc import produce_stream
from ledger.broker.rpc.produce_stream import STEP_BYTES, STREAM_RESULTS, ProduceLoad, serve_produce
from ledger.broker.turn_budget import TurnBudget
from ledger.errors import BusyError
from ledger.produce_wire import ProduceRequest
from ledger.v1 import broker_pb2


class EndedError(Exception):
    pass


class Stream:
    """The node's side of a stream. While `accepts` is not set, gRPC accepts no response."""

    def __init__(self, *requests: list[bytes]) -> None:
        self.requests = deque(requests)
        self.more = asyncio.Event()
        self.accepts = asyncio.Event()
        self.responses: list[broker_pb2.ProduceResponse] = []
        self.ended: tuple[grpc.StatusCode, str] | None = None
        self.read_requests = 0

    async def read(self) -> Any:
        if not self.requests:
            await self.more.wait()
            return aio.EOF
        self.read_requests += 1
        return ProduceRequest(self.requests.popleft())

    async def write(self, response: broker_pb2.ProduceResponse) -> None:
        await self.accepts.wait()
        self.responses.append(response)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        self.ended = (code, details)
        raise EndedError


class Broker:
    """Commits a batch when the test says so, and refuses the batch b"busy"."""

    configuration_index = 1

    def __init__(self) -> None:
        self.pending: list[asyncio.Future[Committed]] = []

    def produce(self, batch: bytes) -> asyncio.Future[Committed]:
        if batch == b"busy":
            raise BusyError("try again")
        self.pending.append(asyncio.get_running_loop().create_future())
        return self.pending[-1]

    def commit(self) -> None:
        for offset, future in enumerate(self.pending):
            if not future.done():
                future.set_result(Committed(offset, 1, 0))


def serve(broker: Broker, stream: Stream, load: ProduceLoad) -> asyncio.Task[None]:
    context: Any = stream
    return asyncio.create_task(serve_produce(broker, context, load))


async def settle() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


async def test_responses_come_in_the_order_of_the_requests() -> None:
    broker, stream, load = Broker(), Stream([b"a", b"busy"], [b"b"]), ProduceLoad()
    stream.accepts.set()
    served = serve(broker, stream, load)
    await settle()
    assert stream.responses == []
    broker.commit()
    stream.more.set()
    await served
    assert [len(each.results) for each in stream.responses] == [2, 1]
    assert stream.responses[0].results[1].HasField("error")
    assert (load.results, load.bytes) == (0, 0)


async def test_a_client_that_reads_nothing_is_refused_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_stream, "STALLED_S", 0.05)
    requests = [[b"busy"] * 1000 for _ in range(20)]
    broker, stream, load = Broker(), Stream(*requests), ProduceLoad()
    served = serve(broker, stream, load)
    with pytest.raises(EndedError):
        await served
    assert stream.ended is not None
    assert stream.ended[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "read no response" in stream.ended[1]
    assert stream.read_requests <= STREAM_RESULTS // 1000 + 1, "no more requests are read"
    assert (load.results, load.bytes) == (0, 0)


async def test_a_slow_commit_is_no_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_stream, "STALLED_S", 0.05)
    broker, stream, load = Broker(), Stream([b"a"]), ProduceLoad()
    stream.accepts.set()
    served = serve(broker, stream, load)
    await asyncio.sleep(0.2)
    broker.commit()
    stream.more.set()
    await served
    assert len(stream.responses) == 1


async def test_a_stream_reads_no_more_while_its_batches_wait_for_a_majority() -> None:
    large = b"x" * (4 << 20)
    broker, stream, load = Broker(), Stream(*[[large] for _ in range(10)]), ProduceLoad()
    stream.accepts.set()
    served = serve(broker, stream, load)
    await settle()
    assert stream.read_requests == 4, "16 MiB"
    broker.commit()
    await settle()
    assert stream.read_requests == 8
    while len(stream.responses) < 10:
        broker.commit()
        await settle()
    stream.more.set()
    await served
    assert (load.results, load.bytes) == (0, 0)


async def test_the_streams_of_a_node_share_a_limit() -> None:
    load = ProduceLoad(node_results=100, node_bytes=1000)
    broker = Broker()
    streams = [Stream(*[[b"y" * 600] for _ in range(3)]) for _ in range(3)]
    served = [serve(broker, each, load) for each in streams]
    await settle()
    assert sum(each.read_requests for each in streams) <= 4
    for each in streams:
        each.accepts.set()
    while sum(len(each.responses) for each in streams) < 9:
        broker.commit()
        await settle()
    for each in streams:
        each.more.set()
    await asyncio.gather(*served)
    assert (load.results, load.bytes) == (0, 0)


async def test_a_cancelled_stream_owes_nothing() -> None:
    broker, stream, load = Broker(), Stream([b"a"] * 10), ProduceLoad()
    served = serve(broker, stream, load)
    await settle()
    assert load.results == 10
    served.cancel()
    await asyncio.gather(served, return_exceptions=True)
    broker.commit()
    await settle()
    assert (load.results, load.bytes) == (0, 0)


async def test_the_check_of_a_compressed_batch_counts_what_it_decompresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hundred bytes can be megabytes before compression."""
    spent: list[int] = []

    async def spend(self: TurnBudget, steps: int) -> float:
        spent.append(steps)
        return 0.0

    monkeypatch.setattr(TurnBudget, "spend", spend)
    place: dict[str, Any] = dict.fromkeys(
        ("topic_id", "queue", "producer_id", "epoch", "first_sequence", "base_timestamp_ms"), 1
    )
    small = encode([bytes(4 << 20)], codec=Codec.ZSTD, **place)
    assert len(small) < 4096
    serving = serve(Broker(), Stream([small]), ProduceLoad())
    await settle()
    serving.cancel()
    assert spent == [1 + (4 << 20) // STEP_BYTES]


async def test_a_defect_while_responses_are_sent_ends_the_stream() -> None:
    """Before, the stream went on reading requests, and after 64 of them it waited for ever."""
    broker, stream, load = Broker(), Stream([b"a"]), ProduceLoad()
    stream.accepts.set()
    served = serve(broker, stream, load)
    await settle()
    broker.pending[0].set_exception(RuntimeError("a defect"))
    async with asyncio.timeout(5):
        with pytest.raises(RuntimeError, match="a defect"):
            await served
    assert (load.results, load.bytes) == (0, 0)
