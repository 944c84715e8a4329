"""The files of one shard but its vote: log, indexes and checkpoints, opened together.

They are opened in one order, and when the log turns out to be damaged all are let go again, so that it can be
repaired and everything opened once more from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.node.checkpoints import Checkpoints
from cluster.node.file_limit import queues_open_at_once
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from cluster.node.shard_log import ShardLog
from store import ConsumeQueues, Disk, KeyIndex, NodeDirectory, PositionFiles, Snapshots


@dataclass(frozen=True, slots=True)
class ShardFiles:
    queues: ConsumeQueues
    keys: KeyIndex
    checkpoints: Checkpoints
    opened: ShardLog

    @staticmethod
    def open(
        number: int,
        settings: NodeSettings,
        disk: Disk,
        directory: NodeDirectory,
        snapshots: Snapshots,
        observe_append: Callable[[float], None],
        runtime: Runtime,
        *,
        reads_again: bool,
    ) -> ShardFiles:
        """Reads the log, or what came since the last checkpoint; and, if it `reads_again`, some of what came before.
        Raises StoreError, ShardError."""
        open_queues = queues_open_at_once(runtime.file_limit(), max(settings.shards, number + 1))
        queues = ConsumeQueues(disk, directory.queues_directory(number), open_queues)
        keys = KeyIndex(disk, directory.keys_directory(number))
        try:
            positions = PositionFiles(disk, directory.positions_directory(number))
            checkpoints = Checkpoints(snapshots, positions, queues, keys)
            opened = ShardLog(
                number,
                settings,
                disk,
                directory,
                observe_append,
                runtime,
                snapshots,
                checkpoints,
                reads_again=reads_again,
            )
        except BaseException:
            queues.close()
            keys.close()
            raise
        return ShardFiles(queues, keys, checkpoints, opened)

    def close(self) -> None:
        """Orderly: the log is flushed, with a clean mark."""
        self.checkpoints.close()
        self.queues.close()
        self.keys.close()
        self.opened.close()
