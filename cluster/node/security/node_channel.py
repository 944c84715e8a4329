"""The channels by which a node calls the client services of other nodes, for example to open a topic in another shard.

The calls prove which node the caller is. A client finds the other nodes by their addresses; the number of a node is
looked up, because the proof names the receiver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from grpc import aio

from ledger.client.connection.channels import NodeStub
from ledger.client.connection.session import Metadata, ProvenChannel
from ledger.errors import UnavailableError
from raft.transport.dialing import Dialer
from raft.transport.node_proof import UnprovenError


class NodeChannel:
    """Implements `ledger.client.connection.channels.Channel`."""

    def __init__(
        self, dialer: Dialer, addresses: Callable[[], Mapping[int, str]], address: str, client_id: str | None
    ) -> None:
        """`addresses()` returns the address of each node."""
        node = next((node for node, known in addresses().items() if known == address), 0)
        self._channel = dialer.channel(node, address)
        self.stub = NodeStub(ProvenChannel(self._channel, _NodeSession(dialer, self._channel, node)))

    async def close(self) -> None:
        await self._channel.close(None)


class _NodeSession:
    """Proves each call anew."""

    def __init__(self, dialer: Dialer, channel: aio.Channel, node: int) -> None:
        self._dialer = dialer
        self._channel = channel
        self._node = node

    async def metadata(self) -> Metadata:
        try:
            return await self._dialer.prove(self._channel, self._node)
        except UnprovenError as error:
            raise UnavailableError(str(error)) from error

    def ended(self, metadata: Metadata) -> None:
        """Nothing is kept."""
