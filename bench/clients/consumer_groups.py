"""Measures how fast consumer groups consume: in comparison with plain consumers, and with 200 consumer groups on one
topic.

    .venv/bin/python -m bench.clients.consumer_groups [--mib 512] [--rounds 5] [--consumer-groups 200] [--ways push]

The script starts three new nodes on this machine and uses one client. The script fills one topic with messages of 128
B and another topic with messages of 1 KiB. The script consumes each topic from its beginning several times: with a
plain consumer and with a new consumer group in turn. The clock of a group stops when the group's last offset is
committed. For the figures named *pull*, the consumers call `getmany`. For the figures named *push*, the consumer group
calls a listener that does nothing. In the comparison with *push*, a loop around the plain consumer calls the same
listener for each message. `of_plain` is the rate of the consumer group divided by the rate of the plain consumer, as
the median of all rounds.

In the second part of the measurement, one consumer group consumes a whole topic; afterwards 200 groups with one member
each consume the same topic. The 200 members start one after another and then consume at the same time. The clock
starts when the first member starts. The first figure is the messages per second of all groups together. The second
figure is the CPU seconds of the client and the nodes for each million messages. The third figure is the lag of the
consumer groups, in messages, at the end of the measurement.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.tables import options, show
from cluster.grpc_engine import prefer_older_engine

prefer_older_engine()  # before anything imports grpc

from bench.local_cluster import fresh_cluster  # noqa: E402
from cluster.load.topics import fill_topic  # noqa: E402
from cluster.local.processes import DevCluster  # noqa: E402
from cluster.process_use import cpu_s  # noqa: E402
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncGroupConsumer, AsyncPushConsumer, Message  # noqa: E402

NODES = 3
QUEUES = 4
CROWD_MESSAGES = 4_096
CALL_MESSAGES = 16_384
# The largest number of messages of one `getmany` call.
AT_ONCE = 5_000
# The same limit when many members share one event loop. It is smaller, so that each member gets its turn.
CROWD_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ConsumptionFigures:
    """The result of one comparison: each figure is the median of all rounds. All rates are in messages per second."""

    message_bytes: int
    way: str
    plain_per_s: float
    group_per_s: float
    of_plain: float


@dataclass(frozen=True, slots=True)
class CrowdFigures:
    consumer_groups: int
    # The number of messages that all groups together consumed.
    messages: int
    seconds: float
    per_s: float
    client_cpu_s_per_million: float
    nodes_cpu_s_per_million: float
    lag: int


class Bench:
    def __init__(self, cluster: DevCluster, prefix: str) -> None:
        self._cluster = cluster
        self._prefix = prefix
        self._groups = 0

    async def fill(self, topic: str, count: int, message_bytes: int) -> None:
        each = min(count, CALL_MESSAGES)
        await fill_topic(
            self._cluster.bootstrap, topic, QUEUES, calls=count // each, call_messages=each, message_bytes=message_bytes
        )

    def new_group(self) -> str:
        self._groups += 1
        return f"{self._prefix}-{self._groups}"

    # -- each method returns how many seconds it took to consume `count` messages

    async def plain_pull(self, topic: str, count: int) -> float:
        async with AsyncConsumer(topic, bootstrap_servers=self._cluster.bootstrap, start="earliest") as consumer:
            started, got = time.perf_counter(), 0
            while got < count:
                got += len(await consumer.getmany(AT_ONCE))
            return time.perf_counter() - started

    async def group_pull(self, topic: str, count: int) -> float:
        async with self.new_member(topic, self.new_group()) as consumer:
            started = time.perf_counter()
            await consume(consumer, count)
            return time.perf_counter() - started

    def new_member(self, topic: str, group: str) -> AsyncGroupConsumer:
        return AsyncGroupConsumer(topic, group=group, bootstrap_servers=self._cluster.bootstrap, max_attempts=1)

    async def plain_loop(self, topic: str, count: int) -> float:
        listener = CountingListener(count)
        async with AsyncConsumer(topic, bootstrap_servers=self._cluster.bootstrap, start="earliest") as consumer:
            started = time.perf_counter()
            while not listener.done.is_set():
                for message in await consumer.getmany(AT_ONCE):
                    await listener(message)
            return time.perf_counter() - started

    async def group_push(self, topic: str, count: int, *, orderly: bool = False) -> float:
        listener = CountingListener(count)
        consumer = AsyncPushConsumer(
            topic,
            listener=listener,
            orderly=orderly,
            group=self.new_group(),
            bootstrap_servers=self._cluster.bootstrap,
        )
        async with consumer:
            started = time.perf_counter()
            await listener.done.wait()
            await asyncio.sleep(0)  # the listener returns from its last call
            await consumer._consumer.acknowledge()
            return time.perf_counter() - started

    async def group_push_orderly(self, topic: str, count: int) -> float:
        return await self.group_push(topic, count, orderly=True)


async def consume(consumer: AsyncGroupConsumer, count: int, at_once: int = AT_ONCE) -> None:
    """Consume `count` messages and acknowledge the last message."""
    got = 0
    while got < count:
        messages = await consumer.getmany(at_once)
        got += len(messages)
    consumer.finish(*messages)
    await consumer.acknowledge()


class CountingListener:
    def __init__(self, count: int) -> None:
        self.done = asyncio.Event()
        self._left = count

    async def __call__(self, message: Message) -> None:
        self._left -= 1
        if not self._left:
            self.done.set()


Way = Callable[[str, int], Awaitable[float]]
WAYS, SIZES = ("pull", "push", "push, orderly"), (128, 1024)


@dataclass(frozen=True, slots=True)
class ComparedShares:
    """What to compare with plain consumers: the size of each topic, how often, which ways, and with which messages."""

    total_bytes: int
    rounds: int
    ways: Sequence[str]
    sizes: Sequence[int]


async def measure_shares(cluster: DevCluster, given: ComparedShares) -> list[ConsumptionFigures]:
    bench, rows, rounds = Bench(cluster, "share"), [], given.rounds
    ways: dict[str, tuple[Way, Way]] = {
        "pull": (bench.plain_pull, bench.group_pull),
        "push": (bench.plain_loop, bench.group_push),
        "push, orderly": (bench.plain_loop, bench.group_push_orderly),
    }
    for message_bytes in given.sizes:
        topic, count = f"of-{message_bytes}", given.total_bytes // message_bytes // CALL_MESSAGES * CALL_MESSAGES
        await bench.fill(topic, count, message_bytes)
        for way in given.ways:
            without, through = ways[way]
            await without(topic, count)
            pairs = [(await without(topic, count), await through(topic, count)) for _ in range(rounds)]
            plain, group = (statistics.median(count / took for took in column) for column in zip(*pairs, strict=True))
            ratio = statistics.median(without_s / through_s for without_s, through_s in pairs)
            rows.append(ConsumptionFigures(message_bytes, way, plain, group, ratio))
    return rows


async def measure_crowds(cluster: DevCluster, many: int) -> list[CrowdFigures]:
    bench = Bench(cluster, "crowd")
    await bench.fill("crowded", CROWD_MESSAGES, 128)
    return [await measure_crowd(cluster, bench, CROWD_MESSAGES, size) for size in (1, many)]


async def measure_crowd(cluster: DevCluster, bench: Bench, count: int, size: int) -> CrowdFigures:
    groups = [bench.new_group() for _ in range(size)]
    pids = [cluster.node(node).pid for node in range(1, NODES + 1)]
    client, nodes, started = time.process_time(), sum(map(cpu_s, pids)), time.perf_counter()
    members = [bench.new_member("crowded", group) for group in groups]
    for member in members:
        await member.start()
    await asyncio.gather(*(consume(member, count, CROWD_AT_ONCE) for member in members))
    seconds = time.perf_counter() - started
    client, nodes = time.process_time() - client, sum(map(cpu_s, pids)) - nodes
    async with AsyncAdmin(cluster.bootstrap) as admin:
        listed = {each.name: each for each in await admin.list_consumer_groups()}
    await asyncio.gather(*(member.stop() for member in members))
    millions = count * size / 1e6
    lag = sum(listed[group].lag for group in groups)
    return CrowdFigures(size, count * size, seconds, count * size / seconds, client / millions, nodes / millions, lag)


async def measure(cluster: DevCluster, compared: ComparedShares, many: int, *, as_json: bool) -> None:
    if compared.rounds:
        show({"Through consumer groups": await measure_shares(cluster, compared)}, as_json=as_json)
    if many:
        show({"Consumer groups on one topic": await measure_crowds(cluster, many)}, as_json=as_json)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--mib", type=int, default=512, help="size of the topics")
    parser.add_argument("--rounds", type=int, default=5, help="0: without that part")
    parser.add_argument("--consumer-groups", type=int, default=200, help="0: without that part")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="only these ways")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="bytes of a message (default: %(default)s)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as name, fresh_cluster(Path(name) / "data", NODES) as cluster:
        compared = ComparedShares(given.mib << 20, given.rounds, given.ways, given.sizes)
        work = measure(cluster, compared, given.consumer_groups, as_json=given.json)
        uvloop.run(work)


if __name__ == "__main__":
    main()
