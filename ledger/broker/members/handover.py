"""Handover: a leader gives leadership to another voter, on an operator's request or before the node stops.

One call begins a handover. Within an election timeout either another node leads, or this node continues to lead.
"""

from __future__ import annotations

import asyncio

from ledger.broker.broker_replica import BrokerReplica
from ledger.errors import LedgerError, TransferRefusedError
from raft.core import Raft, TransferRefused

_LOOK_AGAIN_S = 0.005


def successors(raft: Raft) -> list[int]:
    """Return the other voters that are not suspect, sorted by how much of the leader's log they store, most first."""
    voters = [node for node in raft.configuration.voters if node in raft.progress]
    trusted = [node for node in voters if raft.progress[node].suspicion is None]
    return sorted(trusted, key=lambda node: (-raft.progress[node].match, node))


def transfer_leadership(replica: BrokerReplica, *, from_node: int = 0, to: int = 0) -> int:
    """Begin a handover for an operator, and return the next leader.

    `from_node` is the leader that the operator knows, and `to` the wanted leader; 0 means any node. If `from_node`
    is another node, or `to` is this node, and this node leads, then the handover has happened already. Raises
    LedgerError."""
    node = replica.driver.raft.node
    other_leads = from_node not in (0, node)
    if replica.driver.leads and (other_leads or to == node):
        return node
    return begin_transfer(replica, to)


def begin_transfer(replica: BrokerReplica, to: int = 0) -> int:
    """Begin a handover to voter `to`, and return the voter. If `to` is 0, choose the first successor that can take
    over. Raises LedgerError."""
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
    """Hand over, and wait until another node leads. Return the new leader, or 0 if there is no new leader after
    `within_s` seconds."""
    raft = replica.driver.raft
    try:
        begin_transfer(replica)
        async with asyncio.timeout(within_s):
            while raft.leader in (0, raft.node):  # noqa: ASYNC110 (a handover that fails announces nothing)
                await asyncio.sleep(_LOOK_AGAIN_S)
    except (LedgerError, TimeoutError):
        return 0
    return raft.leader
