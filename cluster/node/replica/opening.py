"""Opens the files of one shard, after a startup repair if the log is damaged.

    open ──damaged──> startup repair ──> open ──> ...
      └──whole──> files              └──> files, with damage left for scrub repair

`finish` returns when the files are open. Until the files are open, `repair.reason` says why they are not open. The
event loop serves other shards meanwhile, so after a repair a helper thread opens the files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from cluster.node.process.workers import result_of
from cluster.node.repair.entry_source import EntryReader, other_members
from cluster.node.repair.startup_repair import DamagedLog, StartupRepair
from cluster.node.replica.shard_files import ShardFiles
from cluster.node.replica.shard_log import configuration_at_start
from cluster.node.resources import NodeResources
from ledger.broker.node_events import NodeEvents
from raft.configuration_entry import decode_configuration
from raft.v1 import raft_pb2
from store import Flaw, LogDamagedError, Snapshots


class Opening:
    """`Opening` opens the files of shard `number`."""

    def __init__(
        self,
        number: int,
        node: NodeResources,
        observe_append: Callable[[float], None],
    ) -> None:
        """Open the files and read the entries after the last checkpoint. Raise StoreError or ShardError if the
        files cannot be opened. A damaged log raises LogDamagedError only if no other node can repair it. If another
        node can repair the log, `finish` repairs it."""
        # Exactly one of `files` and `repair` is not None.
        self.files: ShardFiles | None = None
        self.repair: StartupRepair | None = None
        # Damage before the last checkpoint that no other node could repair, so that the log was opened with it.
        self.left: Flaw | None = None
        self._number = number
        self._node = node
        self._settings = node.settings
        self._observe_append = observe_append
        self._adopt(self._open(node, reads_again=True))

    async def finish(self) -> ShardFiles:
        """Repair the log until it can be opened, and return the open files. Raise StoreError or ShardError if the
        files cannot be opened."""
        while self.repair is not None:
            await self.repair.run()
            self.left = self.repair.left
            await self._open_beside(reads_again=self.left is None)
        assert self.files is not None
        return self.files

    def read_entries(self, request: raft_pb2.ReadEntriesRequest, commit: int) -> raft_pb2.ReadEntriesResponse:
        """Return the entries that another node requests to repair its log. The entries come from this log, which is
        committed up to `commit`. While this log is damaged, only the whole entries before its first flaw are
        returned."""
        settings = self._settings
        if self.files is not None:
            size, log = self.files.opened.segment_bytes, self.files.opened.log
            reader: EntryReader | None = EntryReader(
                settings.cluster, self._number, settings.node, size, log.reading, commit, is_damaged=False
            )
        else:
            reader = self.repair.reader if self.repair is not None else None
        if reader is None:
            return raft_pb2.ReadEntriesResponse(refusal=f"node {settings.node} is still reading its own damaged log")
        return reader.answer(request)

    async def _open_beside(self, *, reads_again: bool) -> None:
        """Open the files on a helper thread, because without a checkpoint the opening reads the whole log. If the
        caller is cancelled meanwhile, the files are adopted too, so that the owner of this object closes them."""
        node = self._node
        # The helper thread must not change the events of the node, which the event loop reads.
        events, opened = NodeEvents(node.runtime.now_ms), list[ShardFiles | StartupRepair]()
        work = partial(self._open, replace(node, events=events), reads_again=reads_again)
        worker = node.runtime.worker("repair")
        try:
            await result_of(worker, lambda: opened.append(work()))
        finally:
            await worker.stop()
            for event in events.after(0):
                node.events.happened(event.shard, event.kind, event.text)
            for result in opened:
                self._adopt(result)

    def _open(self, node: NodeResources, *, reads_again: bool) -> ShardFiles | StartupRepair:
        """Return the open files, or a startup repair if the log is damaged."""
        snapshots = node.directory.snapshots(self._number)
        try:
            return ShardFiles.open(self._number, node, snapshots, self._observe_append, reads_again=reads_again)
        except LogDamagedError as damage:
            return self._repair_of(damage, snapshots, may_wait=reads_again)

    def _adopt(self, opened: ShardFiles | StartupRepair) -> None:
        if isinstance(opened, StartupRepair):
            self.files, self.repair = None, opened
        else:
            self.files, self.repair = opened, None
        meters, label = self._node.meters, str(self._number)
        if self.files is not None and self.files.checkpoints.flaw:
            meters.checkpoints_ignored.labels(label).inc()
        meters.log_damaged.labels(label).set(int(self.repair is not None))

    def _repair_of(self, damage: LogDamagedError, snapshots: Snapshots, *, may_wait: bool) -> StartupRepair:
        """Return a startup repair of the damaged log. Raises `damage` if no other node is known."""
        node, settings, number, checkpoint = self._node, self._settings, self._number, snapshots.checkpoint()
        members = node.other_peers
        first = configuration_at_start(node.disk, node.directory.log_directory(number), snapshots.snapshot)
        newest = decode_configuration(checkpoint.snapshot.configuration) if checkpoint is not None else first
        for configuration in filter(None, (first, newest)):
            members |= other_members(configuration, settings)
        if not members:
            raise damage
        fixed = first or newest
        segment_bytes = fixed.segment_bytes if fixed is not None else settings.segment_bytes
        damaged = DamagedLog(number, segment_bytes, snapshots, members, damage, may_wait)
        repaired = node.meters.repaired_bytes.labels(str(number)).inc
        return StartupRepair(damaged, settings, node.disk, node.directory, node.runtime, node.events, repaired)
