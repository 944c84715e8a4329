"""The produce streams of producers: one for each leader's address and shard, because answers on a stream come in order,
and no shard must wait for another.

Producers with one link share streams for small batches, so the batches of all these producers that become ready in the
same turn of the event loop go in one request. Large batches of a producer have streams and connections of their own.
Otherwise they would delay the small batches of the other producers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ledger.client.connection.channels import Connections
from ledger.client.connection.cluster_link import ClusterLink
from ledger.client.producer.produce_stream import ProduceStream


class ProduceStreams:
    """Opens and keeps streams over some connections."""

    def __init__(self, connections: Connections, on_configuration: Callable[[int], None]) -> None:
        """`on_configuration` is called with the index of a node's configuration, with each response."""
        self._connections = connections
        self._on_configuration = on_configuration
        self._streams: dict[tuple[str, int], ProduceStream] = {}

    def to(self, address: str, shard: int) -> ProduceStream:
        """Return the stream to the node at this address for the batches of this shard. It is opened if there is none,
        or if the last one broke."""
        stream = self._streams.get((address, shard))
        if stream is None or stream.broken:
            stub = self._connections.stub(address)
            stream = self._streams[address, shard] = ProduceStream(address, stub, self._on_configuration)
        return stream

    def all(self) -> list[tuple[int, ProduceStream]]:
        """Return each stream after the number of its shard."""
        return [(shard, stream) for (_, shard), stream in self._streams.items()]

    async def close(self) -> None:
        """End all streams. Their batches are returned to their producers. Later calls of `to` open new streams."""
        ended, self._streams = self._streams, {}
        await asyncio.gather(*(stream.close() for stream in ended.values()))


class SharedStreams(ProduceStreams):
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
