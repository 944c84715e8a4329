"""A memory disk whose power can be cut. Bytes and names that were not synced are then there or not, each on its own.

Beside the page cache, the disk keeps every state of each sector, length and name since its last sync. A power loss
chooses one state for each of them independently. Therefore writes are lost, kept, torn and reordered. Only the tests
of the store use this disk; the simulator has its own disk.
"""

from __future__ import annotations

import random
from pathlib import Path

from store.disk.disk import Writable
from store.disk.memory_disk import MemoryDisk, MemoryFile
from store.errors import StoreError

# The sector size is small, so that small logs have many sectors.
SECTOR = 64


class Inode:
    """The bytes of one file, and the states that may be on the disk."""

    def __init__(self, content: bytearray) -> None:
        self.content = content
        # States of sectors and lengths since the last sync, oldest first. A sector that is not here is as in `content`.
        self.sectors: dict[int, list[bytes]] = {}
        self.lengths = [0]
        # Contents on the disk of sectors that a failed sync gave up, while the page cache calls its own content clean.
        self.forgotten: dict[int, bytes] = {}

    def sector(self, number: int) -> bytes:
        return bytes(self.content[number * SECTOR : (number + 1) * SECTOR]).ljust(SECTOR, b"\0")

    def about_to_change(self, offset: int, count: int) -> None:
        for number in range(offset // SECTOR, -(-(offset + count) // SECTOR)):
            self.sectors.setdefault(number, [self.forgotten.pop(number, self.sector(number))])

    def changed(self, offset: int, count: int) -> None:
        for number in range(offset // SECTOR, -(-(offset + count) // SECTOR)):
            self.sectors[number].append(self.sector(number))
        self.lengths.append(len(self.content))

    def sync(self) -> None:
        self.sectors.clear()
        self.lengths = [len(self.content)]

    def fail_to_sync(self) -> None:
        self.forgotten.update({number: states[0] for number, states in self.sectors.items()})
        self.sectors.clear()

    def after_power_loss(self, chance: random.Random) -> bytearray:
        lost = bytearray(self.content)
        for number, state in self.forgotten.items():
            lost[number * SECTOR : (number + 1) * SECTOR] = state
        for number, states in self.sectors.items():
            lost[number * SECTOR : (number + 1) * SECTOR] = chance.choice(states)
        length = chance.choice(self.lengths)
        return (lost + bytes(max(0, length - len(lost))))[:length]


class PowerFile(MemoryFile):
    def __init__(self, disk: PowerDisk, path: Path, inode: Inode) -> None:
        super().__init__(disk, path, inode.content)
        self._inode = inode

    def write(self, offset: int, *pieces: Writable) -> None:
        count = sum(map(len, pieces))
        self._inode.about_to_change(offset, count)
        try:
            super().write(offset, *pieces)
        finally:
            self._inode.changed(offset, count)

    def sync(self) -> None:
        try:
            super().sync()
        except StoreError:
            self._inode.fail_to_sync()
            raise
        self._inode.sync()


class PowerDisk(MemoryDisk):
    def __init__(self) -> None:
        super().__init__()
        self._inodes: dict[int, Inode] = {}
        # The names on the disk, and what was done to them since their directories were synced.
        self._synced_names: dict[Path, Inode] = {}
        self._changes: list[dict[Path, Inode | None]] = []

    @staticmethod
    def of(files: dict[Path, bytearray], directories: set[Path]) -> PowerDisk:
        """Return a disk with this content, all of it synced."""
        disk = PowerDisk()
        disk._directories = set(directories)
        for path, content in files.items():
            disk._files[path] = bytearray(content)
            disk._synced_names[path] = disk._inode(path)
            disk._inode(path).sync()
        return disk

    def copied(self) -> PowerDisk:
        """Return a disk with the same content, all of it synced, as the start of a trial."""
        return PowerDisk.of(self._files, self._directories)

    def alive_again(self) -> PowerDisk:
        """Return the disk of the next process. The page cache stays, and unsynced bytes may still be lost."""
        self._dead, self._budget = False, None
        self._locks.clear()
        return self

    def after_power_loss(self, chance: random.Random) -> PowerDisk:
        names = dict(self._synced_names)
        for change in self._changes:
            if chance.random() < 0.5:
                names.update({path: inode for path, inode in change.items() if inode is not None})
                for path in [path for path, inode in change.items() if inode is None]:
                    names.pop(path, None)
        return PowerDisk.of({path: inode.after_power_loss(chance) for path, inode in names.items()}, self._directories)

    def create(self, path: Path, size: int) -> PowerFile:
        try:
            super().create(path, size)
        finally:
            if path in self._files and self._synced_names.get(path) is not self._inode(path):
                inode = self._inode(path)
                inode.lengths.append(len(inode.content))
                self._changes.append({path: inode})
        return PowerFile(self, path, self._inode(path))

    def open(self, path: Path) -> PowerFile:
        super().open(path)
        return PowerFile(self, path, self._inode(path))

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        self._changes.append({old: None, new: self._inode(new)})

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._changes.append({path: None})

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self._changes = [change for change in self._changes if next(iter(change)).parent != path]
        for name in [name for name in self._synced_names if name.parent == path]:
            del self._synced_names[name]
        self._synced_names.update({name: self._inode(name) for name in self._files if name.parent == path})

    def _inode(self, path: Path) -> Inode:
        content = self._files[path]
        return self._inodes.setdefault(id(content), Inode(content))
