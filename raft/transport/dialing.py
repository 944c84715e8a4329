"""Opens the gRPC channels from this node to other nodes.

Everything that a node says to another node goes through a `Dialer`: the streams of Raft, introductions, entries for a
repair, and the opening of topics. So one object decides how the connection is protected, and how this node proves
which node it is.
"""

from __future__ import annotations

from typing import Protocol

from grpc import aio

from raft.transport.streams import CHANNEL_OPTIONS


class Dialer(Protocol):
    """An interface: opens channels to the other nodes of the cluster."""

    def channel(self, node: int, address: str) -> aio.Channel:
        """Return a new channel to `node` at "host:port". The channel connects at the first call. The caller closes
        it."""


class PlainDialer:
    """Opens channels without TLS, on which this node proves nothing."""

    def channel(self, node: int, address: str) -> aio.Channel:
        return aio.insecure_channel(address, options=CHANNEL_OPTIONS)
