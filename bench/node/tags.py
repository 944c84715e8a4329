"""Measures what a consumer with tags costs: the bytes that it receives, and the processor time of the node.

    .venv/bin/python -m bench.node.tags [--json] [--directory PATH]

A producer sends messages of one queue with tags in turn, so that every batch has messages of all tags. Every hundredth
message has the tag `rare`. Then a real node answers fetches with a filter, with and without cut batches. A client of an
earlier version fetches without cut batches. The bytes are those of the responses, without the headers of gRPC. The
processor time of the node is the mean of ROUNDS readings of the whole queue.

In the second part, the node's code cuts batches in this process. The time is processor time.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from bench.local_cluster import fresh_cluster
from bench.tables import options, show
from cluster.local.node_process import DevNode
from cluster.process_use import cpu_s
from ledger.batch import Batch, Codec, cut, encode
from ledger.hashing import tag_hash
from ledger.v1 import broker_pb2, broker_pb2_grpc
from ledgermq import Admin, AsyncProducer, OutgoingMessage

MESSAGES, MESSAGE_BYTES = 2_000, 512
COMMON_TAGS = 19
# Every so many messages one is rare: 20 of MESSAGES.
RARE_EVERY = 100
ROUNDS = 50
FETCH_BYTES = 1 << 20
CUTS = 200


@dataclass(frozen=True, slots=True)
class TagReadFigures:
    compression: str
    tag: str
    whole_kib: float
    cut_kib: float
    node_ms_whole: float
    node_ms_cut: float


@dataclass(frozen=True, slots=True)
class CutFigures:
    compression: str
    messages: int
    message_bytes: int
    wanted: int
    batch_kib: float
    cut_kib: float
    cut_us: float


def values(count: int, size: int) -> list[bytes]:
    """Return random values that compress about as JSON does."""
    chosen = random.Random(1)
    words = [bytes(chosen.choices(b"abcdefghijklmnopqrstuvwxyz", k=7)) + b" " for _ in range(300)]
    return [b"".join(chosen.choices(words, k=size // 8 + 1))[:size] for _ in range(count)]


def tags(count: int) -> list[str]:
    return ["rare" if number % RARE_EVERY == 0 else f"common-{number % COMMON_TAGS}" for number in range(count)]


# -- a node


def measure_readings(directory: Path) -> list[TagReadFigures]:
    with fresh_cluster(directory / "cluster", 1) as cluster:
        node = cluster.node(1)
        return [
            reading(node, compression, tag) for compression in (None, "lz4", "zstd") for tag in ("rare", "common-1")
        ]


def reading(node: DevNode, compression: str | None, tag: str) -> TagReadFigures:
    topic = f"tags-{compression}-{tag}"
    asyncio.run(filled(node.address, topic, compression))
    with Admin(node.address) as admin:
        topic_id = admin.describe_topic(topic).topic_id
    whole, cut_part = (received(node, topic_id, tag, cuts=cuts) for cuts in (False, True))
    return TagReadFigures(compression or "none", tag, whole[0] / 1024, cut_part[0] / 1024, whole[1], cut_part[1])


async def filled(address: str, topic: str, compression: str | None) -> None:
    """Send the messages to a new topic of one queue."""
    with Admin(address) as admin:
        admin.create_topic(topic, 1)
    async with AsyncProducer(address, compression=compression) as producer:
        messages = zip(values(MESSAGES, MESSAGE_BYTES), tags(MESSAGES), strict=True)
        await producer.send_many(topic, [OutgoingMessage(value, tag=tag) for value, tag in messages])


def received(node: DevNode, topic_id: int, tag: str, *, cuts: bool) -> tuple[int, float]:
    """Read the queue ROUNDS times. Return the bytes of one reading, and the node's processor time for it in ms."""
    assert node.pid is not None
    with grpc.insecure_channel(node.address, [("grpc.max_receive_message_length", -1)]) as channel:
        broker = broker_pb2_grpc.BrokerStub(channel)
        size = read_once(broker, topic_id, tag, cuts=cuts)
        before = cpu_s(node.pid)
        for _ in range(ROUNDS):
            read_once(broker, topic_id, tag, cuts=cuts)
        return size, (cpu_s(node.pid) - before) * 1000 / ROUNDS


def read_once(broker: broker_pb2_grpc.BrokerStub, topic_id: int, tag: str, *, cuts: bool) -> int:
    """Read the queue from its beginning to its end, and return the bytes of all responses."""
    offset = size = 0
    while offset < MESSAGES:
        asked = broker_pb2.QueueFetch(topic_id=topic_id, queue=0, offset=offset, tag_hashes=[tag_hash(tag)])
        request = broker_pb2.FetchRequest(queues=[asked], max_bytes=FETCH_BYTES, accepts_cut_batches=cuts)
        response = broker.Fetch(request)
        offset, size = response.queues[0].next_offset, size + response.ByteSize()
    return size


# -- in this process


def measure_cuts(_: Path) -> list[CutFigures]:
    return [
        cut_figures(codec, count, size, wanted)
        for codec in Codec
        for count, size in ((20, 128), (120, 512), (512, 128))
        for wanted in (1, count // 20, count // 2)
    ]


def cut_figures(codec: Codec, count: int, size: int, wanted: int) -> CutFigures:
    stored = encode(
        values(count, size),
        tags=tags(count),
        topic_id=1,
        queue=0,
        producer_id=1,
        epoch=0,
        first_sequence=0,
        base_timestamp_ms=0,
        codec=codec,
    )
    places = range(0, count, count // wanted)[:wanted]
    part = cut(Batch(stored), places)
    taken_us = best_us(lambda: cut(Batch(memoryview(stored)), places))
    return CutFigures(codec.name.lower(), count, size, wanted, len(stored) / 1024, len(part) / 1024, taken_us)


def best_us(work: Callable[[], object]) -> float:
    """Return the processor time of one call in microseconds, in the best of five rounds."""

    def taken() -> float:
        started = time.thread_time()
        for _ in range(CUTS):
            work()
        return (time.thread_time() - started) * 1e6 / CUTS

    return min(taken() for _ in range(5))


def main() -> None:
    given = options(__doc__).parse_args()
    show(
        {
            f"{MESSAGES:,} messages of {MESSAGE_BYTES} bytes, read with one tag": measure_readings(given.directory),
            "Cutting one batch": measure_cuts(given.directory),
        },
        as_json=given.json,
    )


if __name__ == "__main__":
    main()
