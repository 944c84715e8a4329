"""The room watch looks whether this node's disk has room for the new data of one shard.

Without room the replica refuses the sends of clients. It hands leadership to a voter with room, and takes the entries
of its leader as long as it can. The disk has no room in three cases:

    the disk is used to more than `disk_refuse_ratio`
    the log's last segment is nearly full, and there is no room for the next one
    a write failed because a disk is full

A leader also refuses sends while nothing is committed because the disks of a majority of the voters are full or have
failed. Otherwise producers would wait without learning why. Such a leader stays: no other voter could do more.

The second case keeps some space in the last segment. With that space, a leader that no voter can replace can still
write the entries of elections and of operators, so the shard can be read and its log can be trimmed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from cluster.node.settings import NodeSettings
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.retention.retention import DiskUse, RetentionLimits, must_refuse
from store import Disk, DiskUsage, NoSpaceError, StoreError

log = logging.getLogger("ledgermq.node.retention")

# How often the disk is looked at. While writes are refused, clients wait for the next look.
LOOK_S = 1.0
LOOK_WHILE_REFUSING_S = 0.25

# While the next segment cannot be made, this part of the last segment is kept for entries that are not sends.
_KEPT = 4


class RoomWatch:
    """Regularly looks how full the disk of one shard's log is, and makes the replica refuse or take new data."""

    def __init__(
        self,
        replica: BrokerReplica,
        settings: NodeSettings,
        limits: RetentionLimits,
        segment_bytes: int,
        disk: Disk,
        path: Path,
        on_disk_use: Callable[[DiskUsage], None],
        shared_wait_s: Callable[[float], float] = float,
    ) -> None:
        """`path` is the directory of the log, and `segment_bytes` the size of its segments. `on_disk_use` is called at
        each reading of the use of the log's disk, with this use. `shared_wait_s` is that of `Runtime`."""
        self._shared_wait_s = shared_wait_s
        self._replica = replica
        self._limits = limits
        self._segment_bytes = segment_bytes
        self._kept_bytes = max(segment_bytes // _KEPT, settings.largest_entry_bytes)
        self._look_s = min(LOOK_S, settings.retention_check_ms / 1000)
        self._disk = disk
        self._path = path
        self._on_disk_use = on_disk_use
        self._told_unknown = False
        # Whether the last look found room for the next segment.
        self._fitted = True
        # What was committed at the last look, and whether something waited to be committed.
        self._commit = 0
        self._waited = False

    async def run(self) -> None:
        while True:
            self.look()
            wait_s = min(self._look_s, LOOK_WHILE_REFUSING_S) if self._replica.no_room else self._look_s
            await asyncio.sleep(self._shared_wait_s(wait_s))

    def look(self) -> None:
        """Make one look. Only the task of this watch looks, because a look compares what is committed with the last
        look, and two looks at nearly the same time say nothing about progress."""
        usage = self._usage()
        if usage is None:
            self._replica.room_changed(self._failed())
        else:
            self._judge(usage)

    def use(self) -> DiskUse:
        """Return how full the disk is now. If the use cannot be read, the disk counts as empty."""
        usage = self._usage()
        return DiskUse() if usage is None else DiskUse(usage.ratio, usage.total)

    def _usage(self) -> DiskUsage | None:
        try:
            usage = self._disk.usage(self._path)
        except StoreError as error:
            if not self._told_unknown:
                log.warning("shard %d: the use of the disk cannot be read: %s", self._replica.shard, error)
            self._told_unknown = True
            return None
        self._told_unknown = False
        self._replica.disk_bytes = usage.total
        self._on_disk_use(usage)
        return usage

    def _judge(self, usage: DiskUsage) -> None:
        replica = self._replica
        failure, fits = replica.driver.failure, self._fits_next(usage)
        if isinstance(failure, NoSpaceError) and fits and not self._fitted:
            replica.driver.try_writing()  # earlier than the driver would try again
        self._fitted = fits
        own = self._full(usage) or self._no_next_segment(fits) or self._failed()
        was = replica.no_room
        replica.room_changed(own, elsewhere=self._majority_is_full())
        reason = replica.no_room
        if reason and not was:
            log.error("shard %d: %s", replica.shard, reason)
        elif was and not reason:
            log.info("shard %d: there is room again, so writes are accepted", replica.shard)

    def _fits_next(self, usage: DiskUsage) -> bool:
        return self._replica.log.next_is_prepared or usage.free >= self._segment_bytes

    def _full(self, usage: DiskUsage) -> str:
        if not must_refuse(self._limits, DiskUse(usage.ratio, usage.total)):
            return ""
        return (
            f"the disk of node {self._replica.node} is {usage.ratio:.0%} full ({self._path}), and writes are refused "
            f"from {self._limits.refuse_ratio:.0%} (`disk_refuse_ratio`): free some room, or remove old messages with "
            "`ledgermq cluster trim`; the node then accepts writes again"
        )

    def _no_next_segment(self, fits: bool) -> str:
        if fits or self._replica.log.left_in_segment >= self._kept_bytes:
            return ""
        return (
            f"the disk of node {self._replica.node} has no room for the next segment of the log "
            f"({self._segment_bytes / 1e6:,.0f} MB, {self._path}), so writes are refused: free some room, or remove "
            "old messages with `ledgermq cluster trim`; the node then accepts writes again"
        )

    def _majority_is_full(self) -> str:
        """Return a sentence if this node leads, too few voters take writes, and no entry was committed since the last
        look although some waited. Followers beyond `disk_refuse_ratio` still store entries as long as they can."""
        raft = self._replica.driver.raft
        waits, stands = raft.uncommitted_bytes > 0, raft.commit == self._commit
        stuck = waits and self._waited and stands
        self._commit, self._waited = raft.commit, waits
        voters = raft.configuration.voters
        full = [node for node, each in sorted(raft.progress.items()) if each.refuses_writes and node in voters]
        if not stuck or 2 * (len(voters) - len(full)) > len(voters):
            return ""
        return (
            f"the disks of nodes {', '.join(map(str, full))} are full or have failed, so no majority stores new "
            f"entries of shard {self._replica.shard}, and writes are refused: free some room on these nodes, or "
            "replace the disks; writes are then accepted again"
        )

    def _failed(self) -> str:
        failure = self._replica.driver.failure
        return self._replica.disk_full(failure) if isinstance(failure, NoSpaceError) else ""
