"""The open files of one shard, except the vote file: log, indexes and checkpoints.

`ShardFiles.open` opens the files in a fixed order. If the log is damaged, `open` closes all files again. Startup
repair can then change the closed log, and open all files again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.node.process.file_limit import queues_open_at_once
from cluster.node.replica.checkpoints import Checkpoints
from cluster.node.replica.shard_log import ShardLog
from cluster.node.resources import NodeResources
from store import ConsumeQueues, KeyIndex, PositionFiles, Snapshots, TimedIndex


@dataclass(frozen=True, slots=True)
class ShardFiles:
    queues: ConsumeQueues
    keys: KeyIndex
    timed: TimedIndex
    checkpoints: Checkpoints
    opened: ShardLog

    @staticmethod
    def open(
        number: int,
        node: NodeResources,
        snapshots: Snapshots,
        observe_append: Callable[[float], None],
        *,
        reads_again: bool,
    ) -> ShardFiles:
        """Open all files and read the entries after the last checkpoint. With `reads_again`, read some entries
        before the checkpoint too. Raise StoreError or ShardError if the files cannot be opened."""
        disk, directory = node.disk, node.directory
        open_queues = queues_open_at_once(node.runtime.file_limit(), max(node.settings.shards, number + 1))
        queues = ConsumeQueues(disk, directory.queues_directory(number), open_queues)
        keys = KeyIndex(disk, directory.keys_directory(number))
        timed = TimedIndex(disk, directory.timed_directory(number))
        try:
            positions = PositionFiles(disk, directory.positions_directory(number))
            checkpoints = Checkpoints(snapshots, positions, queues, keys, timed)
            opened = ShardLog(number, node, snapshots, checkpoints, observe_append, reads_again=reads_again)
        except BaseException:
            queues.close()
            keys.close()
            timed.close()
            raise
        return ShardFiles(queues, keys, timed, checkpoints, opened)

    def close(self) -> None:
        """Flush the log, write a clean mark, and close all files."""
        self._close_indexes()
        self.opened.close()

    def abandon(self) -> None:
        """Close all files without a flush and without a clean mark, because the files will be deleted."""
        self._close_indexes()
        self.opened.abandon()

    def _close_indexes(self) -> None:
        self.checkpoints.close()
        self.queues.close()
        self.keys.close()
        self.timed.close()
