"""Copies the log of one shard to a target, from the last copied entry to the last entry of the backup.

    in the target     | piece | piece |
    log of a replica  | segment           | segment           | segment  last ...
                                      ^ copied from here on          ^ not copied: after the last entry of the backup

Every entry is checked before it is stored, as a follower checks what it receives: CRC, index, term, position and chain.
So a piece never has damaged bytes, and continues the piece before it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import replace

from ledger.backup.errors import BackupError
from ledger.backup.manifest import BackupPiece, ShardBackup, StoredSnapshot, piece_name, snapshot_name
from ledger.backup.rate import RateLimit
from ledger.backup.source import LogListing, ShardSource
from ledger.backup.targets.target import BackupTarget
from raft.configuration_entry import InvalidConfigurationError, decode_configuration
from store import CorruptRangeError, ForkedError, Snapshot
from store.log.entry import ALIGNMENT, HEADER_SIZE, EntryFlawError, parse
from store.log.grid import Grid
from store.log.received_range import examined

# A piece is held in memory. It has less than this, unless one entry has more.
PIECE_BYTES = 16 << 20
# One request to a node.
_READ_BYTES = 1 << 20
# Where an entry states its size and its index.
_SIZE_AND_INDEX = struct.Struct("<8xI4xQ")

# Called with the bytes that were copied, when a piece or a snapshot is stored.
OnCopied = Callable[[ShardBackup, int], None]


class ShardCopy:
    def __init__(self, source: ShardSource, target: BackupTarget, limit: RateLimit, on_copied: OnCopied) -> None:
        self._source = source
        self._nodes = source.nodes
        self._target = target
        self._limit = limit
        self._on_copied = on_copied

    def run(self, shard: int, before: ShardBackup | None, last_index: int) -> ShardBackup:
        """Copy the entries up to `last_index`, and return the shard as it is in the target then. `before` is the shard
        as an earlier backup left it. Raises BackupError."""
        if before is not None and last_index <= before.tail.index:
            raise BackupError(
                f"shard {shard}: the log ends at entry {last_index}, and the target has entries up to "
                f"{before.tail.index}: this target has backups of another cluster; choose another target"
            )
        listing = self._source.listing(last_index)
        copied = self._begun(shard, before, listing)
        while copied.tail.index < last_index:
            content, piece = self._next_piece(copied, listing.segments[0].base, last_index)
            self._target.put(piece_name(shard, piece), content)
            copied = replace(copied, pieces=(*copied.pieces, piece))
            self._on_copied(copied, len(content))
        return copied

    def _begun(self, shard: int, before: ShardBackup | None, listing: LogListing) -> ShardBackup:
        """Return what is kept of the earlier backup. If the log begins later now, the snapshot at its start takes the
        place of the earlier pieces, so a backup does not grow without a limit."""
        if before is not None and listing.first_index <= before.start.index + 1:
            return replace(before, nodes=self._nodes)
        if listing.first_index == 1:
            return ShardBackup(shard, self._segment_bytes(shard, None), self._nodes)
        content = self._source.snapshot()
        if content is None:
            raise BackupError(
                f"shard {shard}: the log begins at entry {listing.first_index}, and the node serves no snapshot"
            )
        try:
            snapshot = Snapshot.decode(content)
        except ValueError as error:
            raise BackupError(f"shard {shard}: a node sent a damaged snapshot ({error}); try again") from error
        kept: tuple[BackupPiece, ...] = ()
        if before is not None and before.tail.index >= snapshot.index >= before.start.index:
            kept = tuple(piece for piece in before.pieces if piece.last_index > snapshot.index)
        stored = StoredSnapshot(snapshot.index, len(content), hashlib.sha256(content).hexdigest())
        self._limit.take(len(content))
        self._target.put(snapshot_name(shard, stored), content)
        size = self._segment_bytes(shard, snapshot)
        begun = ShardBackup(shard, size, self._nodes, snapshot.tail, stored, kept)
        self._on_copied(begun, len(content))
        return begun

    def _segment_bytes(self, shard: int, snapshot: Snapshot | None) -> int:
        """Return the segment size in the configuration that the log begins with."""
        body = snapshot.configuration if snapshot is not None else self._first_body(shard)
        try:
            return decode_configuration(body).segment_bytes
        except InvalidConfigurationError as error:
            raise BackupError(f"shard {shard}: the log does not begin with a configuration ({error})") from error

    def _first_body(self, shard: int) -> bytes:
        """Return the body of entry 1."""
        try:
            content = self._source.read(0, 0, _READ_BYTES)
            header = parse(content, 0)
        except EntryFlawError as error:
            raise BackupError(f"shard {shard}: a node sent a damaged entry 1 ({error}); try again") from error
        return content[HEADER_SIZE : header.size]

    def _next_piece(self, copied: ShardBackup, first_base: int, last_index: int) -> tuple[bytes, BackupPiece]:
        """Return the bytes of the next piece, and the piece. The node has segments from the one at `first_base` on."""
        grid = Grid(copied.segment_bytes)
        base = max(grid.base(copied.tail.end), first_base)
        content = self._entries_from(base, max(copied.tail.end, base), last_index)
        if not content:  # no entry fits into the rest of the segment
            base = grid.next_base(copied.tail.end)
            content = self._entries_from(base, base, last_index)
        if not content:
            raise BackupError(
                f"shard {copied.shard}: no entry follows entry {copied.tail.index} at position {copied.tail.end} on "
                "the nodes: this target has backups of another cluster; choose another target"
            )
        return content, _checked(copied, content, grid)

    def _entries_from(self, base: int, position: int, last_index: int) -> bytes:
        """Return the bytes of whole entries from `position` on, up to the entry `last_index`, the end of the segment or
        the size of a piece."""
        content = bytearray()
        whole, is_last, wanted = 0, False, _READ_BYTES
        while not is_last and whole < PIECE_BYTES:
            self._limit.take(wanted)
            begin = position + len(content)
            more = self._source.read(base, begin, begin + wanted)
            content += more
            before = whole
            whole, is_last, missing = _whole_entries(content, whole, last_index)
            if len(more) < wanted or (missing == 0 and whole == before):
                break
            wanted = max(_READ_BYTES, missing)
        return bytes(memoryview(content)[:whole])


def _whole_entries(content: bytearray, whole: int, last_index: int) -> tuple[int, bool, int]:
    """Return where the whole entries in `content` end, whether the last one of the backup is among them, and how many
    bytes the next entry lacks. Up to `whole`, the entries are known. The CRCs are not checked."""
    while len(content) - whole >= HEADER_SIZE:
        size, index = _SIZE_AND_INDEX.unpack_from(content, whole)
        if size < HEADER_SIZE:  # blank
            return whole, False, 0
        end = whole + ((size + ALIGNMENT - 1) & -ALIGNMENT)
        if end > len(content):
            return whole, False, end - len(content)
        whole = end
        if index >= last_index:
            return whole, True, 0
    return whole, False, HEADER_SIZE


def _checked(copied: ShardBackup, content: bytes, grid: Grid) -> BackupPiece:
    """Return the piece with this content. Raises BackupError unless it continues what is copied."""
    tail = copied.tail
    try:
        headers = examined(content, tail, grid)
    except ForkedError as error:
        raise BackupError(
            f"shard {copied.shard}: entry {tail.index + 1} does not continue the entries in the target: this target "
            "has backups of another cluster, or of the time before the cluster was restored; choose another target"
        ) from error
    except CorruptRangeError as error:
        raise BackupError(f"shard {copied.shard}: a node sent damaged entries: {error}; try again") from error
    first, last = headers[0], headers[-1]
    return BackupPiece(
        position=first.position,
        length=len(content),
        first_index=first.index,
        last_index=last.index,
        first_term=first.term,
        last_term=last.term,
        first_ms=first.append_time_ms,
        last_ms=last.append_time_ms,
        chain=last.chain,
        sha256=hashlib.sha256(content).hexdigest(),
    )
