"""Does the regular work of a running replica: it writes checkpoints, applies retention, and scrubs and repairs the
log. Damage is found by the scrub, or by a read of the log."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from cluster.node.repair.scrub import Scrub
from cluster.node.repair.scrub_repairer import ScrubRepairer
from cluster.node.replica.checkpoints import INTERVAL_S, Checkpoints
from cluster.node.replica.disk_threads import DiskThreads
from cluster.node.replica.opening import Opening
from cluster.node.replica.retention import RetentionWatch, bounds_of
from cluster.node.replica.room_watch import RoomWatch
from cluster.node.replica.shard_files import ShardFiles
from cluster.node.resources import NodeResources
from ledger.broker.broker_replica import BrokerReplica
from store import Flaw, StoreError

log = logging.getLogger("ledgermq.node.shard")

NO_CHECKPOINT = f"a checkpoint could not be written, and will be tried again in {INTERVAL_S:.0f} s"


class ReplicaUpkeep:
    """`ReplicaUpkeep` runs the background tasks of the replica of shard `number`, from the start of the replica to
    its stop: checkpoints, retention and scrub."""

    def __init__(
        self, number: int, node: NodeResources, opening: Opening, replica: BrokerReplica, threads: DiskThreads
    ) -> None:
        assert opening.files is not None, "the log is being repaired"
        self._number = number
        self._node = node
        self._opening = opening
        self._files: ShardFiles = opening.files
        self._checkpoints: Checkpoints = opening.files.checkpoints
        self._replica = replica
        self._threads = threads
        label = str(number)
        self._damaged = node.meters.log_damaged.labels(label)
        # Damage that a read has found. One place is enough: a read of damage that is left reports it again.
        self._found: asyncio.Queue[Flaw] = asyncio.Queue(1)
        self._one_repair = asyncio.Lock()
        self._repairer = ScrubRepairer(
            replica,
            node.settings,
            opening.files.opened.segment_bytes,
            node.runtime,
            node.events,
            node.meters.repaired_bytes.labels(label).inc,
        )

    def start(self) -> list[asyncio.Task[None]]:
        """Start the background tasks, and return them."""
        vital, room = self._node.runtime.vital, self._room()
        self._files.opened.log.reading.on_damage = self._note_damage
        return [
            vital.spawn(self._keep_checkpoints(), f"checkpoints of shard {self._number}"),
            vital.spawn(room.run(), f"room on the disk of shard {self._number}"),
            vital.spawn(self._retention(room).run(), f"retention of shard {self._number}"),
            vital.spawn(self._scrub(), f"scrub of shard {self._number}"),
            vital.spawn(self._repair_found(), f"repair of shard {self._number}"),
        ]

    @property
    def damage(self) -> str:
        """Return a sentence about the damage that scrub repair is repairing, or "" if there is no damage."""
        return self._repairer.reason

    def save_last_checkpoint(self) -> None:
        """Write a checkpoint of the whole log, so that the next start does not read the log."""
        try:
            draft = self._checkpoints.draft(self._replica)
            if draft is not None:
                self._checkpoints.write(draft, self._files.opened.log.sync)
        except StoreError as failure:
            log.error(
                "shard %d: the last checkpoint could not be written, so the next start reads more of the log: %s",
                self._number,
                failure,
            )

    async def _keep_checkpoints(self) -> None:
        while True:
            await asyncio.sleep(self._node.runtime.shared_wait_s(INTERVAL_S))
            try:
                draft = self._checkpoints.draft(self._replica)
            except StoreError as failure:  # for example, too many files are open
                log.warning("shard %d: %s: %s", self._number, NO_CHECKPOINT, failure)
                continue
            if draft is not None:
                work = partial(self._checkpoints.write, draft, self._files.opened.log.sync)
                await self._threads.beside(work, NO_CHECKPOINT)

    def _room(self) -> RoomWatch:
        node = self._node
        return RoomWatch(
            self._replica,
            node.settings,
            bounds_of(node.settings),
            self._files.opened.segment_bytes,
            node.disk,
            node.directory.log_directory(self._number),
            node.meters.disk_used,
            node.runtime.shared_wait_s,
        )

    def _retention(self, room: RoomWatch) -> RetentionWatch:
        return RetentionWatch(self._replica, self._node.settings, room, self._node.runtime)

    async def _scrub(self) -> None:
        """Repair the damage that startup repair has left in the log. After the repair, scrub the entries that the
        start did not read."""
        opened = self._files.opened
        if self._opening.left is not None:
            await self._repair(self._opening.left)
            self._opening.left = None
        await Scrub(self._node.disk, opened.log, opened.segment_bytes, self._repair).run(self._threads.beside)

    def _note_damage(self, flaw: Flaw) -> None:
        if not self._found.full():
            self._found.put_nowait(flaw)

    async def _repair_found(self) -> None:
        """Repair the damage that reads find."""
        while True:
            await self._repair(await self._found.get())

    async def _repair(self, flaw: Flaw) -> None:
        async with self._one_repair:
            self._damaged.set(1)
            await self._repairer.repair(flaw, self._threads.beside)
            self._damaged.set(0)
