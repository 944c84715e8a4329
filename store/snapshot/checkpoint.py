"""A checkpoint: a local restart file with a snapshot after one applied entry and marks of the indexes; and its bytes.

    little-endian

     0        4        8                16       20       24       28
    +--------+--------+----------------+--------+--------+--------+---------+-------+--------+
    | magic  | version| configuration  | removed| size of| size of|snapshot | marks | crc    |   crc = CRC32C of all
    |        |        | index          | 0 or 1 |snapshot| marks  |         |       |        |   before it
    +--------+--------+----------------+--------+--------+--------+---------+-------+--------+
                                                                   snapshot.py JSON: [[name, length, crc], ...]

Entries up to this one were read, applied and flushed once, so a start goes on from here: it takes the state
from the base, and each index as its mark says it was. A checkpoint is worth nothing if anything of it does not agree;
then everything is read again from the log's beginning. It lies beside the log as one small file, replaced whole.
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
    # The place, configuration and state; of an entry that is in the log, other than where a log begins.
    snapshot: Snapshot
    # Of the newest configuration entry up to there.
    configuration_index: int
    # Whether this node had been a member up to there, and is none any more.
    removed: bool
    # Of the files of all indexes.
    marks: tuple[FileMark, ...]

    @property
    def index(self) -> int:
        return self.snapshot.index

    def encode(self) -> bytes:
        base = self.snapshot.encode()
        marks = json.dumps([[mark.name, mark.length, mark.crc] for mark in self.marks], separators=(",", ":")).encode()
        data = _HEADER.pack(MAGIC, VERSION, self.configuration_index, self.removed, len(base), len(marks))
        data += base + marks
        return data + _CRC.pack(google_crc32c.value(data))

    @staticmethod
    def decode(data: bytes) -> Checkpoint:
        """Raises `ValueError` when the bytes are no checkpoint, or one of another version."""
        if len(data) < _HEADER.size + _CRC.size:
            raise ValueError(f"{len(data)} bytes are fewer than a checkpoint has")
        magic, version, configuration_index, removed, snapshot_bytes, marks_bytes = _HEADER.unpack_from(data)
        if (magic, version) != (MAGIC, VERSION):
            raise ValueError(f"no checkpoint that this program knows begins with {magic:#010x}, version {version}")
        if len(data) != _HEADER.size + snapshot_bytes + marks_bytes + _CRC.size:
            raise ValueError(f"it has {len(data)} bytes, and says another number")
        if (google_crc32c.value(data[: -_CRC.size]),) != _CRC.unpack_from(data, len(data) - _CRC.size):
            raise ValueError("its bytes do not have the CRC that it says")
        snapshot = Snapshot.decode(data[_HEADER.size : _HEADER.size + snapshot_bytes])
        marks = json.loads(data[_HEADER.size + snapshot_bytes : -_CRC.size])
        return Checkpoint(snapshot, configuration_index, bool(removed), tuple(FileMark(*mark) for mark in marks))
