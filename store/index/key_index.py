"""The key index finds the batches of the CommitLog that contain a key of a topic, newest first.

    topic and key ──> hash ──> newest file: slot ──> entry ──> entry ──> ...      older files, one by one
                                                       └── position and size of a batch

The key index finds batches, not messages. A batch has one entry for each distinct key in it, even if many of its
messages have that key, because a reader of a message must read its whole batch anyway. For example, a thousand
messages with the same key in one batch need only one entry. A few numpy calls link all entries of a batch. Two keys
may have the same hash, so the reader of a batch must compare the keys.

The first file (key_file.py) is small. Later files are larger, up to the size of RocketMQ's index files. The first file
is made when the first key is added. The append times of the first and last batch of each file are known, so a search
in a time range skips whole files. The key index contains only committed batches. The files of the key index are not
flushed. If a file differs from its file mark, the key index is built again from the log.
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
_OPEN_FILES = 16  # the file that grows, and older files that are searched
# 2**64 / the golden ratio: topic ids are small numbers, and the upper bits of a hash choose its slot.
_SPREAD = 0x9E37_79B9_7F4A_7C15
_MASK = (1 << 64) - 1
FOR_EVER = 1 << 63


@dataclass(frozen=True, slots=True)
class KeyHit:
    """A batch that contains a key with the hash of the searched key. The batch probably contains a message with the
    searched key."""

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
        """A new object is empty: call `adopt` to use the files of an earlier run, or `wipe` to remove them. A
        capacity is the maximum number of entries in a file."""
        self._disk = disk
        self.directory = directory
        self._first_capacity = first_capacity
        self._max_capacity = max_capacity
        self._files: list[KeyFile] = []
        # Files that may be open, least recently used first.
        self._used: list[KeyFile] = []
        # Batches before this position are not found any more.
        self.start = 0
        # Number of wipes. A search that was begun before the last wipe is void.
        self.wipes = 0
        disk.make_directory(directory)

    def put(self, topic_id: int, position: int, size: int, append_time_ms: int, key_hashes: Hashes) -> None:
        """Add the batch of the topic that is in the CommitLog's entry of `size` bytes at `position`. `key_hashes`
        has the hash of each key of its messages, and 0 for a message without a key. Batches are added in the order of
        the log. If the batch was added before, nothing happens, so a caller may repeat the call. If the call raises an
        error, the batch was not added."""
        if self._files and position <= self._files[-1].last_position:
            return
        hashes = hashes_of_topic(topic_id, key_hashes)
        if len(hashes):
            self._growing(len(hashes), position, append_time_ms).put(hashes, position, size, append_time_ms)

    def search(
        self, topic_id: int, key_hash: int, *, begin_ms: int = 0, end_ms: int = FOR_EVER, before: int = FOR_EVER
    ) -> KeySearch:
        """Return a search for batches that were appended in [begin_ms, end_ms) and lie before position `before`.
        The search is an iterator that finds the newest batch first."""
        return KeySearch(self, key_hash ^ _of_topic(topic_id), begin_ms, end_ms, before)

    def drop_before(self, position: int) -> None:
        """Drop the batches before `position`, where the log now begins. Searches no longer find the dropped
        batches. Remove the files that hold only dropped batches."""
        self.start = max(self.start, position)
        while self._files and self._files[0].last_position < self.start:
            dropped = self._files.pop(0)
            if dropped in self._used:
                self._used.remove(dropped)
            dropped.remove()

    def newest_before(self, position: int) -> KeyFile | None:
        """Return the newest file whose first batch lies before `position`."""
        return next((file for file in reversed(self._files) if file.first_position < position), None)

    def touch(self, file: KeyFile) -> None:
        """Mark the file as most recently used. If too many files are open, close the least recently used file."""
        if self._used and self._used[-1] is file:
            return
        if file in self._used:
            self._used.remove(file)
        elif len(self._used) == _OPEN_FILES:
            self._used.pop(0).close()
        self._used.append(file)

    # -- across starts

    def marks(self) -> list[FileMark]:
        """Return the file marks that describe all files of the index at this moment."""
        marks = [mark for file in self._files for mark in (file.mark, file.slots_mark) if mark is not None]
        return sorted(marks, key=lambda mark: mark.name)

    def adopt(self, marks: Iterable[FileMark]) -> bool:
        """Use the existing files that `marks` describes. Bytes after the marked length are overwritten, and files
        without a mark are removed. Return False if a file differs from its mark. The caller must then call `wipe`
        and fill the index again. Call `adopt` only on a new object."""
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
        """Remove all files of the index, also files of earlier runs."""
        self.close()
        self._files.clear()
        self.start = 0
        self.wipes += 1
        for name in self._names_there():
            self._disk.unlink(self.directory / name)

    def close(self) -> None:
        """Close the files. The index opens the files again when it needs them."""
        while self._used:
            self._used.pop().close()

    # -- files

    def _names_there(self) -> list[str]:
        """Return the names of all files of the key index in its directory. Names of other files are left out."""
        return [name for name in self._disk.list(self.directory) if is_number(name.removesuffix(SLOTS_SUFFIX))]

    def _growing(self, count: int, position: int, append_time_ms: int) -> KeyFile:
        """Return the newest file if it has room for `count` more entries; otherwise return a new file. The entries
        of one batch are always in one file."""
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
    """Finds the batches with a key, from the newest batch to older batches. The caller chooses how many steps the
    search takes. Between two steps, new batches may be added to the index, and its oldest files may be removed."""

    def __init__(self, index: KeyIndex, hash_: int, begin_ms: int, end_ms: int, before: int) -> None:
        self._index = index
        self._hash = hash_
        self._begin_ms = begin_ms
        self._end_ms = end_ms
        self._before = before
        self._wipes = index.wipes
        self._file: KeyFile | None = None
        # Number of the entry to look at next; 0 if the next file is to be entered.
        self._number = 0
        # Files that begin at or after this position are finished.
        self._passed = before
        # A new search before this position finds the batches that this search has not found yet.
        self.reached = before
        self.done = False

    @property
    def is_void(self) -> bool:
        """Whether the index was wiped since the search began. If the index was wiped, this search may miss batches."""
        return self._wipes != self._index.wipes

    def take(self, max_steps: int) -> list[KeyHit]:
        """Return the hits of the next `max_steps` steps. A step looks at one entry or one file. Raise
        `IndexDamagedError` if an entry of a chain points to an entry that is not older."""
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
        # If this entry is no hit for its batch, the next entry may be one for the same batch.
        self.reached = min(self.reached, position if wanted else position + 1)
        return KeyHit(position, size, append_time_ms) if wanted else None

    def _enter_next_file(self) -> None:
        """Continue the search in the newest file that the search has not entered yet. End the search if no older
        file can contain a hit."""
        file = self._file = self._index.newest_before(self._passed)
        if file is None or file.end_ms < self._begin_ms:
            self.done = True
            return
        self._passed = file.first_position
        if file.begin_ms < self._end_ms:
            self._index.touch(file)
            self._number = file.newest(self._hash)


def hashes_of_topic(topic_id: int, key_hashes: Hashes) -> Hashes:
    """Return the hashes that a batch of the topic has in the index, distinct and ascending. `key_hashes` has
    the hash of each key of the batch's messages, and 0 for a message without a key."""
    if len(key_hashes) == 1 and key_hashes[0]:  # one at a time, numpy's bookkeeping costs more than the work
        return key_hashes ^ np.uint64(_of_topic(topic_id))
    return np.unique(key_hashes[key_hashes != 0] ^ np.uint64(_of_topic(topic_id)))


def _of_topic(topic_id: int) -> int:
    """Return the value that is mixed into the key hashes of a topic, so that equal keys of different topics differ."""
    return topic_id * _SPREAD & _MASK


def topic_spread(topic_ids: Hashes) -> Hashes:
    """Return, for many topics at once, the value that `_of_topic` mixes into the key hashes of one topic."""
    spread: Hashes = topic_ids.astype(np.uint64) * np.uint64(_SPREAD)
    return spread
