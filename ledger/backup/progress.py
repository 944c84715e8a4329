"""Remembers what an unfinished backup has copied, in the target. After a kill, the next backup continues there.

The file is only a list of pieces that are stored. A piece that is missing in it is copied again, under the same name.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping

from ledger.backup.errors import DamagedBackupError
from ledger.backup.manifest import ShardBackup, decode_shard, encode_shards
from ledger.backup.targets.target import BackupTarget

UNFINISHED = "unfinished.json"
# How often it is written, in seconds. It has all pieces of a backup, so it is not written after each of them.
_EVERY_S = 2.0


class Progress:
    def __init__(self, target: BackupTarget, cluster: str, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._target = target
        self._cluster = cluster
        self._monotonic_s = monotonic_s
        self._saved_s = float("-inf")
        self.shards: dict[int, ShardBackup] = {}

    def load(self) -> bool:
        """Read what an unfinished backup of this cluster has copied. Return False if there is none. A file that is
        damaged counts as none."""
        try:
            content = self._target.get(UNFINISHED)
            if content is None:
                return False
            found = json.loads(content)
            if found["cluster"] != self._cluster or found["sha256"] != _digest(found["shards"]):
                return False
            self.shards = {shard["shard"]: decode_shard(shard) for shard in found["shards"]}
        except (DamagedBackupError, ValueError, TypeError, KeyError):
            return False
        return True

    def copied(self, shard: ShardBackup) -> None:
        """Remember what is stored of a shard. Raises BackupError."""
        self.shards[shard.shard] = shard
        if self._monotonic_s() - self._saved_s >= _EVERY_S:
            self.save()

    def save(self) -> None:
        """Write the file. Raises BackupError."""
        shards = encode_shards(self.shards)
        fields = {"cluster": self._cluster, "shards": shards, "sha256": _digest(shards)}
        self._target.put(UNFINISHED, json.dumps(fields).encode())
        self._saved_s = self._monotonic_s()

    def forget(self) -> None:
        """Remove the file, after the manifest was written. Raises BackupError."""
        self._target.delete(UNFINISHED)


def _digest(shards: object) -> str:
    return hashlib.sha256(json.dumps(shards, sort_keys=True).encode()).hexdigest()


def furthest(first: Mapping[int, ShardBackup], second: Mapping[int, ShardBackup]) -> dict[int, ShardBackup]:
    """Return of each shard the copy that reaches further."""
    shards = dict(first)
    for number, shard in second.items():
        if number not in shards or (shard.tail.index, shard.start.index) >= (
            shards[number].tail.index,
            shards[number].start.index,
        ):
            shards[number] = shard
    return shards
