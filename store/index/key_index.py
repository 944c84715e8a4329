"""The key index: which batches of the CommitLog have a key of a topic, newest first.

    topic and key ──> hash ──> newest file: slot ──> entry ──> entry ──> ...      older files, one by one
                                                       └── position and size of a batch

It finds batches, not messages. A batch has one entry for each key in it, however many of its messages have
that key, because whoever wants a message must read its batch anyway; so a producer that gives a thousand messages one
key costs one entry, and a batch is linked by a few numpy calls. Hashes may collide: who reads the batch compares.

Files (key_file.py) begin small and become larger, up to RocketMQ's size; none is made before the first key comes. Each
tells the append times of its first and last batch, so a search in a time window passes over whole files. Like the
ConsumeQueues it holds committed messages only, is never flushed for safety's sake, and can be lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from store.disk.disk import Disk
from store.disk.numbered import is_number
from store.index.file_mark import FileMark
from store.index.key_file import MAX_CAPACITY, SLOTS_SUFFIX, Hashes, KeyFile

FIRST_CAPACITY = 1 << 14
GROWTH = 4
_OPEN_FILES = 16  # the one that grows, and older ones that are searched
_SPREAD = 0x9E37_79B9_7F4A_7C15  # 2**64 / the golden ratio: topic ids are small, slots go by the upper bits
_MASK = (1 << 64) - 1
FOR_EVER = 1 << 63


@dataclass(frozen=True, slots=True)
class KeyHit:
    """A batch in which some message has, as far as hashes can tell, the key."""

    position: int
    size: int
    append_time_ms: int


class KeyIndex:
    def __init__(
        self,
        disk: Disk,
        directory: Path,
        *,
        first_capacity: int = FIRST_CAPACITY,
        max_capacity: int = MAX_CAPACITY,
    ) -> None:
        """Empty; what an earlier run has left is to be wiped or adopted. Capacities are in entries."""
        self._disk = disk
        self.directory = directory
        self._first_capacity = first_capacity
        self._max_capacity = max_capacity
        self._files: list[KeyFile] = []
        # Those that may be open, least recently used first.
        self._used: list[KeyFile] = []
        # What lies before this position is not found any more.
        self.start = 0
        # A search that was begun before the last one is void.
        self.wipes = 0
        disk.make_directory(directory)

    def put(self, topic_id: int, position: int, size: int, append_time_ms: int, key_hashes: Hashes) -> None:
        """Add the batch of that topic in the CommitLog's entry of `size` bytes at `position`. `key_hashes`: of each of
        its messages, 0 where it has no key. Batches come in the log's order. One that was put already is passed over,
        so that whoever failed behind this can repeat it all; on an error nothing was added."""
        if self._files and position <= self._files[-1].last_position:
            return
        hashes = hashes_of_topic(topic_id, key_hashes)
        if len(hashes):
            self._growing(len(hashes), position, append_time_ms).put(hashes, position, size, append_time_ms)

    def search(
        self, topic_id: int, key_hash: int, *, begin_ms: int = 0, end_ms: int = FOR_EVER, before: int = FOR_EVER
    ) -> KeySearch:
        """Batches that were appended in [begin_ms, end_ms) and lie before position `before`, the newest first."""
        return KeySearch(self, key_hash ^ _of_topic(topic_id), begin_ms, end_ms, before)

    def drop_before(self, position: int) -> None:
        """The log begins at that position: nothing before it is found any more, and files without anything else are
        removed."""
        self.start = max(self.start, position)
        while self._files and self._files[0].last_position < self.start:
            dropped = self._files.pop(0)
            if dropped in self._used:
                self._used.remove(dropped)
            dropped.remove()

    def newest_before(self, position: int) -> KeyFile | None:
        """The newest file that begins with a batch before that position."""
        return next((file for file in reversed(self._files) if file.first_position < position), None)

    def touch(self, file: KeyFile) -> None:
        """It is about to be used; others may have to close for it."""
        if self._used and self._used[-1] is file:
            return
        if file in self._used:
            self._used.remove(file)
        elif len(self._used) == _OPEN_FILES:
            self._used.pop(0).close()
        self._used.append(file)

    # -- across starts

    def marks(self) -> list[FileMark]:
        """Its files as they are now."""
        marks = [mark for file in self._files for mark in (file.mark, file.slots_mark) if mark is not None]
        return sorted(marks, key=lambda mark: mark.name)

    def adopt(self, marks: Iterable[FileMark]) -> bool:
        """Continue at these marks; what files have behind them is overwritten, files without one are removed. False
        where any of them is not as its mark says: then it must be wiped, and filled again. To be asked of a new one."""
        assert not self._files
        by_name = {mark.name: mark for mark in marks}
        kept = {*by_name}
        slots = {name.removesuffix(SLOTS_SUFFIX): by_name.pop(name) for name in list(by_name) if SLOTS_SUFFIX in name}
        for name in sorted(by_name):
            file = KeyFile.adopted(self._disk, self.directory, by_name[name], slots.pop(name, None))
            if file is None:
                break
            self.touch(file)
            self._files.append(file)
        if slots or len(self._files) < len(by_name) or not all(file.is_sealed for file in self._files[:-1]):
            self.close()
            self._files.clear()
            return False
        for left in self._names_there():
            if left not in kept:
                self._disk.unlink(self.directory / left)
        return True

    def wipe(self) -> None:
        """Remove all of it, and what an earlier run has left."""
        self.close()
        self._files.clear()
        self.start = 0
        self.wipes += 1
        for name in self._names_there():
            self._disk.unlink(self.directory / name)

    def close(self) -> None:
        """Let go of the files. They are opened again when needed."""
        while self._used:
            self._used.pop().close()

    # -- files

    def _names_there(self) -> list[str]:
        """Of its files, used or not; others that lie there are nobody's business."""
        return [name for name in self._disk.list(self.directory) if is_number(name.removesuffix(SLOTS_SUFFIX))]

    def _growing(self, count: int, position: int, append_time_ms: int) -> KeyFile:
        """The file that takes so many entries: a batch is never in two."""
        last = self._files[-1] if self._files else None
        if last is not None and not last.is_sealed:
            self.touch(last)
            if last.has_room(count, append_time_ms):
                return last
            last.seal()
        wanted = last.capacity * GROWTH if last is not None else self._first_capacity
        file = KeyFile.begun(
            self._disk,
            self.directory,
            first_position=position,
            capacity=max(min(wanted, self._max_capacity), count),
            begin_ms=append_time_ms,
        )
        self.touch(file)
        self._files.append(file)
        return file


