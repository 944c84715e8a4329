"""Opens the sources that a user names, and finds the replicas in them.

    /var/lib/ledgermq, a copy of it, data/node-1     a directory: see place.py
    http://10.0.0.1:9872                             the HTTP port of a node that runs
    backup:/mnt/backups                              a backup: see backup_access.py

The shard numbers, the node id and the log starts are read from the files themselves. The end of each log is determined
once, at the start, so a log that grows during the validation is judged as it was at the start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from ledger.batch import MAX_PLAIN_BYTES
from ledger.validation.sources.access import Access, FileAccess, HttpAccess, access_to, is_url
from ledger.validation.sources.backup_access import is_backup, replicas_in
from ledger.validation.sources.errors import SegmentGoneError, SourceError
from ledger.validation.sources.place import LogPlace, UnreadableError, places_of
from ledger.validation.sources.replica import LogReplica, Segment
from ledger.validation.spans.segment_end import last_entry
from raft.configuration_entry import InvalidConfigurationError, ShardConfiguration, decode_configuration
from store import Checkpoint, EntryKind, Header, PosixReadOnlyDisk, SegmentFile, Snapshot, StoreError
from store.disk.numbered import name_of, numbers_of
from store.log.entry import HEADER_SIZE, EntryFlawError, parse
from store.log.tail import EMPTY

_TRIES = 3
# How much of the unwritten space after the log is read, in bytes: enough to see that nothing follows.
_SEEN = 64 << 10
# The size of the largest entry if no configuration says it, in bytes.
_LARGEST = MAX_PLAIN_BYTES + (2 << 20)


def open_sources(names: Sequence[str]) -> tuple[list[LogReplica], list[str]]:
    """Return the replicas of all sources, numbered, and one sentence for each source that cannot be read."""
    replicas: list[LogReplica] = []
    unread: list[str] = []
    for name in names:
        try:
            found = _opened(name)
        except (SourceError, UnreadableError, StoreError, SegmentGoneError, OSError) as error:
            text = str(error)
            unread.append(text if name in text else f"{name}: {text}")
            continue
        replicas += [replace(each, number=len(replicas) + at) for at, each in enumerate(found)]
    return replicas, unread


def _opened(name: str) -> list[LogReplica]:
    """Open a source. If retention removes files during the opening, try again."""
    for _ in range(_TRIES - 1):
        try:
            return _found(name)
        except (SegmentGoneError, FileNotFoundError):
            continue
    return _found(name)


def _found(name: str) -> list[LogReplica]:
    if is_backup(name):
        return _in_backup(name)
    return _at_url(name.rstrip("/")) if is_url(name) else _in_directory(name)


# -- a directory


def _in_directory(name: str) -> list[LogReplica]:
    path = Path(name)
    if not path.is_dir():
        raise SourceError(
            f"{name} is not a directory: give a node's data directory, or http://HOST:PORT of a running node"
        )
    return [_of_place(name, place) for place in places_of(path)]


def _of_place(name: str, place: LogPlace) -> LogReplica:
    if place.shard is None:
        raise SourceError(f"{place.path} is only a log: give the node's data directory")
    if place.void:
        raise SourceError(
            f"{place.path}: the node is replacing its log by a received snapshot: start the node, and validate again"
        )
    number = re.fullmatch(r"shard-(\d+)", place.shard.name)
    if number is None:
        raise SourceError(f"the name of {place.shard} does not say which shard it is: give the node's data directory")
    bad = [flaw for flaw in place.flaws if flaw.path.name != "clean"]
    if bad:
        raise SourceError(f"{bad[0].path}: {bad[0].reason}")
    cluster, node = _identity(place.shard.parent / "identity.json")
    return replica_at(place, name, shard=int(number[1]), node=node, cluster=cluster)


def replica_at(
    place: LogPlace, source: str, *, shard: int = -1, node: int | None = None, cluster: str = ""
) -> LogReplica:
    """Return the replica at `place`. If `place` is not in a shard's directory, only the log is read, and no other
    files.

    Raises SourceError (also if the log belongs to another cluster than `cluster`) or SegmentGoneError.
    """
    replica = LogReplica(
        number=0,
        source=source,
        shard=shard,
        node=node,
        cluster=cluster,
        segments=() if place.void else tuple(_segment_of(each) for each in place.segments),
        segment_bytes=place.segment_bytes,
        largest_entry=_LARGEST,
        start=place.start,
        base=str(place.shard / "snapshot") if place.shard is not None and place.snapshot is not None else None,
        clean=place.clean if not place.void else None,
        is_running=place.holder is not None,
    )
    if place.shard is not None:
        replica = _with_files(replica, place.shard)
    if not place.void:
        replica = _with_indexes(replica, place)
    return _bounded(_configured(replica, FileAccess(), place.snapshot), FileAccess())


def _with_files(replica: LogReplica, shard: Path) -> LogReplica:
    kept = shard / "snapshots"
    return replace(
        replica, directory=str(shard), kept=tuple((each, str(kept / name_of(each))) for each in _numbers(kept))
    )


def _with_indexes(replica: LogReplica, place: LogPlace) -> LogReplica:
    """Return the replica with its indexes and its checkpoint."""
    checkpoint = place.shard / "checkpoint" if place.shard is not None else None
    if checkpoint is not None and checkpoint.exists():
        replica = replace(replica, checkpoint=str(checkpoint), checkpoint_index=_index_in(checkpoint))
    return replace(replica, indexes=str(place.indexes) if place.indexes is not None else None)


def _index_in(checkpoint: Path) -> int:
    """Return the index of the checkpoint; 0 if it cannot be read."""
    try:
        return Checkpoint.decode(checkpoint.read_bytes()).index
    except (OSError, ValueError, TypeError):
        return 0


def _segment_of(file: SegmentFile) -> Segment:
    """Return the segment of a file. Call this function before any other code reads the file. After a read-ahead by the
    kernel, blank space would count as written.

    Raises SegmentGoneError or SourceError.
    """
    try:
        opened = PosixReadOnlyDisk().open(file.path)
        try:
            length = opened.size
            written = max((part.stop for part in opened.written(0, length)), default=0)
        finally:
            opened.close()
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise SegmentGoneError(f"{file.path} is not there any more") from error
        raise SourceError(f"{file.path} cannot be read: {_reason(error)}") from error
    return Segment(str(file.path), file.base, length, max(0, length - written - _SEEN))


def _reason(error: StoreError) -> str:
    cause = error.__cause__
    return (isinstance(cause, OSError) and cause.strerror) or str(error)


def _numbers(directory: Path) -> list[int]:
    return sorted(numbers_of([each.name for each in directory.iterdir()])) if directory.is_dir() else []


def _identity(path: Path) -> tuple[str, int | None]:
    try:
        said = json.loads(path.read_bytes())
        return str(said["cluster"]), int(said["node"])
    except FileNotFoundError:
        return "", None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SourceError(f"{path} does not name the node of this directory ({error})") from error


# -- a running node


def _at_url(url: str) -> list[LogReplica]:
    access = HttpAccess()
    said = access.json(f"{url}/shards")
    try:
        node, cluster, shards = said["node"], said["cluster"], said["shards"]
        return [_of_node(url, node, cluster, shard, access) for shard in shards]
    except (KeyError, TypeError, ValueError) as error:
        raise SourceError(f"{url}/shards: the server there is not a ledgermq node ({error!r})") from error


def _of_node(url: str, node: int, cluster: str, shard: int, access: HttpAccess) -> LogReplica:
    at = f"{url}/shards/{shard}"
    said = access.json(f"{at}/segments")
    segments = tuple(
        Segment(f"{at}/segments/{each['name']}", each["position"], each["length"]) for each in said["segments"]
    )
    data = access.file(f"{at}/snapshot")
    try:
        snapshot = Snapshot.decode(data) if data is not None else None
    except ValueError as error:
        raise SourceError(f"{at}/snapshot is not a snapshot ({error})") from error
    if snapshot is None and said["first_index"] > 1:
        raise SourceError(
            f"{at}: the log begins at entry {said['first_index']}, and the node serves no snapshot for it"
        )
    replica = LogReplica(
        number=0,
        source=url,
        shard=shard,
        node=node,
        cluster=cluster,
        segments=segments,
        segment_bytes=_grid_of(segments),
        largest_entry=_LARGEST,
        start=snapshot.tail if snapshot is not None else EMPTY,
        base=f"{at}/snapshot" if snapshot is not None else None,
        is_running=True,
        told_commit=said["commit"],
    )
    return _bounded(_configured(replica, access, snapshot), access)


def _grid_of(segments: Sequence[Segment]) -> int:
    """Return the segment size of a log whose configuration is unknown, in bytes."""
    if len(segments) > 1:
        return min(later.base - segment.base for segment, later in pairwise(segments))
    return 1 << 30


# -- a backup


def _in_backup(name: str) -> list[LogReplica]:
    replicas = replicas_in(name, _LARGEST)
    access = access_to(replicas[0].segments[0].path)
    return [_bounded(_configured(each, access, _snapshot_of(each, access)), access) for each in replicas]


def _snapshot_of(replica: LogReplica, access: Access) -> Snapshot | None:
    data = access.file(replica.base) if replica.base is not None else None
    try:
        return Snapshot.decode(data) if data is not None else None
    except ValueError as error:
        raise SourceError(f"{replica.base} is not a snapshot ({error})") from error


# -- all


def _configured(replica: LogReplica, access: Access, snapshot: Snapshot | None) -> LogReplica:
    """Return the replica with the sizes that its configuration states. The configuration is in the snapshot or in
    entry 1."""
    configuration = configuration_of(snapshot.configuration if snapshot is not None else _first_body(replica, access))
    if configuration is None:
        return replica
    if replica.cluster not in ("", configuration.cluster) and not _is_restored(replica, configuration.cluster):
        raise SourceError(
            f"{replica.source}: the log of shard {replica.shard} belongs to cluster {configuration.cluster!r}, and the "
            f"node to cluster {replica.cluster!r}: give the replicas of one cluster"
        )
    return replace(
        replica,
        segment_bytes=configuration.segment_bytes or replica.segment_bytes,
        largest_entry=min(_LARGEST, configuration.max_entry_bytes or _LARGEST),
        cluster=replica.cluster or configuration.cluster,
    )


def _is_restored(replica: LogReplica, cluster: str) -> bool:
    """Return whether a log may begin with the configuration of another cluster, because it was restored from a backup
    of `cluster`. A node that was added after the restore has a log that begins in the same way: its checkpoint has the
    newest configuration. A running node knows its log itself."""
    if replica.directory is None:
        return is_url(replica.source) or is_backup(replica.source)
    try:
        identity = json.loads((Path(replica.directory).parent / "identity.json").read_bytes())
        if cluster in identity.get("restored_from", ()):
            return True
        checkpoint = Checkpoint.decode(Path(replica.checkpoint).read_bytes()) if replica.checkpoint else None
        newest = decode_configuration(checkpoint.snapshot.configuration) if checkpoint is not None else None
        return newest is not None and newest.cluster == replica.cluster
    except (OSError, ValueError, TypeError, AttributeError):
        return False


def configuration_of(body: bytes) -> ShardConfiguration | None:
    """Return the decoded configuration, or None if the bytes are not a configuration."""
    if not body:
        return None
    try:
        return decode_configuration(body)
    except InvalidConfigurationError:
        return None


def _first_body(replica: LogReplica, access: Access) -> bytes:
    """Return the body of entry 1 if it is a configuration, else no bytes."""
    if not replica.segments or replica.segments[0].base:
        return b""
    data = access.read(replica.segments[0], 0, min(replica.segments[0].length, 1 << 20))
    try:
        header = parse(data, 0)
    except EntryFlawError:
        return b""
    is_one = header.kind is EntryKind.CONFIGURATION and header.index == 1 and header.size <= len(data)
    return data[HEADER_SIZE : header.size] if is_one else b""


def _bounded(replica: LogReplica, access: Access) -> LogReplica:
    """Return the replica with the position at which its log ends at this moment. Bytes after the end of a running
    replica are not read."""
    segments = replica.segments
    found = last_entry(replica, access)
    if found is None:
        last = replica.start.index if replica.start is not None else 0
        return replace(replica, last_index=last, settled=replica.begin)
    which, entries = found
    tail = entries[-1]
    if replica.is_running:
        kept = segments[which]
        end = min(kept.length, tail.end - kept.base)
        full = (
            replace(each, unwritten=0) for each in segments[:which]
        )  # these segments were not full when they were opened
        segments = (*full, replace(kept, length=end, unwritten=0))
    commit = max(replica.told_commit, min(tail.commit, tail.index))
    return replace(
        replica,
        segments=segments,
        told_commit=min(commit, tail.index),
        settled=_settled(entries, commit),
        last_index=tail.index,
    )


def _settled(entries: Sequence[Header], commit: int) -> int:
    """Return the position after the last committed entry of these entries. If none is committed, return the
    position of the first entry."""
    committed = [header.end for header in entries if header.index <= commit]
    return committed[-1] if committed else entries[0].position
