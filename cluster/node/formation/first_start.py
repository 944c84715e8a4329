"""The first start of a shard: one node writes the first configuration entry, when all first voters are empty.

Every first voter must answer that its data directory is empty before the shard begins. Then the forming node writes
the random incarnations of all first voters into entry 1. From entry 1 on, each voter is identified by the incarnation
of its data directory. Because of its new incarnation, a voter with a wiped disk cannot vote twice. One node forms the
shard. The node with the smallest number forms shard 0. The forming node asks the other first voters whether their data
directories are empty. The other first voters answer the forming node, and later receive entry 1 by replication. Every
shard of a cluster begins with a first start. The first voters of shard 0 are in the settings. The first voters of
another shard are in the shard table of shard 0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cluster.node.formation.first_voters import in_turn
from ledger.state.feature_levels import LATEST_LEVEL
from raft.configuration_entry import ConfiguredMember, ShardConfiguration
from raft.transport.dialing import Dialer
from raft.transport.peer_calls import PeerCalls
from raft.transport.rare_log import RareLog
from raft.v1 import raft_pb2

log = logging.getLogger("ledgermq.node.formation")

LARGEST_ANSWER_BYTES = 1 << 20

# How long a node may take to answer with its introduction.
ANSWER_S = 2.0
ASK_AGAIN_S = 0.2
# The number of attempts between two log lines about the nodes that have not answered.
TELL_EVERY = 25


@dataclass(frozen=True, slots=True)
class FormingNode:
    """The introduction of this node: its answer to nodes that form a shard or add this node to a shard."""

    cluster: str
    shard: int
    node: int
    incarnation: bytes
    address: str
    # The first voters. Empty if this node does not know them, because the shard has begun before.
    voters: tuple[int, ...]
    segment_bytes: int
    max_entry_bytes: int
    # Whether the log has no entry and the vote file no term.
    empty: bool
    # Whether this node waits to be added to a running cluster, so that it is no first voter.
    joins: bool = False
    # Whether a leader may add this node to the shard although `joins` is False. True for every shard except shard 0,
    # because a node is added to shard 0 first.
    may_be_added: bool = False
    # The highest feature level that this program knows.
    latest_level: int = LATEST_LEVEL
    # The wall clock of this node in ms since 1970; 0: not told.
    wall_ms: int = 0

    @property
    def asks(self) -> bool:
        """Return True if this node is the forming node, which asks the other first voters and writes entry 1."""
        return self.empty and not self.joins and bool(self.voters) and self.node == in_turn(self.shard, self.voters)

    def introduce(self, request: raft_pb2.IntroduceRequest) -> raft_pb2.IntroduceResponse:
        """Return the introduction of this node, for a node that forms the shard or adds this node to the shard."""
        return raft_pb2.IntroduceResponse(
            node=self.node,
            incarnation=self.incarnation,
            empty=self.empty,
            refusal=self._refusal(request),
            feature_level=self.latest_level,
            wall_ms=self.wall_ms,
        )

    def _refusal(self, request: raft_pb2.IntroduceRequest) -> str:
        if request.cluster != self.cluster:
            return f"node {self.node} belongs to cluster {self.cluster!r}, not to cluster {request.cluster!r}"
        if request.adding and self.empty and not (self.joins or self.may_be_added):
            return f"node {self.node} is not set up to be added: start it with `join = true`, then add it again"
        if not request.adding and self.joins:
            return (
                f"node {self.node} waits to be added to a cluster (`join = true`), so it cannot be a voter of a first "
                "start: remove `join`, or remove the node from `peers`"
            )
        if not request.adding and self.voters and tuple(request.voters) != self.voters:
            return (
                f"the settings `peers` differ: node {self.node} has {list(self.voters)}, "
                f"node {request.sender} has {list(request.voters)}; give all nodes the same `peers`"
            )
        if (request.segment_bytes, request.max_entry_bytes) != (self.segment_bytes, self.max_entry_bytes):
            return (
                f"the sizes differ: node {self.node} has segment_bytes {self.segment_bytes} and entries up to "
                f"{self.max_entry_bytes}, node {request.sender} has {request.segment_bytes} and "
                f"{request.max_entry_bytes}; give all nodes the same segment_bytes and max_message_bytes"
            )
        return ""


class FirstStartRefusedError(Exception):
    """`FirstStartRefusedError` says that the shard cannot be formed: it has begun without this data directory, or
    the settings of the nodes differ. The error message names the reason."""


class Introductions(Protocol):
    """The connections over which a node asks other nodes for introductions."""

    async def ask(self, node: int, request: raft_pb2.IntroduceRequest) -> raft_pb2.IntroduceResponse | None:
        """Ask `node` for its introduction. Return None if the node cannot be reached."""

    async def close(self) -> None: ...


class GrpcIntroductions:
    """Asks other nodes for their introductions over gRPC, on channels that only this object uses."""

    def __init__(self, peers: Mapping[int, str], dialer: Dialer | None = None) -> None:
        self._calls = PeerCalls(peers, dialer, RareLog(log), answer_s=ANSWER_S, largest_answer=LARGEST_ANSWER_BYTES)

    async def ask(self, node: int, request: raft_pb2.IntroduceRequest) -> raft_pb2.IntroduceResponse | None:
        answer: raft_pb2.IntroduceResponse | None
        answer = await self._calls.call(node, lambda stub: stub.Introduce, request)
        return answer

    async def close(self) -> None:
        await self._calls.close()


async def first_configuration(
    forming_node: FormingNode,
    peers: Mapping[int, str],
    introductions: Introductions,
    heard: Callable[[int, int], None] = lambda _, __: None,
) -> ShardConfiguration:
    """Ask every other first voter until all of them have answered that their data directories are empty. Return the
    configuration that the node writes as entry 1. `heard` is called with the number and the wall clock (ms) of each
    first voter that has answered.

    The function waits without a limit, and logs which first voters have not answered. Raises FirstStartRefusedError.
    """
    voters = {forming_node.node: ConfiguredMember(forming_node.incarnation, forming_node.address)}
    request = raft_pb2.IntroduceRequest(
        cluster=forming_node.cluster,
        shard=forming_node.shard,
        sender=forming_node.node,
        voters=forming_node.voters,
        segment_bytes=forming_node.segment_bytes,
        max_entry_bytes=forming_node.max_entry_bytes,
    )
    attempt = 0
    while missing := [node for node in forming_node.voters if node not in voters]:
        answers = await asyncio.gather(*(introductions.ask(node, request) for node in missing))
        for node, answer in zip(missing, answers, strict=True):
            if answer is not None:
                voters[node] = ConfiguredMember(accepted(node, peers[node], answer), peers[node])
                heard(node, answer.wall_ms)
        if attempt % TELL_EVERY == TELL_EVERY - 1:
            waited_for = ", ".join(f"node {node} at {peers[node]}" for node in missing)
            log.info("first start of shard %d: waiting for %s", forming_node.shard, waited_for)
        attempt += 1
        if len(voters) < len(forming_node.voters):
            await asyncio.sleep(ASK_AGAIN_S)
    return ShardConfiguration(
        cluster=forming_node.cluster,
        voters=voters,
        segment_bytes=forming_node.segment_bytes,
        max_entry_bytes=forming_node.max_entry_bytes,
    )


def accepted(node: int, address: str, answer: raft_pb2.IntroduceResponse) -> bytes:
    """Return the incarnation in the answer of `node`. Raises FirstStartRefusedError if `node` cannot be a first
    voter."""
    if answer.node != node:
        raise FirstStartRefusedError(
            f"`peers` gives node {node} the address {address}, but node {answer.node} answers there: correct `peers`"
        )
    if answer.refusal:
        raise FirstStartRefusedError(answer.refusal)
    if not answer.empty:
        raise FirstStartRefusedError(
            f"node {node} has data already, so the cluster has begun, but the data directory of this node is new (a "
            "wiped disk?): this node takes no part until it is added again with `ledgermq cluster add-node`"
        )
    return answer.incarnation
