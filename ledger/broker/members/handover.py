"""A leader makes another node lead: when an operator wants it, and before it stops.

To begin is one call, and what comes of it shows within an election timeout: either another node leads, or this one
goes on, and nothing was lost but a little time.
"""

from __future__ import annotations

import asyncio

from ledger.broker.broker_replica import BrokerReplica
from ledger.errors import LedgerError, TransferRefusedError
from raft.core import Raft, TransferRefused

_LOOK_AGAIN_S = 0.005


def successors(raft: Raft) -> list[int]:
    """The other voters that count, those that hold most of the leader's log first."""
    voters = [node for node in raft.configuration.voters if node in raft.progress]
    trusted = [node for node in voters if raft.progress[node].suspicion is None]
    return sorted(trusted, key=lambda node: (-raft.progress[node].match, node))


def begin_transfer(replica: BrokerReplica, to: int = 0) -> int:
    """Begins to hand over to that voter; 0: to the first successor that answers. Returns to whom.

    Raises LedgerError."""
    driver = replica.driver
    if not driver.leads:
        raise replica.not_leading()
    refusal = TransferRefused("there is no other voter to hand leadership to")
    for node in [to] if to else successors(driver.raft):
        try:
            driver.transfer(node)
        except TransferRefused as refused:
            refusal = refused
        else:
            return node
    raise TransferRefusedError(f"{refusal}; node {driver.raft.node} goes on leading") from refusal


async def hand_over(replica: BrokerReplica, within_s: float) -> int:
    """Begins, and waits until another node leads. Returns which; 0 where nothing came of it in time."""
    raft = replica.driver.raft
    try:
        begin_transfer(replica)
        async with asyncio.timeout(within_s):
            while raft.leader in (0, raft.node):  # noqa: ASYNC110 (that it came to nothing announces itself to nobody)
                await asyncio.sleep(_LOOK_AGAIN_S)
    except (LedgerError, TimeoutError):
        return 0
    return raft.leader
