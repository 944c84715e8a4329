"""Opens the gRPC channels from this node to other nodes.

Everything that a node says to another node goes through a `Dialer`: the streams of Raft, introductions and entries for
a repair. So one object decides how the connection is protected, and proves which node this node is.
"""

from __future__ import annotations

from typing import Protocol

from grpc import aio

from raft.transport.node_proof import Metadata, NodeProofs
from raft.transport.streams import MAX_MESSAGE_BYTES, channel_options


class Dialer(Protocol):
    """An interface: opens channels to the other nodes of the cluster."""

    def channel(self, node: int, address: str, largest_answer: int = MAX_MESSAGE_BYTES) -> aio.Channel:
        """Return a new channel to `node` at "host:port", for answers of at most `largest_answer` bytes. The channel
        connects at the first call. The caller closes it."""

    async def prove(self, channel: aio.Channel, node: int) -> Metadata:
        """Prove to `node` which node this node is, and return the metadata for the next call on the channel. Raises
        UnprovenError or AioRpcError."""


class PlainDialer:
    """Opens channels without TLS. Without `proofs` this node proves nothing."""

    def __init__(self, proofs: NodeProofs | None = None) -> None:
        self._proofs = proofs

    async def prove(self, channel: aio.Channel, node: int) -> Metadata:
        return () if self._proofs is None else await self._proofs.prove(channel, node)

    def channel(self, node: int, address: str, largest_answer: int = MAX_MESSAGE_BYTES) -> aio.Channel:
        return aio.insecure_channel(address, options=channel_options(largest_answer))
