"""Deletes the replicas of this node that were removed from their shards.

A shard can then get a new replica on this node. The new replica has a new incarnation, so no earlier vote or
acknowledgement of this node counts for it. A removal is committed before a node learns of it, so a majority of the
shard does without the deleted data.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cluster.node.process.workers import result_of
from cluster.node.replica.local_replica import LocalReplica
from cluster.node.runtime import Runtime
from store import NodeDirectory, StoreError

log = logging.getLogger("ledgermq.node.discarding")

# Requests that were under way when the node was removed end in this time.
GRACE_S = 5.0


class DiscardedReplicas:
    """Takes removed replicas out of a node, one task for each. `take_out(number)` is called before the replica of the
    shard is stopped, and `deleted(number)` when its files are deleted."""

    def __init__(
        self,
        directory: NodeDirectory,
        runtime: Runtime,
        take_out: Callable[[int], None],
        deleted: Callable[[int], None],
    ) -> None:
        self._directory = directory
        self._runtime = runtime
        self._take_out = take_out
        self._deleted = deleted
        self._tasks: list[asyncio.Task[None]] = []

    async def discard(self, shard: LocalReplica, may_discard: Callable[[], bool]) -> None:
        """Wait a moment, then stop the replica and delete its files, unless `may_discard()` is False then. A
        cancellation after the wait does not stop the work."""
        await asyncio.sleep(GRACE_S)
        if not may_discard():
            return
        work = self._runtime.vital.spawn(self._discard(shard), f"deletion of a replica of shard {shard.number}")
        self._tasks.append(work)
        await asyncio.shield(work)

    async def stop(self) -> None:
        """Return when no deletion is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _discard(self, shard: LocalReplica) -> None:
        number = shard.number
        self._take_out(number)
        await shard.abandon()
        try:
            await self._delete(number)
        except StoreError as error:
            # The next start goes on. Until then this node gets no new replica of the shard.
            log.error("shard %d: the files of the removed replica cannot be deleted: %s", number, error)
            return
        log.info("shard %d: the files of the removed replica are deleted", number)
        self._deleted(number)

    async def _delete(self, number: int) -> None:
        """Delete the files on a thread, because the files of a large log take long. Raises StoreError."""
        worker = self._runtime.worker("deletion")
        try:
            await result_of(worker, self._directory.discard_marks(number).discard)
        finally:
            await worker.stop()
