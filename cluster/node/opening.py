"""The opening of one shard's files, at once or after its log was repaired.

    open ──damaged──> repair ──> open ──> ...
      └──whole──> files      └──> files, with something left to be mended

Whatever is wrong with the log, in the end there are files that are open, or somebody waits and says why.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.node.metrics.node_metrics import Meters
from cluster.node.repair.entry_source import EntryReader, other_members
from cluster.node.repair.startup_repair import DamagedLog, Repair
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from cluster.node.shard_files import ShardFiles
from cluster.node.shard_log import configuration_at_start
from raft.configuration_entry import decode_configuration
from raft.v1 import raft_pb2
from store import Disk, Flaw, LogDamagedError, NodeDirectory, Snapshots


class Opening:
    def __init__(
        self,
        number: int,
        settings: NodeSettings,
        disk: Disk,
        directory: NodeDirectory,
        meters: Meters,
        runtime: Runtime,
        observe_append: Callable[[float], None],
    ) -> None:
        """Reads the log, or what came since the last checkpoint. Raises StoreError, ShardError; for a damaged log only
        where there are no other nodes."""
        self.files: ShardFiles | None = None
        self.repair: Repair | None = None
        """One of the two is there."""
        self.left: Flaw | None = None
        """Damage before the last checkpoint that nobody could repair, so that the log was opened with it."""
        self._number = number
        self._settings = settings
        self._disk = disk
        self._directory = directory
        self._meters = meters
        self._runtime = runtime
        self._observe_append = observe_append
        self._open(reads_again=True)

    async def finish(self) -> ShardFiles:
        """Repairs the log for as long as it cannot be opened. Raises StoreError, ShardError."""
        while self.repair is not None:
            await self.repair.run()
            self.left = self.repair.left
            self._open(reads_again=self.left is None)
        assert self.files is not None
        return self.files

    def read_entries(self, request: raft_pb2.ReadEntriesRequest, commit: int) -> raft_pb2.ReadEntriesResponse:
        """What another node's log lacks, from this one, which is known to be committed up to `commit`; or, while it is
        closed, from what is whole of it."""
        settings = self._settings
        if self.files is not None:
            size, log = self.files.opened.segment_bytes, self.files.opened.log
            reader: EntryReader | None = EntryReader(
                settings.cluster, self._number, settings.node, size, log.reading, commit, is_damaged=False
            )
        else:
            reader = self.repair.reader if self.repair is not None else None
        if reader is None:
            return raft_pb2.ReadEntriesResponse(refusal=f"node {settings.node} looks after its own log just now")
        return reader.answer(request)

    def _open(self, *, reads_again: bool) -> None:
        number, snapshots = self._number, self._directory.snapshots(self._number)
        self.repair = None
        try:
            self.files = ShardFiles.open(
                number,
                self._settings,
                self._disk,
                self._directory,
                snapshots,
                self._observe_append,
                self._runtime,
                reads_again=reads_again,
            )
        except LogDamagedError as damage:
            self.repair = self._repair_of(damage, snapshots, may_wait=reads_again)
        self._meters.log_damaged.labels(str(number)).set(int(self.repair is not None))

    def _repair_of(self, damage: LogDamagedError, snapshots: Snapshots, *, may_wait: bool) -> Repair:
        """Raises the damage where there is nobody to repair it from."""
        settings, number, checkpoint = self._settings, self._number, snapshots.checkpoint()
        members = {node: address for node, address in settings.peers.items() if node != settings.node}
        first = configuration_at_start(self._disk, self._directory.log_directory(number), snapshots.snapshot)
        newest = decode_configuration(checkpoint.snapshot.configuration) if checkpoint is not None else first
        for configuration in filter(None, (first, newest)):
            members |= other_members(configuration, settings)
        if not members:
            raise damage
        fixed = first or newest
        segment_bytes = fixed.segment_bytes if fixed is not None else settings.segment_bytes
        damaged = DamagedLog(number, segment_bytes, snapshots, members, damage, may_wait)
        repaired = self._meters.repaired_bytes.labels(str(number)).inc
        return Repair(damaged, settings, self._disk, self._directory, self._runtime, repaired)
