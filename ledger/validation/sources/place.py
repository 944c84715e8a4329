"""Finds the logs at a path that a user names.

    node-1/                 data/                                 a node of a local cluster
    <data>/                 identity.json, lock, shard-0/ ...     all shards of a node
    <data>/shard-0/         log/, queues/, vote, snapshot, clean  one shard
    <indexes>/              indexes.json, shard-0/queues, keys    its indexes, if the setting `index_data` names it
    <data>/shard-0/log/     00000000000000000000 ...              its log, with the snapshot in the shard's directory
    00000000000067108864                                          one segment file alone

For each path the result is a list of logs. Each log has its first index and position, if they are known.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from raft.configuration_entry import InvalidConfigurationError, decode_configuration
from store import (
    CleanMark,
    EntryKind,
    Flaw,
    FlawKind,
    FoundEntry,
    LogReader,
    PosixReadOnlyDisk,
    SegmentFile,
    Snapshot,
    StoreError,
    segment_files,
)
from store.directory.discarding import is_discarded
from store.directory.format_upgrade import FORMAT
from store.disk.disk import read_file
from store.disk.numbered import is_number
from store.log.entry import HEADER_SIZE, EntryFlawError, padded, parse
from store.log.log_files import usual_length
from store.log.tail import EMPTY, LogTail

_SHARD = "shard-"


class UnreadableError(Exception):
    """No log is at a path, or the log cannot be read. The message says why."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """One log on the disk."""

    # The path that messages name.
    path: Path
    segments: tuple[SegmentFile, ...]
    segment_bytes: int
    # The entry before the first one; None: it is not known.
    start: LogTail | None
    # The directory with the other files of the shard; None: only segments are read.
    shard: Path | None = None
    # The directory with the indexes, which may be the same; None: indexes are not read.
    indexes: Path | None = None
    # The mark of the last orderly stop; None: the last stop was not orderly.
    clean: CleanMark | None = None
    snapshot: Snapshot | None = None
    # The log is being replaced by `snapshot`: the present segments do not count any more.
    void: bool = False
    # The process id of the node that runs here; None: no node runs. The files of a running node change.
    holder: int | None = None
    # Flaws in the files from which these fields are read.
    flaws: tuple[Flaw, ...] = ()

    def may_be_of(self, other: LogPlace) -> bool:
        """Return whether two logs can be replicas of one shard, judged by the names of their directories."""
        ours, theirs = self._number, other._number
        return ours is None or theirs is None or ours == theirs

    @property
    def _number(self) -> int | None:
        name = self.shard.name if self.shard is not None else ""
        number = name.removeprefix(_SHARD)
        return int(number) if name.startswith(_SHARD) and number.isdecimal() else None

    def reader(self) -> LogReader:
        segments = () if self.void else self.segments
        orderly = self.clean is not None
        return LogReader(
            PosixReadOnlyDisk(), segments, segment_bytes=self.segment_bytes, start=self.start, orderly=orderly
        )

    def narrowed(self, first_index: int, segment: int | None) -> LogPlace:
        """Return the log without segments that end before entry `first_index`.

        If `segment` is given, it is a position, and only the segment that contains this position is kept. Raises
        `UnreadableError` if no segment is left.
        """
        kept = self.segments
        if segment is not None:
            base = segment - segment % self.segment_bytes
            kept = tuple(each for each in kept if each.base == base)
            if not kept:
                raise UnreadableError(f"{self.path} has no segment that holds position {segment}")
        disk = PosixReadOnlyDisk()
        behind = [at for at, each in enumerate(kept) if at and (_first_index(disk, each) or first_index) < first_index]
        kept = kept[max(behind, default=0) :]
        return self if kept == self.segments else replace(self, segments=kept, start=None)

    def with_indexes(self, index_data: Path) -> LogPlace:
        """Return the log with its indexes in the directory `index_data`.

        Raises `UnreadableError` if the directory has the indexes of another node.
        """
        if self.shard is None:
            raise UnreadableError(f"{self.path} is not the directory of a node or of a shard, so it has no indexes")
        mine, theirs = _owner(self.shard.parent / "identity.json"), _owner(index_data / "indexes.json")
        if mine != theirs:
            raise UnreadableError(f"{index_data} has the indexes of {theirs}, not of {mine}")
        return replace(self, indexes=index_data / self.shard.name)

    @property
    def total_bytes(self) -> int:
        return 0 if self.void else len(self.segments) * self.segment_bytes


def places_of(path: Path) -> list[LogPlace]:
    """Return the logs at `path`. Raises `UnreadableError` or `StoreError`."""
    disk = PosixReadOnlyDisk()
    if path.is_file():
        return [_segment(disk, path)]
    names = disk.list(path)
    if not names:
        raise UnreadableError(f"{path} is empty: there is no log in it")
    if "indexes.json" in names:
        raise UnreadableError(
            f"{path} has the indexes of a node and no log: give the data directory, and {path} with --index-data"
        )
    directories = [path / name for name in names if name.startswith(_SHARD) and (path / name).is_dir()]
    shards = [directory for directory in directories if not is_discarded(disk, directory)]
    if shards or "identity.json" in names:
        flaws = _identity_flaws(disk, path)
        holder = disk.lock_holder(path / "lock")
        if not shards:
            raise UnreadableError(f"{path} is the data directory of a node that has no shard yet")
        return [_shard(disk, shard, holder, flaws if shard == shards[0] else ()) for shard in shards]
    if (path / "log").is_dir():
        return [_shard(disk, path, disk.lock_holder(path.parent / "lock"))]
    if any(is_number(name) for name in names):
        return [_log(disk, path)]
    if _is_node(path / "data"):  # a node's directory in a local cluster
        return places_of(path / "data")
    nodes = [name for name in names if _is_node(path / name) or _is_node(path / name / "data")]
    hint = f"; in it are {', '.join(nodes)}: name those that you mean" if nodes else ""
    raise UnreadableError(f"{path} is neither a node's data directory, nor a shard's, nor a log's{hint}")


def _is_node(path: Path) -> bool:
    return (path / "identity.json").exists()


def _first_index(disk: PosixReadOnlyDisk, segment: SegmentFile) -> int | None:
    """Return the index of the entry at the start of the segment, or None if the segment does not begin with an
    entry."""
    try:
        return parse(segment.view(disk), 0).index
    except EntryFlawError:
        return None


def _segment(disk: PosixReadOnlyDisk, path: Path) -> LogPlace:
    if not is_number(path.name):
        raise UnreadableError(f"{path} is no segment: the name of a segment file is its first position in 20 digits")
    segment = SegmentFile(path, int(path.name))
    start = EMPTY if segment.base == 0 else None
    return LogPlace(path, (segment,), _segment_bytes(disk, [segment], None), start)


def _log(disk: PosixReadOnlyDisk, path: Path) -> LogPlace:
    """Return the log in a log directory. The result includes the shard's snapshot and clean mark, but no other file
    of the shard."""
    shard = _shard(disk, path.parent, disk.lock_holder(path.parent.parent / "lock"), log=path)
    return LogPlace(
        path,
        shard.segments,
        shard.segment_bytes,
        shard.start,
        clean=shard.clean,
        snapshot=shard.snapshot,
        void=shard.void,
        holder=shard.holder,
        flaws=shard.flaws,
    )


def _shard(
    disk: PosixReadOnlyDisk, path: Path, holder: int | None, flaws: tuple[Flaw, ...] = (), *, log: Path | None = None
) -> LogPlace:
    log = log or path / "log"
    segments = tuple(segment_files(disk, log)) if disk.exists(log) else ()
    found = list(flaws)
    void = disk.exists(path / "snapshot.next")
    snapshot_path = path / ("snapshot.next" if void else "snapshot")
    snapshot, start = None, None
    try:
        snapshot = Snapshot.decode(read_file(disk, snapshot_path)) if disk.exists(snapshot_path) else None
        start = snapshot.tail if snapshot is not None else EMPTY
    except ValueError as error:
        found.append(_flaw(snapshot_path, f"this is not a snapshot ({error})"))
    clean = None
    try:
        clean = CleanMark.decode(read_file(disk, path / "clean")) if disk.exists(path / "clean") else None
    except ValueError as error:
        found.append(_flaw(path / "clean", f"this is not a clean mark ({error})"))
    segment_bytes = _segment_bytes(disk, segments, snapshot)
    if start is not None:  # files that the node has dropped and not removed yet: some between them may be missing
        segments = tuple(each for each in segments if each.base + segment_bytes > start.end)
    indexes = path if disk.exists(path / "queues") or disk.exists(path / "keys") else None
    return LogPlace(path, segments, segment_bytes, start, path, indexes, clean, snapshot, void, holder, tuple(found))


def _segment_bytes(disk: PosixReadOnlyDisk, segments: Sequence[SegmentFile], snapshot: Snapshot | None) -> int:
    """Return the segment size. The segment size is read from the configuration in the snapshot or in entry 1. If
    there is no configuration, the size of most files is used."""
    try:
        body = snapshot.configuration if snapshot is not None else _first_configuration(disk, segments)
        fixed = decode_configuration(body).segment_bytes if body else 0
    except InvalidConfigurationError:
        fixed = 0
    found = fixed or usual_length(disk, segments)
    return max(HEADER_SIZE, padded(found))


def _first_configuration(disk: PosixReadOnlyDisk, segments: Sequence[SegmentFile]) -> bytes:
    """Return the body of entry 1; empty if entry 1 is missing or is not a configuration."""
    length = padded(usual_length(disk, segments[:1]))
    if length < HEADER_SIZE:
        return b""
    reader = LogReader(disk, segments[:1], segment_bytes=length, start=None)
    found = next((each for each in reader if isinstance(each, FoundEntry)), None)
    is_first = found is not None and found.header.index == 1 and found.header.kind is EntryKind.CONFIGURATION
    return bytes(found.body) if found is not None and is_first else b""


def _owner(identity: Path) -> str:
    """Return the node and the cluster of a directory, in words. Raises `UnreadableError`."""
    try:
        found = json.loads(read_file(PosixReadOnlyDisk(), identity))
        return f"node {found['node']} of cluster {found['cluster']!r}"
    except (StoreError, ValueError, TypeError, KeyError) as error:
        raise UnreadableError(f"{identity} does not name the node of this directory ({error})") from error


def _identity_flaws(disk: PosixReadOnlyDisk, path: Path) -> tuple[Flaw, ...]:
    """Return the flaws of identity.json. Raises `UnreadableError` if the directory has another format."""
    identity = path / "identity.json"
    try:
        layout = json.loads(read_file(disk, identity))["format"]
    except (StoreError, ValueError, TypeError, KeyError) as error:
        return (_flaw(identity, f"it does not name the node of this directory ({error})"),)
    if layout != FORMAT:
        raise UnreadableError(
            f"{path} has directory format {layout}, this program knows {FORMAT}: use the version that wrote it, or, "
            "if the format is older, start the node once with this version, which upgrades the directory"
        )
    return ()


def _flaw(path: Path, reason: str) -> Flaw:
    return Flaw(FlawKind.DAMAGE, path, 0, None, reason)
