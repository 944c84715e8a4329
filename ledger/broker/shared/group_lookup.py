"""Finds the mode of a consumer group. The coordinator's shard is shard 0, which has a replica on every node."""

from __future__ import annotations

import asyncio

from ledger.broker.replicas import Replicas
from ledger.errors import GroupConflictError, UnknownGroupError
from ledger.state.group_modes import GroupMode

# This node's replica may be a moment behind the command that created the group.
PATIENCE_S = 1.0
_LOOK_S = 0.05


class GroupLookup:
    """Reads the modes that this node's replica of shard 0 has applied."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def mode(self, consumer_group: str) -> GroupMode | None:
        """Return the mode of a shared group, or None if this node knows no shared group with this name."""
        first = self._replicas.first
        mode = None if first is None else first.state.shared.modes.get(consumer_group)
        return mode if mode is not None and mode.is_shared else None

    async def require(self, consumer_group: str) -> GroupMode:
        """Return the mode of a shared group. Raises UnknownGroupError, GroupConflictError."""
        for _ in range(round(PATIENCE_S / _LOOK_S)):
            if (mode := self.mode(consumer_group)) is not None:
                return mode
            await asyncio.sleep(_LOOK_S)
        self._replicas.topics  # noqa: B018 (raises UnavailableError before shard 0 has started)
        known = self._replicas.topics.state.shared.modes.get(consumer_group)
        if known is not None:
            raise GroupConflictError(
                f"Consumer group {consumer_group!r} is {known.describe()}: its members own queues. Read it with a "
                "GroupConsumer, or choose another name for a shared group."
            )
        raise UnknownGroupError(
            f"There is no shared group {consumer_group!r}: create it first, with `ledgermq group create "
            f"{consumer_group} --mode shared`. If it is a group whose members own queues, read it with a GroupConsumer."
        )
