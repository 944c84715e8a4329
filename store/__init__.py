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

from store.directory.boot import KERNEL_BOOT_ID, read_boot_id
from store.directory.clean_mark import CleanMark
from store.directory.node_directory import NodeDirectory
from store.directory.suspect import Suspect
from store.directory.vote_file import Vote, VoteFile
from store.disk.disk import Disk, File, PosixDisk, PosixReadOnlyDisk, ReadOnlyDisk, Usage
from store.disk.memory_disk import MemoryDisk
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
from store.index.consume_queue import ConsumeQueue, ConsumeQueues, QueueSpan
from store.index.file_mark import FileMark
from store.index.key_index import KeyHit, KeyIndex, KeySearch
from store.log.commit_log import CommitLog
from store.log.crash_end import CrashEnd
from store.log.entry import Draft, Header, Kind, Readable
from store.log.flaw import Flaw, FlawKind
from store.log.log_files import SegmentFile, segment_files
from store.log.log_reader import Found, LogReader
from store.log.position_files import PositionFiles
from store.log.recovery import Known
from store.log.segment_span import SegmentSpan
from store.log.tail import Tail
from store.log.writing import DIRECTLY, ReadAhead, WriteMode, Writing
from store.repair.log_repair import LogRepair, Taken
from store.repair.repair_mark import RepairMark
from store.repair.whole_prefix import WholePrefix
from store.snapshot.checkpoint import Checkpoint
from store.snapshot.incoming_snapshot import IncomingSnapshot, Offer
from store.snapshot.snapshot import Snapshot
from store.snapshot.snapshot_file import SnapshotFile
from store.snapshot.snapshots import Snapshots

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
