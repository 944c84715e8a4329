"""Bytes on disk: the CommitLog, its indexes, the vote, the data directory. Knows entries, not elections.

disk.py            the one small interface through which everything reaches the disk; memory_disk.py is its twin
entry.py           one record of the CommitLog, and its bytes
commit_log.py      entries in order: append, examine and write, truncate, read
segment_span.py    what one of its segments holds, for whoever wants the file
writing.py         by which way appends get into the files: directly, by a mapping, or staged in memory (staging.py)
received_range.py  what a follower checks before it writes
recovery.py        what is read back at start: torn tails against damage, after a kill and after a power loss
log_repair.py      what is damaged, taken from another replica: whole_prefix.py is what is good of such a log, and
                   repair_mark.py what is remembered meanwhile
consume_queue.py   where each message of a queue lies; unit_files.py has its files, and those of position_files.py
log_reader.py      a log as it lies there, whole or damaged, for those who only look; log_files.py is where it lies,
                   segment_view.py how whole entries are found in it, flaw.py what it finds wrong
key_index.py       which batches have a key, in files of linked entries (key_file.py)
time_index.py      where the messages since a time begin: no file, the log is sorted
base.py            what stands in the place of the entries before the log start; snapshot_file.py keeps it durably,
                   incoming_snapshot.py takes one from another node, bases.py is all of that for one shard
checkpoint.py      what the next start need not find out again; file_mark.py is what it says of an index's file
vote_file.py       term, vote, incarnation
node_directory.py  whose directory it is, and where its parts lie; format_upgrade.py renames those of an older version
reserve.py         room for the small files of it on a full disk
boot.py            a killed process against a machine that went down; suspect.py is the doubt that the latter leaves
errors.py          what can go wrong
"""

from store.base import Snapshot
from store.bases import Snapshots
from store.boot import KERNEL_BOOT_ID, read_boot_id
from store.checkpoint import Checkpoint
from store.clean_mark import CleanMark
from store.commit_log import CommitLog
from store.consume_queue import ConsumeQueue, ConsumeQueues, QueueSpan
from store.crash_end import CrashEnd
from store.disk import Disk, File, PosixDisk, PosixReadOnlyDisk, ReadOnlyDisk, Usage
from store.entry import Draft, Header, Kind, Readable
from store.errors import (
    CorruptRangeError,
    CorruptSnapshotError,
    DamagedError,
    DirectoryInUseError,
    DirectoryUpgradeError,
    DiskFailedError,
    DiskFullError,
    ForkedError,
    IndexDamagedError,
    LogDamagedError,
    OffsetDroppedError,
    OutOfFilesError,
    RangeDamagedError,
    StoreError,
    WrongDirectoryError,
)
from store.file_mark import FileMark
from store.flaw import Flaw, FlawKind
from store.incoming_snapshot import IncomingSnapshot, Offer
from store.key_index import KeyHit, KeyIndex, KeySearch
from store.log_files import SegmentFile, segment_files
from store.log_reader import Found, LogReader
from store.log_repair import LogRepair, Taken
from store.memory_disk import MemoryDisk
from store.node_directory import NodeDirectory
from store.position_files import PositionFiles
from store.recovery import Known
from store.repair_mark import RepairMark
from store.segment_span import SegmentSpan
from store.snapshot_file import SnapshotFile
from store.suspect import Suspect
from store.tail import Tail
from store.vote_file import Vote, VoteFile
from store.whole_prefix import WholePrefix
from store.writing import DIRECTLY, ReadAhead, WriteMode, Writing

__all__ = [
    "DIRECTLY",
    "KERNEL_BOOT_ID",
    "Checkpoint",
    "CleanMark",
    "CommitLog",
    "ConsumeQueue",
    "ConsumeQueues",
    "CorruptRangeError",
    "CorruptSnapshotError",
    "CrashEnd",
    "DamagedError",
    "DirectoryInUseError",
    "DirectoryUpgradeError",
    "Disk",
    "DiskFailedError",
    "DiskFullError",
    "Draft",
    "File",
    "FileMark",
    "Flaw",
    "FlawKind",
    "ForkedError",
    "Found",
    "Header",
    "IncomingSnapshot",
    "IndexDamagedError",
    "KeyHit",
    "KeyIndex",
    "KeySearch",
    "Kind",
    "Known",
    "LogDamagedError",
    "LogReader",
    "LogRepair",
    "MemoryDisk",
    "NodeDirectory",
    "Offer",
    "OffsetDroppedError",
    "OutOfFilesError",
    "PositionFiles",
    "PosixDisk",
    "PosixReadOnlyDisk",
    "QueueSpan",
    "RangeDamagedError",
    "ReadAhead",
    "ReadOnlyDisk",
    "Readable",
    "RepairMark",
    "SegmentFile",
    "SegmentSpan",
    "Snapshot",
    "SnapshotFile",
    "Snapshots",
    "StoreError",
    "Suspect",
    "Tail",
    "Taken",
    "Usage",
    "Vote",
    "VoteFile",
    "WholePrefix",
    "WriteMode",
    "Writing",
    "WrongDirectoryError",
    "read_boot_id",
    "segment_files",
]
