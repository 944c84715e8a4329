"""Refuses the Raft messages of nodes that were removed, although they still have a certificate or the cluster secret.

    listed in the newest configuration, or the leader that this replica follows  ──>  admitted
    this replica has no configuration yet                                        ──>  admitted
    this replica leads, or follows another leader and has applied its entries    ──>  refused
    otherwise this replica may be behind, so it asks the other members:
        a member lists the caller, in a newer configuration                      ──>  admitted
        no member does                                                           ──>  refused
        no member answers                                                        ──>  admitted

A replica that is behind must not refuse a new leader only because it does not have the entry that added this leader:
the shard could lose its majority for ever. In the last case this replica may know only members that are gone, or the
caller was removed and the network is cut. Raft's own rules remain: a log without the newest entries wins no election.

A removed node still learns of its removal: it asks the members for the configuration, over the methods for clients
(cluster/node/replica/removal.py), which this check does not touch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from grpc import aio

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.replicas import Replicas
from ledger.broker.up_to_date import is_up_to_date
from raft.transport.dialing import Dialer
from raft.transport.node_proof import UnprovenError
from raft.v1 import raft_pb2, raft_pb2_grpc

log = logging.getLogger("ledgermq.node.security")

# How long a member may take to answer.
ANSWER_S = 1.0
# How long the answers of the members count. So callers cannot make this node ask more often.
KEEP_MS = 5_000.0
LARGEST_ANSWER_BYTES = 1 << 20


class AskMember(Protocol):
    async def __call__(self, node: int, address: str, shard: int) -> raft_pb2.GetConfigurationResponse | None:
        """Ask `node` for its newest configuration of the shard. Return None if the node does not answer."""


@dataclass(frozen=True, slots=True)
class _Answers:
    """What the other members have answered. `newer` are the members in the configurations that are newer than the one
    of this replica, at `index`."""

    asked_ms: float
    index: int
    have_answered: bool
    newer: frozenset[int]


class PeerAdmission:
    """Implements `raft.transport.admission.Admission` for one node."""

    def __init__(self, replicas: Replicas, ask: AskMember, monotonic_ms: Callable[[], float]) -> None:
        self._replicas = replicas
        self._ask = ask
        self._monotonic_ms = monotonic_ms
        # By shard: the last answers of the members, and the question that is under way.
        self._answers: dict[int, _Answers] = {}
        self._questions: dict[int, asyncio.Task[_Answers]] = {}

    def is_member(self, node: int, shard: int | None) -> bool:
        if shard is not None:
            replica = self._replicas.get(shard)
            return replica is None or _is_member_of(replica, node)
        # A node that is removed from one shard after another may still lead the last one.
        return self._replicas.first is None or any(_is_member_of(replica, node) for replica in self._replicas)

    async def refusal(self, node: int, shard: int | None) -> str:
        """Return why a node that is not a member is refused, or "" if it is admitted."""
        replica = self._replicas.first if shard is None else self._replicas.get(shard)
        if replica is None:
            return ""
        reason = (
            f"node {node} is not a member of shard {replica.shard} of this cluster: it was removed, or never added. "
            "Stop it, or remove its data directory and add it again"
        )
        if is_up_to_date(replica):
            return reason
        answers = await self._asked(replica)
        return reason if answers.have_answered and node not in answers.newer else ""

    def configuration(self, request: raft_pb2.GetConfigurationRequest) -> raft_pb2.GetConfigurationResponse:
        """Return this node's newest configuration of a shard, for a node that asks about a caller."""
        replica = self._replicas.get(request.shard)
        if replica is None or replica.membership.is_removed:
            return raft_pb2.GetConfigurationResponse()
        raft = replica.driver.raft
        return raft_pb2.GetConfigurationResponse(index=raft.configuration_index, members=raft.configuration.members)

    async def _asked(self, replica: BrokerReplica) -> _Answers:
        known, index = self._answers.get(replica.shard), replica.driver.raft.configuration_index
        if known is not None and known.index == index and self._monotonic_ms() - known.asked_ms < KEEP_MS:
            return known
        question = self._questions.get(replica.shard)
        if question is None:
            question = asyncio.create_task(self._ask_all(replica), name="ask members about a caller")
            self._questions[replica.shard] = question
            question.add_done_callback(lambda _: self._questions.pop(replica.shard, None))
        return await asyncio.shield(question)

    async def _ask_all(self, replica: BrokerReplica) -> _Answers:
        """Ask all other members of the newest configuration. The caller in question is none of them."""
        own, shard = replica.driver.raft.configuration_index, replica.shard
        others = [
            (node, replica.membership.address(node))
            for node in replica.driver.raft.configuration.members
            if node != replica.membership.node
        ]
        asked = await asyncio.gather(*(self._ask(node, address, shard) for node, address in others if address))
        # A member that has an older configuration than this replica knows nothing that helps.
        answers = [each for each in asked if each is not None and each.index >= own > 0]
        newer = frozenset(node for each in answers if each.index > own for node in each.members)
        result = self._answers[shard] = _Answers(self._monotonic_ms(), own, bool(answers), newer)
        return result


def _is_member_of(replica: BrokerReplica, node: int) -> bool:
    """Return True if the replica knows the node as a member, or knows no members yet. A removal counts when it is
    committed. A leader that removes itself leads until then."""
    raft, applied = replica.driver.raft, replica.membership.configuration
    newest = raft.configuration.members
    if not newest or node in newest or raft.leader == node:
        return True
    return applied is not None and (node in applied.voters or node in applied.learners)


class GrpcAskMember:
    """Asks members over gRPC. Each question has its own connection, because questions are rare."""

    def __init__(self, cluster: str, node: int, dialer: Dialer) -> None:
        self._cluster = cluster
        self._node = node
        self._dialer = dialer

    async def __call__(self, node: int, address: str, shard: int) -> raft_pb2.GetConfigurationResponse | None:
        request = raft_pb2.GetConfigurationRequest(cluster=self._cluster, shard=shard, sender=self._node)
        channel = self._dialer.channel(node, address, LARGEST_ANSWER_BYTES)
        try:
            async with asyncio.timeout(ANSWER_S):
                proof = await self._dialer.prove(channel, node)
                answer: raft_pb2.GetConfigurationResponse = await raft_pb2_grpc.RaftStub(channel).GetConfiguration(
                    request, metadata=proof, timeout=ANSWER_S
                )
                return answer
        except (TimeoutError, UnprovenError, aio.AioRpcError) as error:
            log.debug("node %d did not tell its configuration of shard %d: %s", node, shard, error)
            return None
        finally:
            await channel.close()
