"""Detects that this node was removed from a shard, logs the removal, and stops the Raft messages of the replica.

The leader stops sending to a node that it removed, so the removed node may never receive the new configuration.
Because it may never receive the new configuration, a member that hears no leader asks the other members whether it was
removed. The other members answer after a linearizable read of the configuration from a leader.
"""

from __future__ import annotations

import asyncio
import logging

from cluster.node.replica.health import not_a_member
from cluster.node.replica.local_replica import LocalReplica
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.members.membership import Standing
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.connection.lifetime import within
from ledger.errors import LedgerError

log = logging.getLogger("ledgermq.node.removal")

ANSWER_MS = 2000
# After this number of checks in a row without a leader, one election timeout apart, the node asks the other members.
SILENT_LOOKS = 2
# The largest number of checks between two such requests. The number doubles while no member answers.
MOST_LOOKS = 20


class RemovalWatch:
    """`RemovalWatch` watches whether this node was removed from one shard."""

    def __init__(self, shard: LocalReplica, settings: NodeSettings, runtime: Runtime) -> None:
        self._shard = shard
        self._settings = settings
        self._runtime = runtime
        self._look_s = settings.tick_ms * settings.election_ticks / 1000
        self._silent = 0
        self._ask_at = SILENT_LOOKS

    async def run(self) -> None:
        """Return after this node was removed from the shard and its replica sends no more Raft messages."""
        while True:
            await asyncio.sleep(self._runtime.shared_wait_s(self._look_s))
            replica = self._shard.replica
            if replica is not None and await self._is_removed(replica):
                log.error("%s", not_a_member(self._shard.number, replica.membership, self._settings))
                self._shard.retire()
                return

    async def _is_removed(self, replica: BrokerReplica) -> bool:
        membership = replica.membership
        if membership.standing is Standing.REMOVED:
            return True
        raft = replica.driver.raft
        # A node that diverges from the others may not stand, so it keeps the leader that it last heard.
        hears_leader = raft.leader and not raft.divergences
        if membership.standing is Standing.JOINING or hears_leader:
            self._silent, self._ask_at = 0, SILENT_LOOKS
            return False
        self._silent += 1
        if self._silent < self._ask_at:
            return False
        self._silent, self._ask_at = 0, min(2 * self._ask_at, MOST_LOOKS)
        return await self._others_say_so(replica)

    async def _others_say_so(self, replica: BrokerReplica) -> bool:
        addresses = replica.membership.addresses()
        others = [address for node, address in addresses.items() if node != self._settings.node and address]
        if not others:
            return False
        chance, environment = self._runtime.chance, self._runtime.client
        try:
            async with within(environment, AsyncAdmin)(others, request_timeout_ms=ANSWER_MS, rng=chance) as admin:
                said = await admin.members(shard=self._shard.number, timeout_ms=ANSWER_MS)
        except LedgerError:
            return False  # the other members have no leader either, or cannot be reached
        if said.cluster != self._settings.cluster or said.configuration_index <= replica.membership.index:
            return False
        return replica.membership.removed_by({member.node: member.incarnation for member in said.members})
