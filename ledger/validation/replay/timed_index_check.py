"""Compares the files of a replica's timed index with the waiting messages that the replay knows, at the checkpoint.

    checkpoint at entry 412 ──> table and buckets of the timed index ──> units: identity, delivery time, position
    replay at entry 412     ──> messages that wait                   ──> the same

After a start the node reads the entries after the checkpoint again, so what the files have besides does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ledger.timed import moment
from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.sources.replica import LogReplica
from store import Checkpoint, StoreError
from store.index.file_mark import marks_in
from store.index.timed_files import waiting_units
from store.index.timed_unit import TimedIndexCursor

# The directory of the index, and the prefix of its marks in a checkpoint.
_TIMED = "timed"
# More differences of one kind are only counted.
_MOST = 20


@dataclass(frozen=True, slots=True)
class WaitingAt:
    """The waiting messages after one entry, by rising identity. `times_ms` has delivery times in ms since 1970, and
    `positions` the positions of the newest entries that have the messages."""

    index: int
    identities: NDArray[np.uint64]
    times_ms: NDArray[np.int64]
    positions: NDArray[np.uint64]
    # Messages from this identity on that are not above wait no more.
    known_from: int
    # Delivered messages that no cursor settles yet. Their units may still be there.
    open: tuple[int, ...]
    # The cursor of the shard: delivery time, identity, and `seen`.
    cursor: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class TimedIndexFound:
    violations: tuple[Violation, ...] = ()
    # The files differ from the checkpoint, as after a kill. The next start builds the index again.
    left: tuple[Violation, ...] = ()


def check_timed_index(replica: LogReplica, known: WaitingAt | None) -> TimedIndexFound:
    """Return the differences. Nothing is compared if the replica runs, has no checkpoint, or if its state at the
    checkpoint is not known."""
    if replica.indexes is None or replica.checkpoint is None or replica.is_running or known is None:
        return TimedIndexFound()
    directory = Path(replica.indexes) / _TIMED
    try:
        checkpoint = Checkpoint.decode(Path(replica.checkpoint).read_bytes())
        units = waiting_units(directory, marks_in(_TIMED, checkpoint.marks), TimedIndexCursor(*known.cursor))
    except (OSError, ValueError):
        return TimedIndexFound()  # other checks tell about the checkpoint
    except StoreError as error:
        return TimedIndexFound((_violation(replica, ViolationKind.DAMAGED_FILE, str(error), directory),))
    if checkpoint.index != known.index:
        return TimedIndexFound()
    if units is None:
        reason = "the files of the timed index differ from the checkpoint"
        differ = _violation(replica, ViolationKind.UNIT_WRONG, reason, directory)
        return TimedIndexFound(left=(differ,)) if replica.clean is None else TimedIndexFound((differ,))
    order = np.argsort(units["identity"])
    return TimedIndexFound(tuple(_differences(replica, known, units[order], directory)))


def _differences(
    replica: LogReplica, known: WaitingAt, units: NDArray[np.void], directory: Path
) -> Iterator[Violation]:
    have, want = units["identity"], known.identities
    missing = np.flatnonzero(~np.isin(want, have))
    surplus = np.flatnonzero(
        ~np.isin(have, want)
        & (have >= np.uint64(known.known_from))
        & ~np.isin(have, np.array(known.open, np.uint64))
    )  # fmt: skip
    both = np.intersect1d(want, have)
    mine, theirs = np.searchsorted(want, both), np.searchsorted(have, both)
    is_wrong = known.times_ms[mine] != units["time"][theirs]
    is_wrong |= known.positions[mine] != units["position"][theirs]
    wrong = mine[is_wrong]
    at = f"after entry {known.index}"
    for kind, rows, identities, what in (
        (ViolationKind.UNIT_MISSING, missing, want, f"the timed index lacks a message that waits {at}"),
        (ViolationKind.UNIT_SURPLUS, surplus, have, f"the timed index has a message that does not wait {at}"),
        (ViolationKind.UNIT_WRONG, wrong, want, f"the timed index has another delivery time or entry {at}"),
    ):
        for row in rows[:_MOST].tolist():
            reason = f"{what}: the waiting message {identities[row]}"
            if kind is not ViolationKind.UNIT_SURPLUS:
                reason += f", due at {moment(int(known.times_ms[row])).isoformat()}"
            yield _violation(replica, kind, reason, directory)
        if len(rows) > _MOST:
            yield _violation(replica, kind, f"{what}: {len(rows) - _MOST:,} more", directory)


def _violation(replica: LogReplica, kind: ViolationKind, reason: str, directory: Path) -> Violation:
    return Violation(kind, replica.shard, replica.source, reason, path=str(directory))