class KeySearch:
    """A walk from the newest entry of a slot to older ones, in as small steps as the caller likes: the index may grow,
    and lose its oldest files, between them."""

    def __init__(self, index: KeyIndex, hash_: int, begin_ms: int, end_ms: int, before: int) -> None:
        self._index = index
        self._hash = hash_
        self._begin_ms = begin_ms
        self._end_ms = end_ms
        self._before = before
        self._wipes = index.wipes
        self._file: KeyFile | None = None
        # Of the entry that is looked at next; 0: the next file's turn.
        self._number = 0
        # All files from this position on are done with.
        self._passed = before
        # A search before this position finds what this one has not found yet.
        self.reached = before
        self.done = False

    @property
    def is_void(self) -> bool:
        """Whether the index was wiped meanwhile: what was not found may be there."""
        return self._wipes != self._index.wipes

    def take(self, max_steps: int) -> list[KeyHit]:
        """What the next steps find, each of which looks at one entry or one file. Raises `IndexDamagedError`."""
        hits: list[KeyHit] = []
        while max_steps > 0 and not self.done and not self.is_void:
            max_steps -= 1
            if self._number == 0:
                self._enter_next_file()
            elif (hit := self._step()) is not None:
                hits.append(hit)
        return hits

    def _step(self) -> KeyHit | None:
        file = self._file
        assert file is not None
        if file.last_position < self._index.start:  # it was removed
            self.done = True
            return None
        self._index.touch(file)
        hash_, position, size, append_time_ms, self._number = file.entry(self._number)
        if position < self._index.start or append_time_ms < self._begin_ms:
            self.done = True  # and so are all older ones
            return None
        wanted = hash_ == self._hash and position < self._before and append_time_ms < self._end_ms
        # A batch that is no hit by this entry may be one by the next.
        self.reached = min(self.reached, position if wanted else position + 1)
        return KeyHit(position, size, append_time_ms) if wanted else None

    def _enter_next_file(self) -> None:
        """The newest that lies before what was passed, and may have something."""
        file = self._file = self._index.newest_before(self._passed)
        if file is None or file.end_ms < self._begin_ms:
            self.done = True
            return
        self._passed = file.first_position
        if file.begin_ms < self._end_ms:
            self._index.touch(file)
            self._number = file.newest(self._hash)


def hashes_of_topic(topic_id: int, key_hashes: Hashes) -> Hashes:
    """Those that a batch of the topic has in the index, each once, ascending. `key_hashes` as `KeyIndex.put` has it."""
    if len(key_hashes) == 1 and key_hashes[0]:  # one at a time, numpy's bookkeeping costs more than the work
        return key_hashes ^ np.uint64(_of_topic(topic_id))
    return np.unique(key_hashes[key_hashes != 0] ^ np.uint64(_of_topic(topic_id)))


def _of_topic(topic_id: int) -> int:
    """What sets the hashes of one topic's keys apart from those of another's."""
    return topic_id * _SPREAD & _MASK


def topic_spread(topic_ids: Hashes) -> Hashes:
    """The same for many topics at once."""
    spread: Hashes = topic_ids.astype(np.uint64) * np.uint64(_SPREAD)
    return spread
