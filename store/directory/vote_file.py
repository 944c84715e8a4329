"""The vote file: term, vote and incarnation of a node in one shard, on the disk before any answer depends on them.

    slot 0 at byte 0, slot 1 at byte 4096, little-endian:

     0        4        8                16               24       28       32                        48     52
    +--------+--------+----------------+----------------+--------+--------+-------------------------+------+
    | magic  | version| sequence       | term           | voted  | zero   | incarnation (16 bytes)  | crc  |
    |        |        |                |                | _for   |        |                         |      |
    +--------+--------+----------------+----------------+--------+--------+-------------------------+------+

    crc = CRC32C of bytes 0..47

Slots are written in turn, so the last vote stays whole while the next is written; the one with the higher
sequence counts. A slot's first word is erased before it is written and set after it: a slot that a kill has torn is
blank, and a slot that is not blank yet wrong is damage. Falling back to an older vote then would let the node vote
twice in a term, so it is an error.

The same holds after a power loss. A slot lies in one sector, and the disk gets a sector whole, as the page stood at one
moment between those writes: each time the slot is blank unless it is whole. A blank slot was never acknowledged, since
its save had not returned. That a wrong slot is the one to be written next would prove nothing: of two slots one always
is, and a newest vote that has rotted looks the same. Refusing costs a node, falling back could cost a vote.

A forgotten vote is as bad, so the file is born whole: written under another name, synced, renamed. And what a start
finds may lie in the page cache only, left there by a save that a kill or a failed sync has ended: it is written again,
in its own place, and synced, before anybody relies on it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import google_crc32c

from store.disk.disk import Disk, File, ReadOnlyDisk, replace_file
from store.errors import DamagedError, DiskFailedError, StoreError
from store.log.entry import WORD

MAGIC = int.from_bytes(b"LMQV", "little")
VERSION = 1
INCARNATION_BYTES = 16
_SLOT = struct.Struct("<IIQQII16s")
_CRC = struct.Struct("<I")
_SLOT_SIZE = _SLOT.size + _CRC.size
_SLOT_OFFSETS = (0, 4096)
_FILE_SIZE = 8192


@dataclass(frozen=True, slots=True)
class Vote:
    term: int
    # 0: no one yet in this term.
    voted_for: int
    # Random, made once for each data directory: a wiped disk comes back with another one.
    incarnation: bytes


class VoteFile:
    def __init__(self, path: Path, file: File, sequence: int, vote: Vote) -> None:
        """Use `open`."""
        self._path = path
        self._file = file
        # Of the newest valid slot, which is slot number `_sequence % 2`.
        self._sequence = sequence
        self._vote = vote
        self._failure: StoreError | None = None

    @staticmethod
    def open(disk: Disk, path: Path, *, new_incarnation: bytes) -> VoteFile:
        """The file at `path`; if there is none, a new one with term 0, no vote and `new_incarnation`. Raises
        `DamagedError`."""
        if not disk.exists(path):
            first = _encode(1, Vote(term=0, voted_for=0, incarnation=new_incarnation))
            replace_file(disk, path, bytes(_SLOT_OFFSETS[1]) + first.ljust(_FILE_SIZE - _SLOT_OFFSETS[1], b"\0"))
        file = disk.open(path)
        try:
            slots = [_decode(path, offset, file.read(offset, _SLOT_SIZE)) for offset in _SLOT_OFFSETS]
            valid = [slot for slot in slots if slot is not None]
            if not valid:
                raise DamagedError(path, 0, "it holds no vote at all")
            sequence, vote = max(valid, key=lambda slot: slot[0])
            file.write(_SLOT_OFFSETS[sequence % 2], _encode(sequence, vote))
            file.sync()
        except StoreError:
            file.close()
            raise
        return VoteFile(path, file, sequence, vote)

    @property
    def vote(self) -> Vote:
        return self._vote

    def save(self, vote: Vote) -> None:
        """On the disk when this returns. Callable from a helper thread, one at a time. After a failed save the file
        takes no more: what a second fsync says of the first one's pages cannot be believed."""
        assert vote.term >= self._vote.term, "terms never fall"
        assert vote.incarnation == self._vote.incarnation, "an incarnation never changes"
        if self._failure is not None:
            raise DiskFailedError(self._path, f"an earlier vote was lost ({self._failure})") from self._failure
        sequence = self._sequence + 1
        try:
            self._write_slot(_SLOT_OFFSETS[sequence % 2], _encode(sequence, vote))
        except StoreError as error:
            self._failure = error
            raise
        self._sequence, self._vote = sequence, vote

    def close(self) -> None:
        self._file.close()

    def _write_slot(self, offset: int, slot: bytes) -> None:
        self._file.write(offset, bytes(WORD))
        self._file.write(offset + WORD, slot[WORD:])
        self._file.write(offset, slot[:WORD])
        self._file.sync()


def examined(disk: ReadOnlyDisk, path: Path) -> tuple[Vote | None, list[DamagedError]]:
    """For whoever only looks: the vote that counts, None where no slot holds one, and what is wrong with each slot."""
    file = disk.open(path)
    slots, flaws = [], []
    try:
        for offset in _SLOT_OFFSETS:
            try:
                slots.append(_decode(path, offset, file.read(offset, _SLOT_SIZE)))
            except DamagedError as error:
                flaws.append(error)
    finally:
        file.close()
    valid = [slot for slot in slots if slot is not None]
    if not valid and not flaws:
        flaws.append(DamagedError(path, 0, "it holds no vote at all"))
    return (max(valid, key=lambda slot: slot[0])[1] if valid else None), flaws


def _encode(sequence: int, vote: Vote) -> bytes:
    assert len(vote.incarnation) == INCARNATION_BYTES
    slot = _SLOT.pack(MAGIC, VERSION, sequence, vote.term, vote.voted_for, 0, vote.incarnation)
    return slot + _CRC.pack(google_crc32c.value(slot))


def _decode(path: Path, offset: int, slot: bytes) -> tuple[int, Vote] | None:
    """Sequence and vote of a slot; None if it is blank."""
    if len(slot) < _SLOT_SIZE:
        raise DamagedError(path, offset, "the file is too short")
    if not any(slot[:WORD]):
        return None
    magic, version, sequence, term, voted_for, _zero, incarnation = _SLOT.unpack_from(slot)
    if magic != MAGIC:
        raise DamagedError(path, offset, "this is no vote file")
    if version != VERSION:
        raise DamagedError(path, offset, f"vote version {version} is not known to this program, which knows {VERSION}")
    if (google_crc32c.value(slot[: _SLOT.size]),) != _CRC.unpack_from(slot, _SLOT.size):
        raise DamagedError(path, offset, "the CRC of a vote is wrong")
    return sequence, Vote(term, voted_for, incarnation)
