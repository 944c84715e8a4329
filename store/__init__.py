"""The store keeps the CommitLog, its indexes, snapshots, the vote and the data directory as bytes on disk.

The store knows entries and positions. The store has no code about elections, topics or the network. The packages of
the store in reading order:

    log/         entries, segments, the CommitLog, and its recovery at a start; begin with entry.py and commit_log.py
    index/       ConsumeQueues, the key index, the time index and the timed index, all built from the log
    snapshot/    the snapshot that replaces the entries before the log start, and the checkpoint of a restart
    directory/   the data directory of a node, its vote file and its marks
    repair/      replacing damaged bytes with those of other replicas
    disk/        the interface to the disk, and its in-memory implementation
    errors.py    the errors of the store, one type for each action that a caller can take
"""

from store.directory.boot import KERNEL_BOOT_ID, read_boot_id
from store.directory.clean_mark import CleanMark
from store.directory.node_directory import NodeDirectory
from store.directory.suspect import Suspect
from store.directory.vote_file import Vote, VoteFile
from store.disk.disk import Disk, DiskUsage, File, PosixDisk, PosixReadOnlyDisk, ReadOnlyDisk
from store.disk.memory_disk import MemoryDisk
from store.errors import (
    CorruptRangeError,
    CorruptSnapshotError,
    DamagedError,
    DirectoryInUseError,
    DirectoryUpgradeError,
    DiskFailedError,
    ForkedError,
    IndexDamagedError,
    LogDamagedError,
    NoSpaceError,
    OffsetDroppedError,
    OutOfFilesError,
    RangeDamagedError,
    StoreError,
    WrongDirectoryError,
)
from store.index.consume_queue import ConsumeQueue, ConsumeQueues, QueueSpan
from store.index.file_mark import FileMark
from store.index.key_index import KeyHit, KeyIndex, KeySearch
from store.index.timed_index import TimedIndex
from store.index.timed_journal import TimedDraft
from store.index.timed_unit import TimedIndexCursor, TimedKey
from store.log.commit_log import CommitLog
from store.log.crash_end import CrashEnd
from store.log.entry import EntryDraft, EntryKind, Header, Readable
from store.log.flaw import Flaw, FlawKind
from store.log.log_files import SegmentFile, segment_files
from store.log.log_reader import FoundEntry, LogReader
from store.log.log_reading import UNREADABLE, LogReading
from store.log.log_settings import LogCallbacks, LogSettings, PreviousRun
from store.log.position_files import PositionFiles
from store.log.recovery import KnownEntries
from store.log.segment_span import SegmentSpan
from store.log.tail import LogTail
from store.log.writing import DIRECTLY, ReadAhead, WriteMode, Writing
from store.repair.log_repair import LogRepair, LogToRepair, RepairCallbacks, Taken
from store.repair.repair_mark import RepairMark
from store.repair.whole_prefix import WholePrefix
from store.snapshot.checkpoint import Checkpoint
from store.snapshot.incoming_snapshot import IncomingSnapshot, SnapshotOffer
from store.snapshot.snapshot import Snapshot
from store.snapshot.snapshot_file import SnapshotFile
from store.snapshot.snapshots import Snapshots

__all__ = [
    "DIRECTLY",
    "KERNEL_BOOT_ID",
    "UNREADABLE",
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
    "DiskUsage",
    "EntryDraft",
    "EntryKind",
    "File",
    "FileMark",
    "Flaw",
    "FlawKind",
    "ForkedError",
    "FoundEntry",
    "Header",
    "IncomingSnapshot",
    "IndexDamagedError",
    "KeyHit",
    "KeyIndex",
    "KeySearch",
    "KnownEntries",
    "LogCallbacks",
    "LogDamagedError",
    "LogReader",
    "LogReading",
    "LogRepair",
    "LogSettings",
    "LogTail",
    "LogToRepair",
    "MemoryDisk",
    "NoSpaceError",
    "NodeDirectory",
    "OffsetDroppedError",
    "OutOfFilesError",
    "PositionFiles",
    "PosixDisk",
    "PosixReadOnlyDisk",
    "PreviousRun",
    "QueueSpan",
    "RangeDamagedError",
    "ReadAhead",
    "ReadOnlyDisk",
    "Readable",
    "RepairCallbacks",
    "RepairMark",
    "SegmentFile",
    "SegmentSpan",
    "Snapshot",
    "SnapshotFile",
    "SnapshotOffer",
    "Snapshots",
    "StoreError",
    "Suspect",
    "Taken",
    "TimedDraft",
    "TimedIndex",
    "TimedIndexCursor",
    "TimedKey",
    "Vote",
    "VoteFile",
    "WholePrefix",
    "WriteMode",
    "Writing",
    "WrongDirectoryError",
    "read_boot_id",
    "segment_files",
]
