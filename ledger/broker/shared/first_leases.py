"""Lets a shared group begin in queues of a shard before a member has received a message there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ledger.broker.broker_replica import BrokerReplica
from ledger.errors import LedgerError
from ledger.state import TopicQueueId
from ledger.state.commands import ChangeLeases, QueueLeases, ResetOffset
from ledger.state.feature_levels import SHARED_GROUPS
from ledger.state.group_modes import GroupMode
from ledger.state.lease_table import LeaseResults


async def begin_leases(replica: BrokerReplica, mode: GroupMode, offsets: Sequence[ResetOffset]) -> None:
    """Let the group begin at these offsets, if the shard does not know it. Otherwise a reset would make the group a
    queue group in this shard. Raises LedgerError, also if this node does not lead the shard."""
    replica.check_leads(0)
    await replica.feature_level.reach(SHARED_GROUPS)
    replica.check_leads(0)
    leases = replica.state.shared.leases
    known = leases.get(mode.consumer_group)
    if known is not None and known.created >= mode.created:
        return
    begun = tuple(
        QueueLeases(mode.consumer_group, mode.created, TopicQueueId(each.topic_id, each.queue), max(each.offset, 0))
        for each in offsets
    )
    results: LeaseResults = await asyncio.shield(replica.propose_command(ChangeLeases(begun, leases.time_ms)))
    for result in results.queues:
        if isinstance(result, LedgerError):
            raise result
