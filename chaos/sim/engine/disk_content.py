"""Holds the files and directories of a simulated disk. Each file and each directory has two states: the state that
processes see, and the state on the platter.

A change of a file or directory takes effect in the page cache at once. The change reaches the platter by a sync, or at
a random time without a sync. After a power cut the disk has the content of the platter and a random part of the
unsynced changes. At a power cut, each sector or name of an unsynced change is kept or lost as a whole. A unit is a
sector of 512 bytes, a page of 4 KiB, a name or a file length.

    Inode       live bytes     | durable bytes, and the set of pages that differ
    Directory   names          | durable names, and the changes since the last sync in order
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Union

SECTOR = 512
PAGE = 4096


@dataclass(frozen=True, slots=True)
class Crash:
    """Decides which unsynced changes survive a power cut. `keeps` is the probability that an unsynced change
    survives."""

    random: Random
    # Unit that survives whole or not at all, in bytes: SECTOR or PAGE.
    unit: int
    keeps: float
    # Whether name changes survive in the order in which they were made, as with a journal.
    ordered_names: bool
    # Effects that occurred: lost_write, torn_write, out_of_order, lost_rename.
    happened: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def drawn(random: Random) -> Crash:
        return Crash(
            random,
            unit=random.choice((SECTOR, PAGE)),
            keeps=random.choice((0.0, 0.5, 0.9, 1.0)),
            ordered_names=random.random() < 0.5,
        )

    def keep(self) -> bool:
        return self.random.random() < self.keeps


class Inode:
    """Holds the bytes of one file in the page cache and on the platter."""

    __slots__ = ("_dropped", "dirty", "durable", "durable_size", "live")

    def __init__(self, size: int) -> None:
        self.live = bytearray(size)
        self.durable = bytearray()
        # File length on the platter. `durable` may be shorter or longer; `_on_platter` adjusts it.
        self.durable_size = 0
        # Numbers of the pages that differ from the platter.
        self.dirty: set[int] = set()
        # Pages that a failed sync marked clean although they are not on the platter.
        self._dropped: set[int] = set()

    def write(self, offset: int, data: bytes) -> None:
        end, size = offset + len(data), len(self.live)
        if offset > size:
            self.live.extend(bytes(offset - size))
        self.live[offset:end] = data
        if data:
            self.dirty.update(range(offset // PAGE, (end - 1) // PAGE + 1))

    def sync(self) -> None:
        for page in self.dirty:
            self._promote(page * PAGE, PAGE)
        self.dirty.clear()
        self.durable_size = len(self.live)

    def drop(self) -> None:
        """Simulate a failed sync: mark the dirty pages as clean without writing them to the platter."""
        self._dropped |= self.dirty
        self.dirty.clear()

    def write_back(self, offset: int) -> None:
        """Write the sector at `offset` to the platter, as the kernel can do at any time."""
        self._promote(offset - offset % SECTOR, SECTOR)

    def after_kill(self, random: Random, *, evicts: bool) -> Inode:
        """Return the file as the next process finds it after a kill. If `evicts` is True, each page that a failed
        sync dropped returns with probability 1/2 to its state on the platter."""
        inode = Inode(0)
        inode.live, inode.durable, inode.durable_size = bytearray(self.live), self.durable, self.durable_size
        inode.dirty, inode._dropped = self.dirty, self._dropped
        if evicts:
            for page in sorted(self._dropped - self.dirty):
                if random.random() < 0.5:
                    inode._revert(page)
        return inode

    def after_power_cut(self, crash: Crash) -> Inode:
        """Return the file as the next process finds it after a power cut."""
        size = self.durable_size
        if size != len(self.live) and crash.keep():
            size = len(self.live)
        inode = Inode(size)
        content = self._on_platter(size)
        lost, kept = False, False
        for at in self._unsynced(crash.unit, content):
            if crash.keep():
                crash.happened["out_of_order"] += lost
                kept = True
                content[at : at + crash.unit] = self.live[at : min(at + crash.unit, size)]
            else:
                lost = True
        crash.happened["lost_write"] += lost
        crash.happened["torn_write"] += lost and kept
        inode.live[:] = content[:size].ljust(size, b"\0")
        inode.durable, inode.durable_size = bytearray(inode.live), size
        return inode

    def flushed(self, first: int, end: int) -> bytes:
        """Return the bytes between two offsets that a power cut at this moment certainly keeps."""
        end = min(end, self.durable_size)
        return bytes(self.durable[first:end]).ljust(end - first, b"\0")

    def can_tear(self, unit: int) -> bool:
        """Return True if a power cut at this moment could keep some unsynced units of this file and lose other
        units."""
        return bool(self.dirty) and len(self._unsynced(unit, self._on_platter(len(self.live)))) > 1

    def _unsynced(self, unit: int, platter: bytearray) -> list[int]:
        """Return, in ascending order, the offset of each unit of the file that differs between the page cache and
        the platter."""
        size, live = len(platter), self.live
        starts = (at for page in sorted(self.dirty) for at in range(page * PAGE, min((page + 1) * PAGE, size), unit))
        return [at for at in starts if live[at : at + unit] != platter[at : at + unit]]

    def _promote(self, at: int, count: int) -> None:
        if len(self.durable) < at:
            self.durable.extend(bytes(at - len(self.durable)))
        self.durable[at : at + count] = self.live[at : at + count]

    def _revert(self, page: int) -> None:
        start, end = page * PAGE, min((page + 1) * PAGE, len(self.live))
        self.live[start:end] = self._on_platter(end)[start:end]

    def _on_platter(self, size: int) -> bytearray:
        return bytearray(self.durable[:size].ljust(size, b"\0"))


Node = Union[Inode, "Directory"]


@dataclass(slots=True)
class Directory:
    """Holds the names of one directory in the page cache and on the platter. `_changes` has the changes of names
    that are not on the platter yet: (name, node) for a new name, or (name, None) for a removal."""

    names: dict[str, Node] = field(default_factory=dict)
    _durable: dict[str, Node] = field(default_factory=dict)
    _changes: list[list[tuple[str, Node | None]]] = field(default_factory=list)

    def change(self, *changes: tuple[str, Node | None]) -> None:
        """Apply all `changes` of names as one change. A power cut keeps either all changes of the call or none of
        them."""
        _apply(self.names, changes)
        self._changes.append([*changes])

    def sync(self) -> None:
        self._durable = dict(self.names)
        self._changes.clear()

    def flushed(self, name: str) -> Node | None:
        """Return what a power cut at this moment certainly keeps under this name, or None."""
        return self._durable.get(name) if not self._changes or self.names.get(name) is self._durable.get(name) else None

    @property
    def has_changes(self) -> bool:
        """Whether this directory has an unsynced change of names, which a power cut could undo."""
        return bool(self._changes)

    def after_kill(self, random: Random, *, evicts: bool) -> Directory:
        copies: dict[int, Node] = {}

        def copy(node: Node) -> Node:
            if id(node) not in copies:
                copies[id(node)] = node.after_kill(random, evicts=evicts)
            return copies[id(node)]

        return Directory(
            {name: copy(node) for name, node in self.names.items()},
            {name: copy(node) for name, node in self._durable.items()},
            [[(name, node and copy(node)) for name, node in group] for group in self._changes],
        )

    def after_power_cut(self, crash: Crash) -> Directory:
        names = dict(self._durable)
        for group in self._changes:
            if crash.keep():
                _apply(names, group)
                continue
            crash.happened["lost_rename"] += 1
            if crash.ordered_names:
                break
        survived: dict[str, Node] = {name: node.after_power_cut(crash) for name, node in names.items()}
        return Directory(survived, dict(survived))


def _apply(
    names: dict[str, Node], changes: tuple[tuple[str, Node | None], ...] | list[tuple[str, Node | None]]
) -> None:
    for name, node in changes:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node
