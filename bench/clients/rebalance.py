"""Measures rebalances of consumer groups: 1,000 members join one group at once, and 100 consumers share 1,000 queues.

    .venv/bin/python -m bench.clients.rebalance [--shards 1] [--members 1000] [--consumers 100] [--queues 1000]
                                                [--rounds 3]

The script starts three new nodes on this machine. In the first part of the measurement, all members join one group at
once. A member is a `GroupMember` that consumes nothing, and all members share one client. The script measures the time
until each member has its final assignment. After more than one session timeout, the script checks that all members are
still in the group, and that no shard has elected a new leader.

In the second part of the measurement, several consumers share the queues of a topic; each consumer is a complete
`AsyncGroupConsumer`. When the queues are assigned, one consumer leaves the group, one consumer joins, and one consumer
dies. After each change, the script measures the time until every queue has been claimed by its new owner. For the
consumer that dies, the measured time begins when its session ends. `longest_ms` is the longest time that a node needed
to answer a probe request. A separate process sends a probe request every 10 ms. `longest_ms` therefore shows how long
a node's event loop was blocked, or how long other processes kept the processor busy.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop

from bench.tables import options, show
from cluster.grpc_engine import prefer_older_engine

prefer_older_engine()  # before anything imports grpc

import grpc  # noqa: E402

from bench.local_cluster import fresh_cluster  # noqa: E402
from cluster.local.launcher import Launcher  # noqa: E402
from ledger.client.connection.cluster_client import ClusterClient  # noqa: E402
from ledger.client.connection.environment import PROCESS  # noqa: E402
from ledger.client.group.group_membership import GroupMember, MemberSettings, View  # noqa: E402
from ledger.client.records import TopicQueue  # noqa: E402
from ledger.v1 import broker_pb2, broker_pb2_grpc  # noqa: E402
from ledgermq import AsyncAdmin, AsyncGroupConsumer  # noqa: E402

NODES = 3
TOPIC = "rebalance"
SESSION_MS = 10_000
# The session of the consumers, short so that a dead consumer is soon removed.
DYING_SESSION_MS = 3_000
PROBE_S = 0.01
POLL_S = 0.02
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class JoinFigures:
    members: int
    queues: int
    # The seconds from the first request until each member has its final assignment.
    stable_s: float
    # The number of assignments that the members received until then.
    views: int
    # The number of members that the group has lost after one and a half sessions.
    lost: int
    elections: int
    longest_ms: float


@dataclass(frozen=True, slots=True)
class RebalanceFigures:
    event: str
    consumers: int
    queues: int
    moved: int
    # The seconds from the event until the new owner has claimed each queue.
    claimed_s: float
    longest_ms: float


# -- a thousand members


async def measure_joining(cluster: Launcher, admin: AsyncAdmin, count: int, queues: int) -> JoinFigures:
    client = ClusterClient(
        cluster.bootstrap,
        client_id="bench",
        request_timeout_ms=30_000,
        retry_backoff_ms=20,
        rng=random.Random(1),
        environment=PROCESS,
    )
    await client.start()
    members = [_Member(client, number) for number in range(count)]
    terms = _terms(cluster)
    with probed(cluster) as longest_ms:
        started = time.perf_counter()
        tasks = [asyncio.create_task(member.take_part()) for member in members]
        await _until(
            lambda: _is_dealt([list(member.view) for member in members], queues), f"{count} members have queues"
        )
        stable = max(member.told_at for member in members) - started
        views = sum(member.views for member in members)
        await asyncio.sleep(SESSION_MS * 1.5 / 1000)
    present = len((await admin.describe_consumer_group("thousand")).members)
    elections = _terms(cluster) - terms
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, *(member.leave() for member in members), return_exceptions=True)
    await client.close()
    return JoinFigures(count, queues, stable, views, count - present, elections, longest_ms())


class _Member:
    def __init__(self, client: ClusterClient, number: int) -> None:
        settings = MemberSettings("thousand", f"member-{number:04}", "bench", "average", "", SESSION_MS)
        self._member = GroupMember(client, settings, [TOPIC])
        self.leave = self._member.leave
        self.view: View = {}
        self.views = 0
        self.told_at = 0.0

    async def take_part(self) -> None:
        await self._member.join()
        async with asyncio.TaskGroup() as tasks:
            await self._member.run(lambda view: self._seen(view, tasks), lambda: 0)  # this member reads no messages

    def _seen(self, view: View, tasks: asyncio.TaskGroup) -> None:
        self.view, self.views, self.told_at = view, self.views + 1, time.perf_counter()
        if leaving := [(place, owned) for place, owned in view.items() if owned.is_leaving]:
            tasks.create_task(self._member.release(leaving))


# -- a hundred consumers


async def measure_rebalances(cluster: Launcher, count: int, queues: int, rounds: int) -> list[RebalanceFigures]:
    consumers = [_consumer(cluster) for _ in range(count)]
    await asyncio.gather(*(consumer.start() for consumer in consumers))
    await _until(lambda: _is_claimed(consumers, queues), "the consumers have claimed all queues")
    rows = []
    for _ in range(rounds):
        await asyncio.sleep(2)
        leaver = consumers.pop(random.randrange(len(consumers)))
        rows.append(await _rebalance(cluster, "one leaves", consumers, queues, leaver.stop))
        await asyncio.sleep(2)
        consumers.append(_consumer(cluster))
        rows.append(await _rebalance(cluster, "one comes", consumers, queues, consumers[-1].start))
        await asyncio.sleep(2)
        dying = consumers.pop(random.randrange(len(consumers)))
        died = await _rebalance(
            cluster, "one dies", consumers, queues, partial(_die, dying), less_s=DYING_SESSION_MS / 1000
        )
        rows.append(died)
        consumers.append(_consumer(cluster))
        await consumers[-1].start()
        await _until(lambda: _is_claimed(consumers, queues), "all queues are claimed again")
    await asyncio.gather(*(consumer.stop() for consumer in consumers))
    return rows


async def _rebalance(
    cluster: Launcher,
    event: str,
    consumers: list[AsyncGroupConsumer],
    queues: int,
    happens: Callable[[], Awaitable[None]],
    *,
    less_s: float = 0.0,
) -> RebalanceFigures:
    before = _owners(consumers)
    with probed(cluster) as longest_ms:
        started = time.perf_counter()
        happening = asyncio.ensure_future(happens())
        await _until(lambda: _is_claimed(consumers, queues), f"{event}: all queues are claimed")
        passed = time.perf_counter() - started
    await happening
    after = _owners(consumers)
    moved = sum(before.get(place) is not after[place] for place in after)
    return RebalanceFigures(event, len(consumers), queues, moved, passed - less_s, longest_ms())


def _consumer(cluster: Launcher) -> AsyncGroupConsumer:
    return AsyncGroupConsumer(
        TOPIC,
        group="hundred",
        bootstrap_servers=cluster.bootstrap,
        max_attempts=1,
        session_timeout_ms=DYING_SESSION_MS,
        max_wait_ms=5_000,
    )


async def _die(consumer: AsyncGroupConsumer) -> None:
    """End the consumer without a request to the cluster, as if its process were killed."""
    for task in consumer._tasks:
        task.cancel()
    await asyncio.gather(*consumer._tasks, return_exceptions=True)
    await consumer._assigned_queues.close()
    await consumer._client.close()


def _owners(consumers: list[AsyncGroupConsumer]) -> dict[TopicQueue, AsyncGroupConsumer]:
    return {place: consumer for consumer in consumers for place in consumer.assignment}


def _is_claimed(consumers: list[AsyncGroupConsumer], queues: int) -> bool:
    return _is_dealt([consumer.assignment for consumer in consumers], queues)


def _is_dealt(shares: list[list[TopicQueue]], queues: int) -> bool:
    """Return True if each queue has exactly one owner and the numbers of queues of any two owners differ by at most
    one."""
    counts = list(map(len, shares))
    if sum(counts) != queues or max(counts) - min(counts) > 1:
        return False
    return len({place for share in shares for place in share}) == queues


async def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.perf_counter() + PATIENCE_S
    while not holds():
        if time.perf_counter() > deadline:
            raise SystemExit(f"not reached within {PATIENCE_S:.0f} s: {what}")
        await asyncio.sleep(POLL_S)


def _terms(cluster: Launcher) -> int:
    return sum(state.term for state in cluster.status())


# -- how long a node does not answer


@contextmanager
def probed(cluster: Launcher) -> Iterator[Callable[[], float]]:
    """Send probe requests to the nodes while the body of the `with` block runs. After the block, the yielded
    function returns the longest response time in ms."""
    ours, theirs = multiprocessing.Pipe()
    prober = multiprocessing.get_context("spawn").Process(target=_probe, args=(cluster.bootstrap.split(","), theirs))
    prober.start()
    longest: list[float] = []
    ours.recv()
    try:
        yield lambda: longest[0]
    finally:
        ours.send("enough")
        longest.append(ours.recv())
        prober.join()


def _probe(addresses: list[str], pipe: Connection) -> None:
    stubs = [broker_pb2_grpc.BrokerStub(grpc.insecure_channel(address)) for address in addresses]
    request = broker_pb2.GetStatusRequest()
    for stub in stubs:
        stub.GetStatus(request)
    pipe.send("ready")
    longest = 0.0
    while not pipe.poll(PROBE_S):
        for stub in stubs:
            started = time.perf_counter()
            stub.GetStatus(request)
            longest = max(longest, time.perf_counter() - started)
    pipe.send(longest * 1000)


async def measure(cluster: Launcher, members: int, consumers: int, queues: int, rounds: int) -> dict[str, list[object]]:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        await admin.create_topic(TOPIC, queues)
        joining = [await measure_joining(cluster, admin, members, queues)]
    rebalances = await measure_rebalances(cluster, consumers, queues, rounds)
    return {"Members that join at once": [*joining], "Rebalances": [*rebalances]}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--shards", type=int, default=1, help="shards of the cluster")
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--consumers", type=int, default=100)
    parser.add_argument("--queues", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=given.directory) as name,
        fresh_cluster(Path(name) / "data", NODES, shards=given.shards) as cluster,
    ):
        rows = uvloop.run(measure(cluster, given.members, given.consumers, given.queues, given.rounds))
    show(rows, as_json=given.json)


if __name__ == "__main__":
    main()
