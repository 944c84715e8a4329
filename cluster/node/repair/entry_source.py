"""Entries for others' repairs: what a node answers who lacks some, and how it asks for its own.

    asks: entry 6 and its chain ──> "our entry 6 is the same": entries 7 ...        (or: we end there, too)
                                └─> refused: another entry 6; no entry 6 yet, or any more; damaged here as well

Who asks names the last entry that is whole, by its chain, which stands for the whole log before it. So an answer is
of the same log or there is none. What is given need not be whole: who asks looks at each entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from grpc import aio

from cluster.node.settings import NodeSettings
from raft.configuration_entry import ShardConfiguration
from raft.transport.streams import CHANNEL_OPTIONS
from raft.v1 import raft_pb2, raft_pb2_grpc
from store import LogTail, StoreError
from store.log.entry import EntryFlawError

MOST_BYTES = 1 << 20
"""In one answer, unless a single entry has more."""
ANSWER_S = 5.0
"""How long one node may take to answer."""


class Readable(Protocol):
    """A log, or what is whole of one: `store.LogReading`, `store.WholePrefix`."""

    @property
    def first_index(self) -> int: ...
    @property
    def last_index(self) -> int: ...
    def tail_at(self, index: int) -> LogTail: ...
    def reach(self, first: int, max_bytes: int) -> int: ...
    def read_range(self, first: int, last: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class EntryReader:
    """One shard's log on this node, as it is read for others."""

    cluster: str
    shard: int
    node: int
    segment_bytes: int
    log: Readable
    commit: int
    is_damaged: bool
    """What comes behind its last entry is not whole."""

    def answer(self, request: raft_pb2.ReadEntriesRequest) -> raft_pb2.ReadEntriesResponse:
        if reason := self._stranger(request):
            return raft_pb2.ReadEntriesResponse(refusal=reason)
        response = raft_pb2.ReadEntriesResponse(commit=self.commit, first_index=self.log.first_index)
        try:
            response.refusal = self._refusal(request, response)
            if not response.refusal and request.prev_index < self.log.last_index:
                first = request.prev_index + 1
                response.entries = self.log.read_range(first, self.log.reach(first, min(request.max_bytes, MOST_BYTES)))
        except (StoreError, EntryFlawError) as error:
            response.refusal = f"node {self.node} cannot read it: {error}"
        return response

    def _stranger(self, request: raft_pb2.ReadEntriesRequest) -> str:
        if request.cluster != self.cluster:
            return f"node {self.node} is of cluster {self.cluster!r}, not {request.cluster!r}"
        if request.receiver != self.node:
            return f"this is node {self.node}, not node {request.receiver}"
        if request.shard != self.shard:
            return f"node {self.node} has no shard {request.shard}"
        if request.segment_bytes != self.segment_bytes:
            return f"node {self.node} has segment_bytes {self.segment_bytes}, not {request.segment_bytes}"
        return ""

    def _refusal(self, request: raft_pb2.ReadEntriesRequest, response: raft_pb2.ReadEntriesResponse) -> str:
        prev, log = request.prev_index, self.log
        if prev < log.first_index - 1:
            return f"node {self.node} keeps no entry before {log.first_index}"
        if prev > log.last_index:
            return f"the log of node {self.node} {self._end(log.last_index)}"
        response.differs = log.tail_at(prev).chain != request.prev_chain
        if response.differs:
            return f"entry {prev} is another one on node {self.node}"
        if prev == log.last_index and self.is_damaged:
            return f"the log of node {self.node} {self._end(prev)}"
        return ""

    def _end(self, index: int) -> str:
        return f"is damaged behind entry {index}" if self.is_damaged else f"ends with entry {index}"


class EntrySource(Protocol):
    """How the others are asked."""

    async def read(self, node: int, request: raft_pb2.ReadEntriesRequest) -> raft_pb2.ReadEntriesResponse | None:
        """That node's answer, or None while it cannot be reached."""

    async def close(self) -> None: ...


class GrpcEntrySource:
    """Over connections of their own, which nothing else uses."""

    def __init__(self, peers: Mapping[int, str]) -> None:
        self._channels = {
            node: aio.insecure_channel(address, options=CHANNEL_OPTIONS) for node, address in peers.items()
        }

    async def read(self, node: int, request: raft_pb2.ReadEntriesRequest) -> raft_pb2.ReadEntriesResponse | None:
        stub = raft_pb2_grpc.RaftStub(self._channels[node])
        try:
            answer: raft_pb2.ReadEntriesResponse = await stub.ReadEntries(request, timeout=ANSWER_S)
        except aio.AioRpcError:
            return None
        return answer

    async def close(self) -> None:
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))


@dataclass(frozen=True, slots=True)
class EntryAsker:
    """One shard's on this node: asks others for what follows an entry."""

    cluster: str
    shard: int
    node: int
    segment_bytes: int
    source: EntrySource

    async def ask(self, other: int, prev: LogTail) -> raft_pb2.ReadEntriesResponse | None:
        """What that node has behind `prev`; None while it cannot be reached."""
        request = raft_pb2.ReadEntriesRequest(
            cluster=self.cluster,
            shard=self.shard,
            sender=self.node,
            receiver=other,
            segment_bytes=self.segment_bytes,
            prev_index=prev.index,
            prev_chain=prev.chain,
            max_bytes=MOST_BYTES,
        )
        return await self.source.read(other, request)


def other_members(configuration: ShardConfiguration, settings: NodeSettings) -> dict[int, str]:
    """Addresses of the other members. One among the node's own settings goes before that in the configuration."""
    known = {node: member.address for node, member in configuration.members.items()}
    return {
        node: settings.peers.get(node) or address
        for node, address in known.items()
        if node != settings.node and (settings.peers.get(node) or address)
    }
