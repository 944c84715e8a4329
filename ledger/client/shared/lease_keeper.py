"""Extends the leases of messages that the program works on.

A lease is extended when half of it has passed. If that fails, the lease ends in its time, and another member may get
the message. Each shard is asked by itself, because a shard without a leader must not hold up the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ledger.client.background import OnDefect, ShardTasks
from ledger.client.shared.shared_message import MessageLease, SharedMessage
from ledger.errors import LedgerError

log = logging.getLogger("ledgermq.client.shared_consumer")

# Extends leases: (messages, lease in ms).
Extend = Callable[[Sequence[SharedMessage[Any]]], Awaitable[object]]


class LeaseKeeper:
    """Keeps the leases of messages until they are dropped. Run the method `run` as a task."""

    def __init__(self, extend: Extend, lease_ms: int, on_defect: OnDefect) -> None:
        self._extend = extend
        self._lease_s = lease_ms / 1000
        self._kept: dict[MessageLease, SharedMessage[Any]] = {}
        # The shards of which leases are extended now.
        self._extending = ShardTasks("extensions of leases", on_defect)

    def __contains__(self, message: SharedMessage[Any]) -> bool:
        return message.lease in self._kept

    def keep(self, messages: Sequence[SharedMessage[Any]]) -> None:
        """Extend the leases of these messages from now on."""
        self._kept.update((message.lease, message) for message in messages)

    def drop(self, messages: Sequence[SharedMessage[Any]]) -> None:
        """Let the leases of these messages end in their time."""
        for message in messages:
            self._kept.pop(message.lease, None)

    async def run(self) -> None:
        """Extend leases until the task is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await asyncio.sleep(self._lease_s / 8)
                due: dict[int, list[SharedMessage[Any]]] = defaultdict(list)
                for message in self._kept.values():
                    if message.ends_s - loop.time() < self._lease_s / 2 and message.lease.shard not in self._extending:
                        due[message.lease.shard].append(message)
                for shard, messages in due.items():
                    self._extending.start(shard, self._try_to_extend(messages))
        finally:
            await self._extending.end()

    async def _try_to_extend(self, messages: Sequence[SharedMessage[Any]]) -> None:
        try:
            await self._extend(messages)
        except LedgerError as error:
            log.warning("leases of %d messages were not extended, and are tried again: %s", len(messages), error)
