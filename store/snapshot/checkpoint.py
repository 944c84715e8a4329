"""A checkpoint is a file from which the next start of this node continues. A checkpoint has a snapshot of the state
after one applied entry, and a mark of each index file.

    little-endian

     0        4        8                16       20       24       28
    +--------+--------+----------------+--------+--------+--------+---------+-------+--------+
    | magic  | version| configuration  | removed| size of| size of|snapshot | marks | crc    |   crc = CRC32C of all
    |        |        | index          | 0 or 1 |snapshot| marks  |         |       |        |   before it
    +--------+--------+----------------+--------+--------+--------+---------+-------+--------+
                                                                   snapshot.py JSON: [[name, length, crc], ...]

The entries up to this snapshot were read, applied and flushed by an earlier run. A start takes the state from the
snapshot, and compares each index file with its mark. If any part of a checkpoint is wrong, the whole checkpoint is
ignored, and the start reads the log from its beginning. A checkpoint is one small file. A new checkpoint replaces the
old file as a whole.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

import google_crc32c

from store.index.file_mark import FileMark
from store.snapshot.snapshot import Snapshot

MAGIC = int.from_bytes(b"LMQC", "little")
VERSION = 1
_HEADER = struct.Struct("<IIQIII")
_CRC = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    # The place, configuration and state after an entry that the log holds. The snapshot at a log start, by contrast, is
    # of an entry that the log lacks.
    snapshot: Snapshot
    # Index of the newest configuration entry up to there.
    configuration_index: int
    # Whether this node was removed from the shard's members by an entry up to there.
    removed: bool
    # Marks of the files of all indexes.
    marks: tuple[FileMark, ...]

    @property
    def index(self) -> int:
        return self.snapshot.index

    def encode(self) -> bytes:
        snapshot = self.snapshot.encode()
        marks = json.dumps([[mark.name, mark.length, mark.crc] for mark in self.marks], separators=(",", ":")).encode()
        data = _HEADER.pack(MAGIC, VERSION, self.configuration_index, self.removed, len(snapshot), len(marks))
        data += snapshot + marks
        return data + _CRC.pack(google_crc32c.value(data))

    @staticmethod
    def decode(data: bytes) -> Checkpoint:
        """Return the checkpoint that the bytes encode. Raise `ValueError` if the bytes are no checkpoint of this
        version."""
        if len(data) < _HEADER.size + _CRC.size:
            raise ValueError(f"{len(data)} bytes are fewer than a checkpoint has")
        magic, version, configuration_index, removed, snapshot_bytes, marks_bytes = _HEADER.unpack_from(data)
        if (magic, version) != (MAGIC, VERSION):
            raise ValueError(f"no checkpoint that this program knows begins with {magic:#010x}, version {version}")
        if len(data) != _HEADER.size + snapshot_bytes + marks_bytes + _CRC.size:
            raise ValueError(f"it has {len(data)} bytes, but its header says another number")
        if (google_crc32c.value(data[: -_CRC.size]),) != _CRC.unpack_from(data, len(data) - _CRC.size):
            raise ValueError("the CRC of its bytes differs from the CRC that is stored in it")
        snapshot = Snapshot.decode(data[_HEADER.size : _HEADER.size + snapshot_bytes])
        marks = json.loads(data[_HEADER.size + snapshot_bytes : -_CRC.size])
        return Checkpoint(snapshot, configuration_index, bool(removed), tuple(FileMark(*mark) for mark in marks))
