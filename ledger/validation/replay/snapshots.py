"""Compares the snapshots and the checkpoint of a shard with the replayed state at their index.

    <shard>/snapshots/00000000000000000412    index 412, place, configuration, state
    replay                                at 412: place of entry 412, configuration, digest of the state

A node sends snapshots to new replicas, so a wrong snapshot would spread. A snapshot is right if it names the position,
term and chain of its entry, and if its state and configuration have the same digests as the replayed state and
configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import xxhash

from ledger.errors import LedgerError
from ledger.state import State
from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.replay.replay import Replay, Replayed
from ledger.validation.replay.small_files import check_small_files
from ledger.validation.sources.access import Access, access_to
from ledger.validation.sources.errors import SourceError
from ledger.validation.sources.replica import LogReplica
from store import Checkpoint, Snapshot

_NO_SNAPSHOT = Snapshot(0, 0, 0, 0, 0, b"", b"")


def begin_replay(replica: LogReplica) -> Replay:
    """Return a replay that begins with the snapshot at the log start. Raises SourceError if the snapshot cannot be
    read."""
    state, configuration = State(), b""
    if replica.base is not None:
        snapshot = _base_of(access_to(replica.base), replica.base)
        if snapshot.tail != replica.start:  # retention has moved the log start meanwhile
            return Replay(replica.number, state=None, start=replica.start, configuration=snapshot.configuration)
        try:
            state, configuration = State.decode(snapshot.state), snapshot.configuration
        except LedgerError as error:
            raise SourceError(f"{replica.base}: its state cannot be read: {error}") from error
    known = replica.start is not None
    return Replay(
        replica.number,
        state=state if known else None,
        start=replica.start,
        configuration=configuration,
        checkpoint=replica.checkpoint_index,
    )


def _base_of(access: Access, path: str) -> Snapshot:
    data = access.file(path)
    if data is None:
        raise SourceError(f"{path} was removed")
    try:
        return Snapshot.decode(data)
    except ValueError as error:
        raise SourceError(f"{path} is not a snapshot ({error})") from error


def check_files(replica: LogReplica, replayed: Replayed, last_index: int) -> Iterator[Violation]:
    """Check all files of a shard except the files of its log and of its indexes. Raises SourceError."""
    yield from check_small_files(replica)
    yield from check_snapshots(replica, replayed, last_index)


def check_snapshots(replica: LogReplica, replayed: Replayed, last_index: int) -> Iterator[Violation]:
    """Check the kept snapshots and the checkpoint. A file that the node removed during the validation is not
    checked."""
    for index, path in replica.kept:
        yield from _check(replica, replayed, last_index, index, path)
    if replica.checkpoint is not None:
        yield from _check(replica, replayed, last_index, None, replica.checkpoint)


def _check(
    replica: LogReplica, replayed: Replayed, last_index: int, index: int | None, path: str
) -> Iterator[Violation]:
    data = access_to(path).file(path)
    if data is None:
        return

    def violation(kind: ViolationKind, reason: str, at: int | None) -> Violation:
        return Violation(kind, replica.shard, replica.source, reason, index=at, position=0, path=path)

    try:
        snapshot = Checkpoint.decode(data).snapshot if index is None else Snapshot.decode(data)
    except (ValueError, TypeError) as error:
        if index is not None and index > replica.checkpoint_index and not replica.clean:
            return  # a power loss may damage a snapshot that is younger than the last checkpoint; no start needs it
        yield violation(
            ViolationKind.DAMAGED_FILE, f"this is not a {'checkpoint' if index is None else 'snapshot'} ({error})", None
        )
        return
    if index is not None and snapshot.index != index:
        yield violation(ViolationKind.STALE_SNAPSHOT, f"the file says that it belongs to entry {snapshot.index}", index)
        return
    if snapshot.index > last_index and not replica.is_running and index is None:
        reason = f"it belongs to entry {snapshot.index}, which was flushed, but the log ends with entry {last_index}"
        yield replace(violation(ViolationKind.LOG_CUT, reason, last_index + 1), last_index=snapshot.index)
        return
    tail = replayed.tails.get(snapshot.index)
    if tail is not None and tail != snapshot.tail:
        yield violation(
            ViolationKind.STALE_SNAPSHOT,
            f"it does not belong to this log: entry {snapshot.index} differs",
            snapshot.index,
        )
        return
    due = replayed.states.get(snapshot.index)
    if due is not None:
        found = xxhash.xxh3_64_intdigest(snapshot.state), xxhash.xxh3_64_intdigest(snapshot.configuration)
        if found != due:
            what = "state" if found[0] != due[0] else "configuration"
            reason = f"its {what} differs from the replayed {what} at entry {snapshot.index}"
            yield violation(ViolationKind.STALE_SNAPSHOT, reason, snapshot.index)


def present_snapshot(replica: LogReplica) -> Snapshot:
    """Return the snapshot at the present log start. If the log begins at entry 1, or after an error, return an
    empty snapshot."""
    if not replica.segments:
        return _NO_SNAPSHOT
    if replica.base is not None or not replica.segments[0].path.startswith("http"):
        path = replica.base or str(Path(replica.segments[0].path).parent.parent / "snapshot")
    else:
        path = replica.segments[0].path.rpartition("/segments/")[0] + "/snapshot"
    try:
        data = access_to(path).file(path)
        return Snapshot.decode(data) if data is not None else _NO_SNAPSHOT
    except (SourceError, ValueError):
        return _NO_SNAPSHOT
