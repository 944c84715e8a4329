"""Bytes on disk: the CommitLog, its indexes, the vote, the data directory. Knows entries, not elections.

disk.py            the one small interface through which everything reaches the disk; memory_disk.py is its twin
entry.py           one record of the CommitLog, and its bytes
commit_log.py      entries in order: append, examine and write, truncate, read
recovery.py        what is read back at start: torn tails against damage
consume_queue.py   where each message of a queue lies
vote_file.py       term, vote, incarnation
node_directory.py  whose directory it is, and where its parts lie
errors.py          what can go wrong
"""

from store.clean_mark import CleanMark
from store.commit_log import CommitLog
from store.consume_queue import ConsumeQueue, ConsumeQueues
from store.disk import Disk, File, PosixDisk
from store.entry import Draft, Header, Kind
from store.errors import (
    CorruptRangeError,
    DamagedError,
    DirectoryInUseError,
    DiskFailedError,
    DiskFullError,
    ForkedError,
    StoreError,
    WrongDirectoryError,
)
from store.memory_disk import MemoryDisk
from store.node_directory import NodeDirectory
from store.vote_file import Vote, VoteFile

__all__ = [
    "CleanMark",
    "CommitLog",
    "ConsumeQueue",
    "ConsumeQueues",
    "CorruptRangeError",
    "DamagedError",
    "DirectoryInUseError",
    "Disk",
    "DiskFailedError",
    "DiskFullError",
    "Draft",
    "File",
    "ForkedError",
    "Header",
    "Kind",
    "MemoryDisk",
    "NodeDirectory",
    "PosixDisk",
    "StoreError",
    "Vote",
    "VoteFile",
    "WrongDirectoryError",
]
