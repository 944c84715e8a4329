"""Handover: a leader gives leadership to another voter, on an operator's request or before the node stops.

After a handover has begun, either another node leads within an election timeout, or this node continues to lead.
"""

from __future__ import annotations

import asyncio

from ledger.broker.broker_replica import BrokerReplica
from ledger.errors import LedgerError, TransferRefusedError
from raft.core import Raft, TransferRefused

_LOOK_AGAIN_S = 0.005


def successors(raft: Raft) -> list[int]:
    """Return the voters that can take over leadership: all voters except the leader and suspect nodes. The voter
    that stores most of the leader's log comes first."""
    voters = [node for node in raft.configuration.voters if node in raft.progress]
    trusted = [node for node in voters if raft.progress[node].suspicion is None]
    return sorted(trusted, key=lambda node: (-raft.progress[node].match, node))


def transfer_leadership(replica: BrokerReplica, *, from_node: int = 0, to: int = 0) -> int:
    """Begin a handover for an operator, and return the number of the node that is the next leader.

    `from_node` is the leader that the operator knows, and `to` is the wanted leader; 0 means any node. If this node
    leads, and `from_node` is another node or `to` is this node, then the handover has already happened. If the
    handover has already happened, return this node. Raises LedgerError."""
    node = replica.driver.raft.node
    other_leads = from_node not in (0, node)
    if replica.driver.leads and (other_leads or to == node):
        return node
    return begin_transfer(replica, to)


def begin_transfer(replica: BrokerReplica, to: int = 0) -> int:
    """Begin a handover to the voter `to`, and return its number. If `to` is 0, choose the first voter of
    `successors` that can take over. Raises LedgerError."""
    driver = replica.driver
    if not driver.leads:
        raise replica.not_leading()
    refusal = TransferRefused("there is no other voter")
    for node in [to] if to else successors(driver.raft):
        try:
            driver.transfer(node)
        except TransferRefused as refused:
            refusal = refused
        else:
            return node
    raise TransferRefusedError(
        f"leadership cannot be handed over: {refusal}; node {driver.raft.node} continues to lead"
    ) from refusal


async def hand_over(replica: BrokerReplica, within_s: float) -> int:
    """Hand leadership to another voter, and wait until another node leads. Return the new leader. Return 0 if no
    handover is possible, or if no other node leads after `within_s` seconds."""
    raft = replica.driver.raft
    try:
        begin_transfer(replica)
        async with asyncio.timeout(within_s):
            while raft.leader in (0, raft.node):  # noqa: ASYNC110 (a handover that fails announces nothing)
                await asyncio.sleep(_LOOK_AGAIN_S)
    except (LedgerError, TimeoutError):
        return 0
    return raft.leader
