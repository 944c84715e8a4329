"""Raises the feature level of a shard, on the leader.

The leader raises the level when the program of every member supports a higher level. While a change of members is not
committed, the leader waits, because the new member may support less. From the proposal on, the leader adds no node with
an older program. `ledger/state/feature_levels.py` says what the levels mean.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from ledger.errors import LedgerError, NodeRefusedError
from ledger.state import State
from ledger.state.commands import Command, RaiseFeatureLevel
from raft.driver import Driver

log = logging.getLogger("ledgermq.broker.feature_level")

# How often a leader looks whether all members support a higher level, until the shard has the latest level.
LOOK_S = 0.25
# How long a request waits for a feature level. A cluster that has just started gets its level in this time.
REACH_S = 1.0
_REACH_LOOK_S = 0.02


class FeatureLevelProposer(Protocol):
    """The interface through which `FeatureLevel` uses a shard's replica."""

    shard: int
    driver: Driver

    @property
    def state(self) -> State: ...
    @property
    def knows_the_end(self) -> bool:
        """True if this node leads and has applied every entry of earlier leaders."""

    def propose_checked(self, command: Command) -> asyncio.Future[Any]:
        """Propose a command. Raises LedgerError if this node cannot propose it."""


class FeatureLevel:
    """Raises the feature level of one shard, and keeps out nodes that do not support it."""

    def __init__(self, replica: FeatureLevelProposer) -> None:
        self._replica = replica
        # The level of this node's newest proposal. The proposal may be committed even if it had no result.
        self._proposed = 0

    @property
    def demanded(self) -> int:
        """Return the level that each member must support: the shard has it, or may soon have it."""
        return max(self._replica.state.feature_level, self._proposed)

    async def run(self) -> None:
        """Raise the level whenever all members support a higher level. Return when this replica has the latest level
        that this program knows."""
        while self._replica.state.feature_level < self._replica.state.latest_level:
            try:
                await self.raise_to_supported()
            except LedgerError as error:
                log.info("shard %d: the feature level cannot rise now: %s", self._replica.shard, error)
            await asyncio.sleep(LOOK_S)

    async def reach(self, level: int) -> None:
        """Return when the shard has the feature level `level`, but after REACH_S seconds at the latest."""
        for _ in range(round(REACH_S / _REACH_LOOK_S)):
            if self._replica.state.feature_level >= level or not self._replica.knows_the_end:
                return
            await asyncio.sleep(_REACH_LOOK_S)

    def may_reach(self, level: int) -> bool:
        """Return False if a member has said that its program does not support the feature level `level`."""
        if self._replica.state.feature_level >= level:
            return True
        # A member that has not answered this leader yet has level 0.
        return all(not 0 < each.feature_level < level for each in self._replica.driver.raft.progress.values())

    async def raise_to_supported(self) -> None:
        """If this node leads and all members support a higher level than the shard has, raise the level and return when
        it is applied. Raises LedgerError if the level cannot be raised now."""
        replica, raft = self._replica, self._replica.driver.raft
        level = min(raft.supported_feature_level, replica.state.latest_level)
        if not replica.knows_the_end or level <= replica.state.feature_level or raft.configuration_index > raft.commit:
            return
        raised = replica.propose_checked(RaiseFeatureLevel(level))
        self._proposed = level
        await raised
        log.info("shard %d: feature level %d", replica.shard, level)

    def check_new_member(self, node: int, level: int) -> None:
        """Raise NodeRefusedError if the program of a new member supports only a lower level than the shard demands."""
        if level < self.demanded:
            raise NodeRefusedError(
                f"node {node} runs an older version of ledgermq: it supports feature level {level}, and shard "
                f"{self._replica.shard} has level {self.demanded}; install the version that the other nodes run, then "
                "add the node again"
            )
