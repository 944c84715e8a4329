"""The produce streams of producers: one for each leader's address and shard, because answers on a stream come in order,
and no shard must wait for another.

Producers with one link share streams for small batches, so the batches of all these producers that become ready in the
same turn of the event loop go in one request. Large batches of a producer have streams and connections of their own.
Otherwise they would delay the small batches of the other producers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic

from ledger.client.connection.channels import Connections
from ledger.client.connection.cluster_link import ClusterLink
from ledger.client.connection.routes import Routes
from ledger.client.producer.produce_stream import B, ProduceStream, Q
from ledger.client.producer.producer_batch import ProducerBatch
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.errors import RequestTimeoutError

# How long an answer may take before the client asks for the present leader.
_STALL_SECONDS = 1.5


class ProduceStreams(Generic[Q, B]):
    """Opens and keeps streams over some connections."""

    def __init__(self, connections: Connections, on_configuration: Callable[[int], None]) -> None:
        """`on_configuration` is called with the index of a node's configuration, with each response."""
        self._connections = connections
        self._on_configuration = on_configuration
        self._streams: dict[tuple[str, int], ProduceStream[Q, B]] = {}

    def to(self, address: str, shard: int) -> ProduceStream[Q, B]:
        """Return the stream to the node at this address for the batches of this shard. It is opened if there is none,
        or if the last one broke."""
        stream = self._streams.get((address, shard))
        if stream is None or stream.broken:
            stub = self._connections.stub(address)
            stream = ProduceStream[Q, B](address, stub, self._on_configuration)
            self._streams[address, shard] = stream
        return stream

    def all(self) -> list[tuple[int, ProduceStream[Q, B]]]:
        """Return each stream after the number of its shard."""
        return [(shard, stream) for (_, shard), stream in self._streams.items()]

    def end_stalled(self, routes: Routes, request_timeout_ms: float) -> None:
        """Look for streams with a request that has no answer after 1.5 s. For such a stream, ask all nodes for the
        present leader. If another node leads the shard, or if the request timeout has passed, end the stream."""
        for shard, stream in self.all():
            waited = stream.waited()
            if waited < _STALL_SECONDS:
                continue
            leads = routes.table.leader_address(shard) == stream.address
            if not leads or waited * 1000 >= request_timeout_ms:
                stream.breaks(RequestTimeoutError(f"Node {stream.address} did not answer within {waited:.1f} s."))
            else:
                routes.refresh_soon()

    async def close(self) -> None:
        """End all streams. Their batches are returned to their producers. Later calls of `to` open new streams."""
        ended, self._streams = self._streams, {}
        await asyncio.gather(*(stream.close() for stream in ended.values()))


class SharedStreams(ProduceStreams[QueueSequencer, ProducerBatch]):
    """The streams that the producers of one link share (`ClusterLink.part`)."""

    def __init__(self, link: ClusterLink) -> None:
        super().__init__(link.connections, link.routes.heard_of)
        self._users = 0

    def join(self) -> None:
        """Add a user, which calls `leave` once."""
        self._users += 1

    async def leave(self) -> None:
        """Remove a user, which has withdrawn its batches. The last one closes the streams."""
        self._users -= 1
        if not self._users:
            await self.close()
