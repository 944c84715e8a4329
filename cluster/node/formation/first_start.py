"""The first start of a cluster: its first configuration entry is written once, by one node, when all are empty.

Every initial voter must answer that its directory has never taken part. Then their random incarnations are written
into entry 1, and from then on a voter is known by its directory, not by its name: a wiped disk cannot vote twice. One
node asks (of shard 0 the one with the smallest number); the others answer and wait for its log. Every shard begins in
this way, shard 0 by the settings, and each other one by shard 0's table.

It must not start anything else: no election, no log but that one entry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from grpc import aio

from cluster.node.formation.first_voters import in_turn
from raft.configuration_entry import ConfiguredMember, ShardConfiguration
from raft.transport.streams import CHANNEL_OPTIONS
from raft.v1 import raft_pb2, raft_pb2_grpc

log = logging.getLogger("ledgermq.node.formation")

ANSWER_S = 2.0
"""How long one node may take to introduce itself."""
ASK_AGAIN_S = 0.2
TELL_EVERY = 25
"""Attempts between two lines in the log about who is missing."""


@dataclass(frozen=True, slots=True)
class FormingNode:
    """This node, as it introduces itself."""

    cluster: str
    shard: int
    node: int
    incarnation: bytes
    address: str
    voters: tuple[int, ...]
    """Empty where the shard has begun and that is not known any more."""
    segment_bytes: int
    max_entry_bytes: int
    empty: bool
    joins: bool = False
    """It waits to be added, and takes no part in a first start."""
    may_be_added: bool = False
    """It can be added without having waited for that: in shard 0 it has been already."""

    @property
    def asks(self) -> bool:
        """Whether it is this node that asks the others."""
        return self.empty and not self.joins and bool(self.voters) and self.node == in_turn(self.shard, self.voters)

    def introduce(self, request: raft_pb2.IntroduceRequest) -> raft_pb2.IntroduceResponse:
        """The answer to the node that asks."""
        return raft_pb2.IntroduceResponse(
            node=self.node, incarnation=self.incarnation, empty=self.empty, refusal=self._refusal(request)
        )

    def _refusal(self, request: raft_pb2.IntroduceRequest) -> str:
        if request.cluster != self.cluster:
            return f"node {self.node} is of cluster {self.cluster!r}, not {request.cluster!r}"
        if request.adding and self.empty and not (self.joins or self.may_be_added):
            return f"node {self.node} is not set up to be added: start it with `join = true`, then add it again"
        if not request.adding and self.joins:
            return f"node {self.node} waits to be added (`join = true`): it takes no part in a first start"
        if not request.adding and self.voters and tuple(request.voters) != self.voters:
            return (
                f"the peers differ: node {self.node} has {list(self.voters)}, "
                f"node {request.sender} has {list(request.voters)}"
            )
        if (request.segment_bytes, request.max_entry_bytes) != (self.segment_bytes, self.max_entry_bytes):
            return (
                f"the sizes differ: node {self.node} has segment_bytes {self.segment_bytes} and entries up to "
                f"{self.max_entry_bytes}, node {request.sender} has {request.segment_bytes} and "
                f"{request.max_entry_bytes}; give all nodes the same segment_bytes and max_message_bytes"
            )
        return ""


class FirstStartRefusedError(Exception):
    """The cluster has begun without this directory, or its nodes are set up differently. The sentence says which."""


class Introductions(Protocol):
    """How the others are asked who they are."""

    async def ask(self, node: int, request: raft_pb2.IntroduceRequest) -> raft_pb2.IntroduceResponse | None:
        """That node's answer, or None while it cannot be reached."""

    async def close(self) -> None: ...


class GrpcIntroductions:
    """Over connections of their own, which nothing else uses."""

    def __init__(self, peers: Mapping[int, str]) -> None:
        self._channels = {
            node: aio.insecure_channel(address, options=CHANNEL_OPTIONS) for node, address in peers.items()
        }

    async def ask(self, node: int, request: raft_pb2.IntroduceRequest) -> raft_pb2.IntroduceResponse | None:
        stub = raft_pb2_grpc.RaftStub(self._channels[node])
        try:
            answer: raft_pb2.IntroduceResponse = await stub.Introduce(request, timeout=ANSWER_S)
        except aio.AioRpcError:
            return None
        return answer

    async def close(self) -> None:
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))


async def first_configuration(
    forming_node: FormingNode, peers: Mapping[int, str], introductions: Introductions
) -> ShardConfiguration:
    """Asks every other voter until all have answered that they are empty; gives what entry 1 says.

    Raises FirstStartRefusedError. Waits for as long as somebody is missing, and says who.
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
    """The incarnation of a node that may take part."""
    if answer.node != node:
        raise FirstStartRefusedError(
            f"{address} is set up as node {node} in our peers, but says that it is {answer.node}"
        )
    if answer.refusal:
        raise FirstStartRefusedError(answer.refusal)
    if not answer.empty:
        raise FirstStartRefusedError(
            f"node {node} has data already: this cluster has begun, and this node's directory is new (a wiped disk?); "
            "it takes no part until it is added again"
        )
    return answer.incarnation
