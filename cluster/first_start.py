"""The first start of a cluster: its first configuration entry is written once, by one node, when all are empty.

The one idea: every initial voter must answer that its directory has never taken part. Then their random
incarnations are written into entry 1, and from then on a voter is known by its directory, not by its name: a wiped
disk cannot vote twice. The node with the smallest number asks; the others answer and wait for its log.

It must not start anything else: no election, no log but that one entry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from grpc import aio

from raft.configuration_entry import GroupConfiguration
from raft.streams import CHANNEL_OPTIONS
from raft.v1 import raft_pb2, raft_pb2_grpc

log = logging.getLogger("cluster.first_start")

ASK_AGAIN_S = 0.2
TELL_EVERY = 25
"""Attempts between two lines in the log about who is missing."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """This node, as it introduces itself."""

    cluster: str
    group: int
    node: int
    incarnation: bytes
    voters: tuple[int, ...]
    segment_bytes: int
    max_entry_bytes: int
    empty: bool

    @property
    def asks(self) -> bool:
        """Whether it is this node that asks the others."""
        return self.empty and self.node == min(self.voters)

    def introduce(self, request: raft_pb2.IntroduceRequest) -> raft_pb2.IntroduceResponse:
        """The answer to the node that asks."""
        return raft_pb2.IntroduceResponse(
            node=self.node, incarnation=self.incarnation, empty=self.empty, refusal=self._refusal(request)
        )

    def _refusal(self, request: raft_pb2.IntroduceRequest) -> str:
        if request.cluster != self.cluster:
            return f"node {self.node} is of cluster {self.cluster!r}, not {request.cluster!r}"
        if tuple(request.voters) != self.voters:
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


async def first_configuration(newcomer: Newcomer, peers: Mapping[int, str]) -> GroupConfiguration:
    """Asks every other voter until all have answered that they are empty; gives what entry 1 says.

    Raises FirstStartRefusedError. Waits for as long as somebody is missing, and says who.
    """
    channels = {node: aio.insecure_channel(address, options=CHANNEL_OPTIONS) for node, address in peers.items()}
    incarnations = {newcomer.node: newcomer.incarnation}
    request = raft_pb2.IntroduceRequest(
        cluster=newcomer.cluster,
        group=newcomer.group,
        sender=newcomer.node,
        voters=newcomer.voters,
        segment_bytes=newcomer.segment_bytes,
        max_entry_bytes=newcomer.max_entry_bytes,
    )
    try:
        attempt = 0
        while missing := [node for node in newcomer.voters if node not in incarnations]:
            answers = await asyncio.gather(*(introduction(channels[node], request) for node in missing))
            for node, answer in zip(missing, answers, strict=True):
                if answer is not None:
                    incarnations[node] = accepted(node, peers[node], answer)
            if attempt % TELL_EVERY == TELL_EVERY - 1:
                waited_for = ", ".join(f"node {node} at {peers[node]}" for node in missing)
                log.info("first start: waiting for %s", waited_for)
            attempt += 1
            if len(incarnations) < len(newcomer.voters):
                await asyncio.sleep(ASK_AGAIN_S)
    finally:
        await asyncio.gather(*(channel.close() for channel in channels.values()))
    return GroupConfiguration(
        cluster=newcomer.cluster,
        voters=incarnations,
        segment_bytes=newcomer.segment_bytes,
        max_entry_bytes=newcomer.max_entry_bytes,
    )


async def introduction(channel: aio.Channel, request: raft_pb2.IntroduceRequest) -> raft_pb2.IntroduceResponse | None:
    """One node's answer, or None while it cannot be reached."""
    try:
        answer: raft_pb2.IntroduceResponse = await raft_pb2_grpc.RaftStub(channel).Introduce(request, timeout=2)
    except aio.AioRpcError:
        return None
    return answer


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
