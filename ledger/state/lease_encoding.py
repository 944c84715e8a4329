"""Encodes the modes of consumer groups, and the leases, as bytes. Both are a part of the encoded state from version 10
on (encoding.py).

All numbers are little-endian. Names are in UTF-8 and follow the record that has their bytes.

    +-------------------------+----------------------+------------------+-----------------------+---------+
    | number of modes; modes  | lease time (ms) i64  | number of groups | each group            | ...     |
    +-------------------------+----------------------+------------------+-----------------------+---------+
    mode      created u64, flags u32 (1: shared, 2: order by key), attempts u32, bytes of the name; sorted by name
    group     created u64, number of windows u32, bytes of the name; its windows              sorted by name
    window    topic id u32, queue u32, begin u64, resets u64, number of runs u32; its runs    sorted
    run       number of equal slots u32; the slot (lease_window.py)                           in order of offsets
"""

from __future__ import annotations

import struct

import numpy as np

from ledger.errors import InternalError
from ledger.state.consumer_group_table import TopicQueueId
from ledger.state.group_modes import GroupMode, GroupModes
from ledger.state.lease_table import MAX_OPEN_OFFSETS, LeaseTable
from ledger.state.lease_window import MAX_WINDOW, SLOT, LeaseWindow

_COUNT = struct.Struct("<I")
_MODE = struct.Struct("<QIII")
_TIME = struct.Struct("<qI")
_GROUP = struct.Struct("<QII")
_WINDOW = struct.Struct("<IIQQI")
_SHARED, _BY_KEY = 1, 2
_RUN = np.dtype([("count", "<u4"), ("slot", SLOT)])


def encode_leases(modes: GroupModes, table: LeaseTable) -> bytes:
    """Return the bytes of both tables. Equal tables have equal bytes."""
    parts = [_COUNT.pack(len(modes))]
    for mode in modes:
        name = mode.consumer_group.encode()
        flags = _SHARED * mode.is_shared | _BY_KEY * mode.by_key
        parts += (_MODE.pack(mode.created, flags, mode.max_attempts, len(name)), name)
    groups = list(table)
    parts.append(_TIME.pack(table.time_ms, len(groups)))
    for consumer_group, group in groups:
        name = consumer_group.encode()
        parts += (_GROUP.pack(group.created, len(group.windows), len(name)), name)
        for queue, window in sorted(group.windows.items()):
            lengths, slots = window.runs()
            runs = np.empty(len(lengths), _RUN)
            runs["count"], runs["slot"] = lengths, slots
            parts += (_WINDOW.pack(*queue, window.begin, window.resets, len(runs)), runs.tobytes())
    return b"".join(parts)


def decode_leases(data: bytes) -> tuple[GroupModes, LeaseTable]:
    """Return the tables that `data` encodes. Raises InternalError, struct.error or UnicodeDecodeError if the bytes are
    damaged."""
    reader = _Reader(data)
    (count,) = reader.take(_COUNT)
    modes = GroupModes([_mode(reader) for _ in range(count)])
    time_ms, groups = reader.take(_TIME)
    table = LeaseTable(time_ms)
    for _ in range(groups):
        created, windows, size = reader.take(_GROUP)
        name = reader.text(size)
        for _ in range(windows):
            queue, window = _window(reader)
            table.put(name, created, queue, window)
        if not windows:
            table.put_group(name, created)
    if table.open_offsets > MAX_OPEN_OFFSETS or not reader.is_at_the_end:
        raise InternalError("The leases of a snapshot of the state are damaged: fetch it again.")
    return modes, table


def _mode(reader: _Reader) -> GroupMode:
    created, flags, attempts, size = reader.take(_MODE)
    return GroupMode(reader.text(size), bool(flags & _SHARED), bool(flags & _BY_KEY), attempts, created)


def _window(reader: _Reader) -> tuple[TopicQueueId, LeaseWindow]:
    topic_id, queue, begin, resets, count = reader.take(_WINDOW)
    runs = np.frombuffer(reader.bytes(count * _RUN.itemsize), _RUN)
    if int(runs["count"].sum(dtype=np.uint64)) > MAX_WINDOW:
        raise InternalError("A window of leases in a snapshot of the state is damaged: fetch the snapshot again.")
    slots = np.repeat(runs["slot"], runs["count"])
    return TopicQueueId(topic_id, queue), LeaseWindow(begin, resets, slots)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_the_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        return layout.unpack(self.bytes(layout.size))

    def text(self, size: int) -> str:
        return self.bytes(size).decode()

    def bytes(self, size: int) -> bytes:
        first, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise InternalError("The leases of a snapshot of the state are cut off: fetch it again.")
        return self._data[first : self._at]
