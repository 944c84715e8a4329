"""The connection of a process to a cluster. Each call of the connection blocks the calling thread until the result is
there. Internally, the connection uses the asyncio client.

Spark forks its Python workers and reuses them, and a gRPC channel does not work after a fork. For this reason, a
process opens its connection when it first needs one. Connections are kept by process id and must not be pickled.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Coroutine, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from ledger.client.admin.members_admin import MembersAdmin
from ledger.client.admin.offsets import list_offsets, offsets_for_times
from ledger.client.connection.channels import NodeStub
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.environment import PROCESS, cluster_of
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.connection.routes import topic_of
from ledger.client.connection.security import SecurityOptions
from ledger.client.records import QueueOffsets, TopicQueue
from ledger.client.sync.loop_thread import LoopThread
from ledger.errors import (
    CorruptBatchError,
    InvalidArgumentError,
    LedgerError,
    ReplicaBehindError,
    StorageFailedError,
    UnavailableError,
)
from ledger.spark.source.ranges import OffsetRange
from ledger.topics import TOPICS_SHARD, is_system_topic
from ledger.v1 import broker_pb2

T = TypeVar("T")

REQUEST_TIMEOUT_MS = 30_000
# The size of one answer.
FETCH_BYTES = 4 << 20
# How long a replica that lags may wait for the wanted messages.
_WAIT_MS = 500

_open: dict[tuple[int, tuple[str, ...]], SparkConnection] = {}


def connection_to(servers: tuple[str, ...]) -> SparkConnection:
    """Return this process's connection to the cluster at `servers`, which is opened at first use.

    Raises UnavailableError if no node answers, and InvalidArgumentError if the security settings cannot be used.
    """
    here = (os.getpid(), servers)
    for stale in [key for key in _open if key[0] != here[0]]:
        del _open[stale]  # a connection of the parent process, whose thread does not exist after the fork
    if here not in _open:
        _open[here] = SparkConnection(servers)
    return _open[here]


def _security() -> SecurityOptions:
    """Return the security arguments of this process's clients, which otherwise take the variables of the process.

    Spark gives the driver's planning processes the variables of the driver and those of the executors. So a process
    may have the user of the driver and the token of the executors; the token counts.
    """
    token = os.environ.get("LEDGERMQ_TOKEN")
    return {"token": token} if token else {}


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to one fetch, and the number of the node that answered (0: not known)."""

    node: int
    queue: broker_pb2.FetchedQueue


class SparkConnection:
    """A connection to a cluster, made by `connection_to`."""

    def __init__(self, servers: tuple[str, ...]) -> None:
        self.servers = servers
        addresses, environment = cluster_of(PROCESS, servers, _security())
        self.client = ClusterClient(
            addresses,
            client_id="ledgermq-spark",
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=20,
            rng=random.Random(),
            environment=environment,
        )
        self._thread = LoopThread("ledgermq-spark")
        try:
            self.run(self.client.start())
        except BaseException as error:
            self._thread.close()
            if not isinstance(error, UnavailableError):
                raise
            raise UnavailableError(f'The option "bootstrap.servers" is "{",".join(servers)}": {error}') from error

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the connection's event loop and return its result."""
        return self._thread.run(work)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` on the connection's event loop and return its future."""
        return self._thread.submit(work)

    @property
    def max_message_bytes(self) -> int:
        return self.client.routes.table.max_message_bytes

    # -- topics, offsets and members

    def topics(self, names: Iterable[str]) -> list[RoutedTopic]:
        """Return the present descriptions of the topics `names`, as shard 0's leader reports them. Raises
        UnknownTopicError."""

        async def ask() -> list[RoutedTopic]:
            return [await self.client.topic(name, newest=True) for name in names]

        return self.run(ask())

    def topics_like(self, pattern: str) -> list[RoutedTopic]:
        """Return the topics whose whole name matches the regular expression, sorted by name, without system topics."""
        request = broker_pb2.GetRouteRequest(linearizable=True)
        response = self.run(self.client.call(TOPICS_SHARD, lambda stub, s: stub.GetRoute(request, timeout=s)))
        fits = re.compile(pattern).fullmatch
        names = [topic for topic in response.topics if fits(topic.name) and not is_system_topic(topic.name)]
        return sorted(map(topic_of, names), key=lambda topic: topic.name)

    def offsets(self, topic: RoutedTopic, queues: Sequence[int]) -> dict[int, QueueOffsets]:
        """Return the first and end offsets of `queues`; the end offset counts committed messages only."""
        return self.run(list_offsets(self.client, topic, queues)) if queues else {}

    def offsets_at(self, times: dict[TopicQueue, int]) -> dict[TopicQueue, int]:
        """Return for each queue the offset of the first message appended at the given time (ms since 1970) or later.
        If a queue has no message of the given time or later, the result is the queue's end offset.
        """
        return self.run(offsets_for_times(self.client, times))

    def members(self, shard: int) -> tuple[int, ...]:
        """Return the numbers of the nodes that have a replica of this shard, in ascending order."""
        members = self.run(MembersAdmin(self.client, shard).members(None)).members
        return tuple(sorted(member.node for member in members))

    # -- messages

    def fetch(
        self, wanted: OffsetRange, offset: int, node: int | None, tag_hashes: Sequence[int], timeout_ms: float
    ) -> Future[Fetched]:
        """Fetch batches of the range from `offset` on, from this node or, if `node` is None, from the shard's leader.

        The fetch is repeated after retriable errors until the timeout.
        """
        request = broker_pb2.FetchRequest(
            queues=[
                broker_pb2.QueueFetch(
                    topic_id=wanted.topic_id, queue=wanted.queue, offset=offset, tag_hashes=tag_hashes
                )
            ],
            max_wait_ms=_WAIT_MS,
            max_bytes=FETCH_BYTES,
            accepts_cut_batches=True,
        )
        return self.submit(self._fetch(wanted.shard, request, node, timeout_ms))

    async def _fetch(
        self, shard: int, request: broker_pb2.FetchRequest, node: int | None, timeout_ms: float
    ) -> Fetched:
        asked, offset = node or 0, request.queues[0].offset

        async def ask(stub: NodeStub, seconds: float) -> broker_pb2.FetchedQueue:
            nonlocal asked
            response = await stub.Fetch(request, timeout=seconds)
            asked = node or self._node_of(stub)
            queue: broker_pb2.FetchedQueue = response.queues[0]
            if queue.next_offset <= offset and not queue.HasField("error"):
                raise ReplicaBehindError(f"Node {asked} does not have offset {offset} yet: try again.")
            return queue

        queue = await self.client.call(shard, ask, node=node, timeout_ms=timeout_ms)
        return Fetched(asked, queue)

    def _node_of(self, stub: NodeStub) -> int:
        connections = self.client.connections
        nodes = self.client.routes.table.nodes
        return next((node for node, address in nodes.items() if connections.stub(address) is stub), 0)


def retries_elsewhere(error: LedgerError) -> bool:
    """Return whether another replica may have the messages that the asked replica could not return."""
    return error.retriable or isinstance(error, (StorageFailedError, CorruptBatchError, InvalidArgumentError))
