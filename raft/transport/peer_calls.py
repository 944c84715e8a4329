"""Single calls of other nodes, beside the streams: introductions, and entries for a repair."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from grpc import aio

from raft.transport.dialing import Dialer, PlainDialer
from raft.transport.node_proof import UnprovenError
from raft.transport.rare_log import RareLog
from raft.transport.streams import MAX_MESSAGE_BYTES
from raft.v1 import raft_pb2_grpc


class PeerCalls:
    """Calls the nodes in `peers`, on channels that only this object uses. `peers` has the address of each node. A call
    may take `answer_s` seconds, and its answer may have `largest_answer` bytes."""

    def __init__(
        self,
        peers: Mapping[int, str],
        dialer: Dialer | None,
        log: RareLog,
        *,
        answer_s: float,
        largest_answer: int = MAX_MESSAGE_BYTES,
    ) -> None:
        """Without a `dialer`, this node proves nothing to the others. `log` gets the reasons of nodes that do not prove
        themselves."""
        self._dialer = dialer or PlainDialer()
        self._log = log
        self._answer_s = answer_s
        self._channels = {node: self._dialer.channel(node, address, largest_answer) for node, address in peers.items()}

    async def call(
        self, node: int, method: Callable[[raft_pb2_grpc.RaftStub], Callable[..., Any]], request: object
    ) -> Any:
        """Call a method of `node`, which `method` returns for a stub. Return the answer. Return None if the node cannot
        be reached, does not answer in time, or does not prove itself."""
        channel = self._channels[node]
        try:
            metadata = await self._dialer.prove(channel, node)
            return await method(raft_pb2_grpc.RaftStub(channel))(request, timeout=self._answer_s, metadata=metadata)
        except UnprovenError as error:
            self._log.warning("node %d: %s", node, error)
            return None
        except aio.AioRpcError:
            return None

    async def close(self) -> None:
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))
