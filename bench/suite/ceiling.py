"""Measures the upper limit of the produce path: messages make the same three hops through gRPC as real messages
(client, leader, follower), but nothing is parsed or stored.

    .venv/bin/python -m bench.suite.ceiling [--seconds 3] [--sizes 16384 65536 262144 1048576] [--json]

    client ── stream of batches ──> leader ──┬──> follower 1
           <────── acknowledgements ──       └──> follower 2        acknowledged as soon as one follower has the batch

The measurement runs four processes on this machine. The figures show what gRPC costs in the environment of ledgermq's
processes: uvloop, the I/O engine of `cluster/grpc_engine.py`, and the allocator settings of `cluster/allocator.py`.
The ratio `ours / ceiling` shows what ledgermq's own work costs. The two rates of a ratio are measured in turns in one
run, so the ratio does not depend on the speed of the machine.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import uvloop

from bench.peers.processes import free_ports
from bench.tables import options, show
from cluster.grpc_engine import prefer_older_engine

prefer_older_engine()  # before anything imports grpc

import grpc  # noqa: E402
from grpc import aio  # noqa: E402

from cluster.allocator import keep_large_buffers  # noqa: E402
from cluster.bench.idle import read_process  # noqa: E402

SIZES = (16 << 10, 64 << 10, 256 << 10, 1 << 20)
SMALL_BYTES = 128
# The number of batches in flight.
WINDOW = 16
ACKNOWLEDGEMENT = b"ok"
NO_LIMITS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
START_TIMEOUT_S = 30.0
SHARE_OF_WARM_UP = 0.2


@dataclass(frozen=True, slots=True)
class Throughput:
    batch_bytes: int
    batches_per_s: float
    # CPU seconds of all four processes for 10^9 bytes. Other load on the machine changes this figure little.
    cpu_s_per_gb: float

    @property
    def mb_per_s(self) -> float:
        return self.batches_per_s * self.batch_bytes / 1e6


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """The latencies of a small message while one message is in flight."""

    p50_ms: float
    p99_ms: float


class Ceiling:
    """The leader and its followers, which run as processes while a `with` block runs. A separate client process makes
    each measurement.
    """

    def __init__(self) -> None:
        self._spawn = multiprocessing.get_context("spawn")
        self._servers: list[Any] = []
        self._port = 0

    def __enter__(self) -> Ceiling:
        first, second, self._port = free_ports(3)
        for port, followers in ((first, []), (second, []), (self._port, [first, second])):
            server = self._spawn.Process(target=serve, args=(port, followers), daemon=True)
            server.start()
            self._servers.append(server)
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.terminate()
            server.join()

    def throughput(self, batch_bytes: int, seconds: float) -> Throughput:
        """Keep WINDOW batches of this size in flight for `seconds`, after a short warm-up."""
        before = self._cpu_s()
        batches, took_s, client_cpu_s = self._in_client(acknowledged, batch_bytes, seconds)
        sent_gb = batches * batch_bytes / 1e9
        # The servers have also worked during the warm-up.
        cpu_s = client_cpu_s + (self._cpu_s() - before) / (1 + SHARE_OF_WARM_UP)
        return Throughput(batch_bytes, batches / took_s, cpu_s / sent_gb)

    def round_trip(self, seconds: float) -> RoundTrip:
        """Measure the round-trip latency of messages of SMALL_BYTES bytes."""
        cuts = statistics.quantiles(self._in_client(round_trips_ms, SMALL_BYTES, seconds), n=100)
        return RoundTrip(cuts[49], cuts[98])

    def _cpu_s(self) -> float:
        return sum(read_process(server.pid).cpu_s for server in self._servers)

    def _in_client(self, work: Callable[..., Any], size: int, seconds: float) -> Any:
        """Run the client in a separate process, as `ledgermq bench` does."""
        with self._spawn.Pool(1) as pool:
            return pool.apply(run_client, (work, self._port, size, seconds))


# -- the client


def run_client(work: Callable[[Any, bytes, float], Any], port: int, size: int, seconds: float) -> Any:
    keep_large_buffers()

    async def main() -> Any:
        async with aio.insecure_channel(f"127.0.0.1:{port}", options=NO_LIMITS) as channel:
            async with asyncio.timeout(START_TIMEOUT_S):
                await channel.channel_ready()
            call: Any = channel.stream_stream("/leader/produce")()
            payload = os.urandom(size)
            await work(call, payload, seconds * SHARE_OF_WARM_UP)
            found = await work(call, payload, seconds)
            call.cancel()
            return found

    return uvloop.run(main())


async def acknowledged(call: Any, payload: bytes, seconds: float) -> tuple[int, float, float]:
    """Return three figures: the number of acknowledged batches, the elapsed seconds, and the CPU seconds of the
    client."""
    cpu_s = time.process_time()
    for _ in range(WINDOW):
        await call.write(payload)
    count, started = 0, time.perf_counter()
    while (now := time.perf_counter()) < started + seconds:
        await call.read()
        count += 1
        await call.write(payload)
    for _ in range(WINDOW):
        await call.read()
    return count, now - started, time.process_time() - cpu_s


async def round_trips_ms(call: Any, payload: bytes, seconds: float) -> list[float]:
    times, started = [], time.perf_counter()
    while (sent := time.perf_counter()) < started + seconds:
        await call.write(payload)
        await call.read()
        times.append((time.perf_counter() - sent) * 1e3)
    return times


# -- leader and followers


def serve(port: int, followers: list[int]) -> None:
    keep_large_buffers()

    async def main() -> None:
        server = aio.server(options=NO_LIMITS)
        server.add_generic_rpc_handlers((Handler(CeilingLeader(followers).produce if followers else follow),))
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        await server.wait_for_termination()

    uvloop.run(main())


class Handler(grpc.GenericRpcHandler):
    """Serves one gRPC method, whatever its name. Requests and responses are plain bytes."""

    def __init__(self, behaviour: Callable[..., Any]) -> None:
        self._behaviour = behaviour

    def service(self, _: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        return grpc.stream_stream_rpc_method_handler(self._behaviour)


async def follow(requests: AsyncIterator[bytes], _: object) -> AsyncIterator[bytes]:
    """Serve as a follower that acknowledges every message."""
    async for _ in requests:
        yield ACKNOWLEDGEMENT


class CeilingLeader:
    """Plays the part of the leader. The leader sends every message to all followers and acknowledges the messages in
    order; a message is acknowledged when one follower has acknowledged it.
    """

    def __init__(self, followers: Sequence[int]) -> None:
        self._followers = followers

    async def produce(self, requests: AsyncIterator[bytes], context: Any) -> None:
        channels = [aio.insecure_channel(f"127.0.0.1:{port}", options=NO_LIMITS) for port in self._followers]
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await asyncio.gather(*(channel.channel_ready() for channel in channels))
            calls: list[Any] = [channel.stream_stream("/follower/append")() for channel in channels]
            await Passing(calls, context.write).run(requests)
        finally:
            for channel in channels:
                await channel.close()


class Passing:
    """Passes the messages of one client on to the followers. Each follower has a queue and two tasks, and one more
    task answers the client.
    """

    def __init__(self, calls: list[Any], answer: Callable[[bytes], Any]) -> None:
        self._calls, self._answer = calls, answer
        self._queues: list[asyncio.Queue[bytes]] = [asyncio.Queue(2 * WINDOW) for _ in calls]
        self._acknowledged = [0] * len(calls)
        self._news = asyncio.Event()

    async def run(self, requests: AsyncIterator[bytes]) -> None:
        jobs = [job(place) for place in range(len(self._calls)) for job in (self._write, self._read)]
        async with asyncio.TaskGroup() as group:  # a follower that fails ends the client's call too
            tasks = [group.create_task(job) for job in (*jobs, self._answer_all())]
            async for request in requests:
                for queue in self._queues:
                    await queue.put(request)
            for task in tasks:
                task.cancel()

    async def _write(self, place: int) -> None:
        while True:
            await self._calls[place].write(await self._queues[place].get())

    async def _read(self, place: int) -> None:
        while await self._calls[place].read() is not aio.EOF:
            self._acknowledged[place] += 1
            self._news.set()

    async def _answer_all(self) -> None:
        answered = 0
        while True:
            await self._news.wait()
            self._news.clear()
            while answered < max(self._acknowledged):
                await self._answer(ACKNOWLEDGEMENT)
                answered += 1


# -- the command


@dataclass(frozen=True, slots=True)
class CeilingRow:
    batch_bytes: int
    batches_per_s: float
    mb_per_s: float
    cpu_s_per_gb: float


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each measurement takes (default: 3)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="batch sizes in bytes")
    given = parser.parse_args()
    with Ceiling() as ceiling:
        found = [ceiling.throughput(size, given.seconds) for size in given.sizes]
        trip = ceiling.round_trip(given.seconds)
    rows = [CeilingRow(each.batch_bytes, each.batches_per_s, each.mb_per_s, each.cpu_s_per_gb) for each in found]
    show({"Throughput": rows, f"Round trip of {SMALL_BYTES} B": [trip]}, as_json=given.json)


if __name__ == "__main__":
    main()
