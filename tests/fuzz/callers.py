"""The attackers of a cluster: strangers, users with and without rights, and callers with proofs of others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial

from grpc import aio

from ledger.broker.rpc.rights import ANY_USER, NEEDED
from ledger.errors import LedgerError
from tests.cluster.scram_client import Metadata
from tests.cluster.waiter import eventually

OpenChannel = Callable[[str], aio.Channel]
Prove = Callable[[aio.Channel], Awaitable[Metadata]]

# The methods that serve callers without proof, and callers without rights. The second serve a part of what they are
# asked, or what belongs to the caller itself.
STRANGERS_MAY = frozenset({"/raft.v1.NodeProof/Prove", *(path for path, needed in NEEDED.items() if not needed.proof)})
POWERLESS_MAY = (
    STRANGERS_MAY
    | {path for path, needed in NEEDED.items() if needed.rights is ANY_USER.rights}
    # Without a topic, the list leaves out what the caller may not read.
    | {"/ledger.v1.Broker/ListTimed"}
)


class Caller:
    """One attacker, with a channel to each address."""

    def __init__(
        self,
        name: str,
        open_channel: OpenChannel,
        addresses: Sequence[str],
        *,
        metadata: Metadata = (),
        prove: Prove | None = None,
        may: Collection[str] | None = None,
        reads: Collection[int | str] | None = None,
    ) -> None:
        """`prove(channel)` returns the metadata of the calls on a channel. Only the methods in `may` may succeed, and
        messages of the topics in `reads` may be returned: numbers for `Fetch`, names for RocketMQ; None means all."""
        self.name = name
        self.may = may
        self.reads = reads
        self._open_channel = open_channel
        self._addresses = addresses
        self._prove = prove
        self._metadata = [metadata] * len(addresses)
        self._channels: list[aio.Channel] = []

    def __len__(self) -> int:
        return len(self._addresses)

    async def connect(self, stack: AsyncExitStack) -> None:
        for number, address in enumerate(self._addresses):
            self._channels.append(await stack.enter_async_context(self._open_channel(address)))
            if self._prove is not None:
                self._metadata[number] = await eventually(partial(self._proven, number), f"{self.name} is proven")

    async def _proven(self, number: int) -> Metadata | None:
        """Return the metadata for a channel, or None if the node does not know the user yet."""
        assert self._prove is not None
        with suppress(LedgerError):
            return await self._prove(self._channels[number])
        return None

    def channel(self, number: int) -> aio.Channel:
        return self._channels[number]

    def metadata(self, number: int) -> Metadata:
        return self._metadata[number]

    async def prove_again(self, number: int) -> None:
        """Prove on a new connection, if the node ended the old one. A caller whose proof is to be refused keeps it."""
        if self._prove is not None and self.may != STRANGERS_MAY:
            with suppress(LedgerError, aio.AioRpcError, AssertionError):
                self._metadata[number] = await self._prove(self._channels[number])
