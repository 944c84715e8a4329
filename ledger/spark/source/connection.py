"""A process's connection to a cluster: blocking calls over the asyncio client.

Spark's Python workers are forked and used again, and a gRPC channel does not live through a fork; so a connection is
made where it is first needed, and belongs to that process id. Whoever pickles one has made a mistake.
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
from ledger.client.connection.environment import PROCESS
from ledger.client.connection.route_table import Topic
from ledger.client.connection.routes import topic_of
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
from ledger.spark.source.ranges import Range
from ledger.topics import TOPICS_SHARD, is_system_topic
from ledger.v1 import broker_pb2

T = TypeVar("T")

REQUEST_TIMEOUT_MS = 30_000
FETCH_BYTES = 4 << 20
"""Of one answer."""
_WAIT_MS = 500
"""How long a replica that is behind is asked to wait."""

_open: dict[tuple[int, tuple[str, ...]], Connection] = {}


def connection_to(servers: tuple[str, ...]) -> Connection:
    """The one of this process; made, and connected, at its first use. UnavailableError where no node answers."""
    here = (os.getpid(), servers)
    for stale in [key for key in _open if key[0] != here[0]]:
        del _open[stale]  # of the process that this one was forked from: its thread is not here
    if here not in _open:
        _open[here] = Connection(servers)
    return _open[here]


@dataclass(frozen=True, slots=True)
class Fetched:
    """One answer, and the node that gave it (0: not known)."""

    node: int
    queue: broker_pb2.FetchedQueue


class Connection:
    """See `connection_to`."""

    def __init__(self, servers: tuple[str, ...]) -> None:
        self.servers = servers
        self.client = ClusterClient(
            servers,
            client_id="ledgermq-spark",
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=20,
            rng=random.Random(),
            environment=PROCESS,
        )
        self._thread = LoopThread("ledgermq-spark")
        try:
            self.run(self.client.start())
        except UnavailableError as error:
            self._thread.close()
            raise UnavailableError(f'The option "bootstrap.servers" is "{",".join(servers)}": {error}') from error

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on the connection's loop, and wait."""
        return self._thread.run(work)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run it there, and go on here."""
        return self._thread.submit(work)

    @property
    def max_message_bytes(self) -> int:
        return self.client.routes.table.max_message_bytes

    # -- what there is

    def topics(self, names: Iterable[str]) -> list[Topic]:
        """As the leader knows them at this moment. UnknownTopicError where one is not there."""

        async def ask() -> list[Topic]:
            return [await self.client.topic(name, newest=True) for name in names]

        return self.run(ask())

    def topics_like(self, pattern: str) -> list[Topic]:
        """Those whose whole name the regular expression fits, by name; none of the broker's own."""
        request = broker_pb2.GetRouteRequest(linearizable=True)
        response = self.run(self.client.call(TOPICS_SHARD, lambda stub, s: stub.GetRoute(request, timeout=s)))
        fits = re.compile(pattern).fullmatch
        names = [topic for topic in response.topics if fits(topic.name) and not is_system_topic(topic.name)]
        return sorted(map(topic_of, names), key=lambda topic: topic.name)

    def offsets(self, topic: Topic, queues: Sequence[int]) -> dict[int, QueueOffsets]:
        """What is committed of these queues."""
        return self.run(list_offsets(self.client, topic, queues)) if queues else {}

    def offsets_at(self, times: dict[TopicQueue, int]) -> dict[TopicQueue, int]:
        """Of the first message that was appended at that time (ms since 1970) or later; the end where none was."""
        return self.run(offsets_for_times(self.client, times))

    def members(self, shard: int) -> tuple[int, ...]:
        """The nodes that have a replica of this shard."""
        members = self.run(MembersAdmin(self.client, shard).members(None)).members
        return tuple(sorted(member.node for member in members))

    # -- messages

    def fetch(
        self, wanted: Range, offset: int, node: int | None, tag_hashes: Sequence[int], timeout_ms: float
    ) -> Future[Fetched]:
        """Batches of that range from `offset` on, by this node or (None) by the leader; asked again until the timeout
        while the error is one that passes."""
        request = broker_pb2.FetchRequest(
            queues=[
                broker_pb2.QueueFetch(
                    topic_id=wanted.topic_id, queue=wanted.queue, offset=offset, tag_hashes=tag_hashes
                )
            ],
            max_wait_ms=_WAIT_MS,
            max_bytes=FETCH_BYTES,
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
                raise ReplicaBehindError(f"Node {asked} has not come to offset {offset} yet.")
            return queue

        queue = await self.client.call(shard, ask, node=node, timeout_ms=timeout_ms)
        return Fetched(asked, queue)

    def _node_of(self, stub: NodeStub) -> int:
        connections = self.client.connections
        nodes = self.client.routes.table.nodes
        return next((node for node, address in nodes.items() if connections.stub(address) is stub), 0)


def retries_elsewhere(error: LedgerError) -> bool:
    """Whether another replica may give what this one did not."""
    return error.retriable or isinstance(error, (StorageFailedError, CorruptBatchError, InvalidArgumentError))
