"""The upgrade of a data directory from format 1 to format 2: the upgrade renames files and directories, and changes no
bytes in the files.

    format 1                       format 2
    group-0/                       shard-0/
    group-0/base, base.next        shard-0/snapshot, snapshot.next
    group-0/bases/                 shard-0/snapshots/

The caller holds the directory's lock. The caller writes the new format number only after the upgrade has returned. If
the process dies before it has written the new format number, the next start repeats the upgrade and skips the renames
that are done. A shard's own files are renamed before the shard's directory, and every directory is synced. After a
power loss, the names on the disk tell the next start how to complete the upgrade.

No shard may start before the upgrade is complete. If a node looked for `shard-0` while its data was still in
`group-0`, it would find no data. If the node found no data, it would treat itself as empty and help to form a new
cluster over the old data.
"""

from __future__ import annotations

import re
from pathlib import Path

from store.disk.disk import Disk
from store.errors import DirectoryUpgradeError

FORMAT = 2
UPGRADABLE = 1

_OLD_SHARD = re.compile(r"group-(\d+)")
_OLD_NAMES = {"base": "snapshot", "base.next": "snapshot.next", "bases": "snapshots"}


def old_shards(disk: Disk, root: Path) -> list[int]:
    """Return the numbers of the shards that still have a directory of format 1 below `root`, ascending."""
    found = (_OLD_SHARD.fullmatch(name) for name in disk.list(root))
    return sorted(int(match[1]) for match in found if match is not None)


def upgrade(disk: Disk, root: Path) -> None:
    """Rename all files and directories below `root` to their names in format 2, durably.

    Raise `DirectoryUpgradeError` before any rename if a shard has directories of format 1 and of format 2."""
    shards = [(root / f"group-{shard}", root / f"shard-{shard}") for shard in old_shards(disk, root)]
    for old, new in shards:
        _refuse_both(disk, root, old, new)
    for old, new in shards:
        for old_name, new_name in _OLD_NAMES.items():
            if disk.exists(old / old_name):
                _refuse_both(disk, root, old / old_name, old / new_name)
                disk.rename(old / old_name, old / new_name)
        disk.sync_directory(old)
        disk.rename(old, new)
    disk.sync_directory(root)


def _refuse_both(disk: Disk, root: Path, old: Path, new: Path) -> None:
    if disk.exists(new):
        raise DirectoryUpgradeError(root, f"both {old} (format 1) and {new} (format 2) exist")
