"""A snapshot takes the place of all entries up to the entry `index`, in a log that begins after this entry.

    little-endian

     0        4        8                16               24               32               40       44       48
    +--------+--------+----------------+----------------+----------------+----------------+--------+--------+
    | magic  | version| index          | term           | end            | append_time_ms | chain  | size of|
    |        |        |                |                |                |                |        | config.|
    +--------+--------+----------------+----------------+----------------+----------------+--------+--------+
    48               56
    +----------------+-----------------+-----------------+--------+
    | size of state  | configuration   | state           | crc    |      crc = CRC32C of all before it
    +----------------+-----------------+-----------------+--------+

The snapshot describes the last entry that the log lacks: its index, term, end position and chain. With these four
values, the log continues as if it still had that entry. A snapshot also holds the configuration and the state of the
state machine after the last entry that the log lacks. The store treats configuration and state as opaque bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import google_crc32c

from store.log.tail import LogTail

MAGIC = int.from_bytes(b"LMQB", "little")
VERSION = 1
_HEADER = struct.Struct("<IIQQQqIIQ")
_CRC = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Snapshot:
    # Index of the last entry that the log lacks. The other fields describe that entry, or the state after it. The entry
    # is committed.
    index: int
    term: int
    end: int
    chain: int
    append_time_ms: int
    # Body of the newest configuration entry up to `index`.
    configuration: bytes
    # State of the state machine after it has applied the entries up to `index`.
    state: bytes

    @property
    def tail(self) -> LogTail:
        """The tail that the first entry after the snapshot must follow."""
        return LogTail(self.index, self.term, self.end, self.chain, self.append_time_ms)

    def encode(self) -> bytes:
        header = _HEADER.pack(
            MAGIC, VERSION, self.index, self.term, self.end, self.append_time_ms, self.chain,
            len(self.configuration), len(self.state),
        )  # fmt: skip
        data = header + self.configuration + self.state
        return data + _CRC.pack(google_crc32c.value(data))

    @staticmethod
    def decode(data: bytes) -> Snapshot:
        """Return the snapshot that the bytes encode. Raise `ValueError` if the bytes are no snapshot of this
        version."""
        if len(data) < _HEADER.size + _CRC.size:
            raise ValueError(f"{len(data)} bytes are fewer than a snapshot has")
        magic, version, index, term, end, append_time_ms, chain, *sizes = _HEADER.unpack_from(data)
        if magic != MAGIC:
            raise ValueError(f"no snapshot begins with {magic:#010x}")
        if version != VERSION:
            raise ValueError(f"snapshot version {version} is not known to this program, which knows {VERSION}")
        if len(data) != _HEADER.size + sum(sizes) + _CRC.size:
            raise ValueError(
                f"it has {len(data)} bytes, but its header says {_HEADER.size + sum(sizes) + _CRC.size} bytes"
            )
        crc = google_crc32c.value(data[: -_CRC.size])
        if (crc,) != _CRC.unpack_from(data, len(data) - _CRC.size):
            raise ValueError(f"the CRC of its bytes is {crc:#010x}, but a different CRC is stored in it")
        state_at = _HEADER.size + sizes[0]
        configuration, state = data[_HEADER.size : state_at], data[state_at : -_CRC.size]
        return Snapshot(index, term, end, chain, append_time_ms, configuration, state)
