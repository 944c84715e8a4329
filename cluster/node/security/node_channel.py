"""The channels by which a node calls the client services of other nodes, for example to open a topic in another shard.

The calls prove which node the caller is. A client finds the other nodes by their addresses; the number of a node is
looked up, because the proof names the receiver. A channel can call for a user too: then every call names the user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from grpc import aio

from ledger.access.forwarded import ForwardedCaller
from ledger.client.connection.channels import NodeStub
from ledger.client.connection.forwarding import ForwardingSession
from ledger.client.connection.session import CallSession, Metadata, ProvenChannel
from ledger.errors import UnavailableError
from raft.transport.dialing import Dialer
from raft.transport.node_proof import TOKEN_S, UnprovenError

# A channel that calls for a user makes many calls, so it proves the node again only after this time.
KEEP_S = TOKEN_S / 2


class NodeChannel:
    """Implements `ledger.client.connection.channels.Channel`."""

    def __init__(
        self,
        dialer: Dialer,
        addresses: Callable[[], Mapping[int, str]],
        address: str,
        client_id: str | None,
        caller: Callable[[], ForwardedCaller] | None = None,
    ) -> None:
        """`addresses()` returns the address of each node. `caller()` returns the user for whom the node calls, and
        raises LedgerError if the user may not call any more; None: the node calls for itself."""
        node = next((node for node, known in addresses().items() if known == address), 0)
        self._channel = dialer.channel(node, address)
        session: CallSession = _NodeSession(dialer, self._channel, node)
        if caller is not None:
            session = ForwardingSession(_KeptSession(session), caller)
        self.stub = NodeStub(ProvenChannel(self._channel, session))

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


class _KeptSession:
    """Keeps the proof of another session for `KEEP_S`, or until the node no longer accepts it."""

    def __init__(self, session: CallSession) -> None:
        self._session = session
        self._kept: Metadata | None = None
        self._kept_until_s = 0.0

    async def metadata(self) -> Metadata:
        now_s = asyncio.get_running_loop().time()
        if self._kept is None or now_s >= self._kept_until_s:
            self._kept = await self._session.metadata()
            self._kept_until_s = now_s + KEEP_S
        return self._kept

    def ended(self, metadata: Metadata) -> None:
        if self._kept == metadata:
            self._kept = None
