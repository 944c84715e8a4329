"""The vote file: a node's term, vote and incarnation in one shard. A node's vote is on the disk before the node sends
it.

    slot 0 at byte 0, slot 1 at byte 4096, little-endian:

     0        4        8                16               24       28       32                        48     52
    +--------+--------+----------------+----------------+--------+--------+-------------------------+------+
    | magic  | version| sequence       | term           | voted  | zero   | incarnation (16 bytes)  | crc  |
    |        |        |                |                | _for   |        |                         |      |
    +--------+--------+----------------+----------------+--------+--------+-------------------------+------+

    crc = CRC32C of bytes 0..47

The two slots are written in turn, so the last vote stays whole while the next vote is written. The slot with the
higher sequence number counts. The node erases a slot's first word before it writes the slot, and writes the first word
last. After a kill, the slot is blank or whole. A slot that is neither blank nor valid is damage, and the vote file
cannot be opened. If the node used the older vote instead, it could vote twice in a term.

After a power loss, too, a slot is blank or whole. A slot lies in one sector, and after a power loss a sector holds what
it held at one moment, never a mixture of two writes. The node writes a slot in several steps, and after each step the
slot is still blank or already whole. If a slot is blank, its vote was never sent, because the call of `save` had not
returned. A start must not ignore a damaged slot, because the damaged slot may hold the newest vote. If the start is
refused, the cluster lacks one node. If the start used the older vote, the node could vote twice in a term.

If the vote file were missing, the node would have forgotten its vote. For this reason, the vote file is the first file
of a shard, and `NodeDirectory.votes` refuses a shard that has other files and no vote file. A new vote file is first
written under another name, then synced, and then renamed. If the process was killed during a save, or the sync of a
save failed, the vote may be in the page cache only. For this reason, each start writes the vote again in the same
slot, and syncs the slot, before the node uses the vote.
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
    # Id of the node that has this node's vote in this term; 0 if no vote was given yet.
    voted_for: int
    # Random bytes, made once for each data directory. A node whose disk was wiped has a new incarnation.
    incarnation: bytes


class VoteFile:
    def __init__(self, path: Path, file: File, sequence: int, vote: Vote) -> None:
        """Use `open`."""
        self._path = path
        self._file = file
        # Sequence of the newest valid slot. Its slot number is `_sequence % 2`.
        self._sequence = sequence
        self._vote = vote
        self._failure: StoreError | None = None

    @staticmethod
    def open(disk: Disk, path: Path, *, new_incarnation: bytes) -> VoteFile:
        """Return the vote file at `path`. If the vote file does not exist, make it with term 0, no vote and
        `new_incarnation`. Raise `DamagedError` if a slot is damaged or no slot holds a vote."""
        if not disk.exists(path):
            first = _encode(1, Vote(term=0, voted_for=0, incarnation=new_incarnation))
            replace_file(disk, path, bytes(_SLOT_OFFSETS[1]) + first.ljust(_FILE_SIZE - _SLOT_OFFSETS[1], b"\0"))
        file = disk.open(path)
        try:
            slots = [_decode(path, offset, file.read(offset, _SLOT_SIZE)) for offset in _SLOT_OFFSETS]
            valid = [slot for slot in slots if slot is not None]
            if not valid:
                raise DamagedError(path, 0, "both slots are blank")
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
        """Write the vote. The vote is on the disk when the call returns. A helper thread may call `save`, one call
        at a time. After a failed save the file refuses all further saves, because a second fsync could report
        success for pages that were lost."""
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
    """Read the vote file without changing it. Return the vote that counts (None if no slot holds a vote), and the error
    of each damaged slot."""
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
        flaws.append(DamagedError(path, 0, "both slots are blank"))
    return (max(valid, key=lambda slot: slot[0])[1] if valid else None), flaws


def _encode(sequence: int, vote: Vote) -> bytes:
    assert len(vote.incarnation) == INCARNATION_BYTES
    slot = _SLOT.pack(MAGIC, VERSION, sequence, vote.term, vote.voted_for, 0, vote.incarnation)
    return slot + _CRC.pack(google_crc32c.value(slot))


def _decode(path: Path, offset: int, slot: bytes) -> tuple[int, Vote] | None:
    """Return sequence and vote of a slot, or None if the slot is blank. Raise `DamagedError` if the slot is
    damaged."""
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
