"""With this module a node requests entries from other nodes for a repair, and answers such requests of other nodes.

    request: index 6 and its chain ──> same entry 6 here: entries 7, 8 ... (none if the log ends here, too)
                                   └─> refused: entry 6 differs, is not here, or is damaged here

A request names the last whole entry before the damage, by index and chain. The chain covers the whole log up to the
last whole entry before the damage. Because of the chain, another node answers with entries of the same log as the
damaged one, or refuses the request. The answering node does not check the entries; the requesting node checks each
entry.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cluster.node.settings import NodeSettings
from raft.configuration_entry import ShardConfiguration
from raft.transport.dialing import Dialer
from raft.transport.peer_calls import PeerCalls
from raft.transport.rare_log import RareLog
from raft.v1 import raft_pb2
from store import LogTail, StoreError
from store.log.entry import EntryFlawError

log = logging.getLogger("ledgermq.node.repair")

# The largest size of the entries in one answer; a single larger entry is sent alone.
MOST_BYTES = 1 << 20
# How long a node may take to answer.
ANSWER_S = 5.0


class EntryLog(Protocol):
    """`EntryLog` is a log that can be read: `store.LogReading`, or `store.WholePrefix`, the whole entries at the
    beginning of a damaged log."""

    @property
    def first_index(self) -> int: ...
    @property
    def last_index(self) -> int: ...
    def tail_at(self, index: int) -> LogTail: ...
    def reach(self, first: int, max_bytes: int) -> int: ...
    def read_range(self, first: int, last: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class EntryReader:
    """Answers requests of other nodes for entries of one shard's log."""

    cluster: str
    shard: int
    node: int
    segment_bytes: int
    log: EntryLog
    commit: int
    # Whether the log is damaged after the last entry of `log`.
    is_damaged: bool

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
            response.refusal = f"node {self.node} cannot read the entries: {error}"
        return response

    def _stranger(self, request: raft_pb2.ReadEntriesRequest) -> str:
        if request.cluster != self.cluster:
            return f"node {self.node} belongs to cluster {self.cluster!r}, not to cluster {request.cluster!r}"
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
            return f"entry {prev} on node {self.node} differs"
        if prev == log.last_index and self.is_damaged:
            return f"the log of node {self.node} {self._end(prev)}"
        return ""

    def _end(self, index: int) -> str:
        return f"is damaged after entry {index}" if self.is_damaged else f"ends with entry {index}"


class EntrySource(Protocol):
    """The connections over which a node requests entries from other nodes."""

    async def read(self, node: int, request: raft_pb2.ReadEntriesRequest) -> raft_pb2.ReadEntriesResponse | None:
        """Request entries from `node`. Return None if the node cannot be reached."""

    async def close(self) -> None: ...


class GrpcEntrySource:
    """An entry source over gRPC, on channels that only this object uses."""

    def __init__(self, peers: Mapping[int, str], dialer: Dialer | None = None) -> None:
        self._calls = PeerCalls(peers, dialer, RareLog(log), answer_s=ANSWER_S)

    async def read(self, node: int, request: raft_pb2.ReadEntriesRequest) -> raft_pb2.ReadEntriesResponse | None:
        answer: raft_pb2.ReadEntriesResponse | None
        answer = await self._calls.call(node, lambda stub: stub.ReadEntries, request)
        return answer

    async def close(self) -> None:
        await self._calls.close()


@dataclass(frozen=True, slots=True)
class EntryAsker:
    """Requests entries of one shard from other nodes."""

    cluster: str
    shard: int
    node: int
    segment_bytes: int
    source: EntrySource

    async def ask(self, other: int, prev: LogTail) -> raft_pb2.ReadEntriesResponse | None:
        """Request the entries after `prev` from node `other`. Return None if the node cannot be reached."""
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
    """Return the addresses of the other members. An address in the setting `peers` has precedence over the address
    in the configuration."""
    known = {node: member.address for node, member in configuration.members.items()}
    return {
        node: settings.peers.get(node) or address
        for node, address in known.items()
        if node != settings.node and (settings.peers.get(node) or address)
    }
