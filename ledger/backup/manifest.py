"""A manifest says what one backup consists of: for each shard a snapshot, if its log did not begin at entry 1, and the
pieces of its log.

    shard 2     snapshot        piece          piece               piece
                | start         | first..last  | first..last      | first..last        | end
                                  each follows the one before it: index, term, chain and time

A manifest is complete in itself. It does not refer to an earlier manifest, so any backup can be removed alone. The
bytes of a manifest are one JSON object with a SHA-256 of its content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ledger.backup.errors import BackupError, DamagedBackupError
from store import LogTail
from store.log.tail import EMPTY

FORMAT = 1
_MANIFESTS = "manifests/"


@dataclass(frozen=True, slots=True)
class BackupPiece:
    """Bytes of one segment of a log, from the first entry to the end of the last entry. The times are append times in
    ms since 1970."""

    # The position in the log of the first byte.
    position: int
    # The number of bytes.
    length: int
    first_index: int
    last_index: int
    first_term: int
    last_term: int
    first_ms: int
    last_ms: int
    # The chain of the last entry.
    chain: int
    # Hexadecimal, of the bytes of the entries.
    sha256: str

    @property
    def end(self) -> int:
        return self.position + self.length

    @property
    def tail(self) -> LogTail:
        """The tail that the first entry after this piece follows."""
        return LogTail(self.last_index, self.last_term, self.end, self.chain, self.last_ms)


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """The snapshot at which the log of a shard begins in a backup."""

    index: int
    length: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ShardBackup:
    """One shard in a backup."""

    shard: int
    segment_bytes: int
    # The nodes that had a replica.
    nodes: tuple[int, ...] = ()
    # The tail that the first entry follows. The first piece may have entries before it, which do not count.
    start: LogTail = EMPTY
    # None if the log begins at entry 1.
    snapshot: StoredSnapshot | None = None
    pieces: tuple[BackupPiece, ...] = ()

    @property
    def tail(self) -> LogTail:
        """The last entry in the backup; the start if there is no entry after it."""
        return self.pieces[-1].tail if self.pieces else self.start

    @property
    def bytes(self) -> int:
        """The bytes of the pieces and the snapshot."""
        return sum(piece.length for piece in self.pieces) + (self.snapshot.length if self.snapshot else 0)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One backup. Times are in ms since 1970."""

    # The name of the backup, such as "20261126T210000.123Z".
    name: str
    cluster: str
    # The version of ledgermq that made the backup.
    version: str
    begun_ms: int
    # The append time of the last entry of shard 0. All entries that were acknowledged before it are in the backup.
    taken_ms: int
    finished_ms: int
    # The bytes that this backup copied. The other bytes were in the target already.
    copied: int
    shards: tuple[ShardBackup, ...]

    @property
    def bytes(self) -> int:
        """The bytes of all pieces and snapshots."""
        return sum(shard.bytes for shard in self.shards)

    @property
    def entries(self) -> int:
        return sum(shard.tail.index - shard.start.index for shard in self.shards)

    def shard(self, number: int) -> ShardBackup | None:
        return next((shard for shard in self.shards if shard.shard == number), None)

    def objects(self) -> set[str]:
        """Return the names of all objects of this backup, without its manifest."""
        return {name for shard in self.shards for name in objects_of(shard)}


def missing_shards(manifest: Manifest, shards: Iterable[int]) -> str:
    """Return a sentence that names the first of the `shards`, which are those in the log of shard 0, that the backup
    does not have; "" if it has all. Early versions made such backups if a shard was added while a backup began."""
    missing = min(set(shards) - {each.shard for each in manifest.shards}, default=None)
    return "" if missing is None else f"backup {manifest.name} lacks shard {missing}, which shard 0 of the backup has"


def objects_of(shard: ShardBackup) -> set[str]:
    """Return the names of the pieces and of the snapshot of a shard."""
    names = {piece_name(shard.shard, piece) for piece in shard.pieces}
    return names | ({snapshot_name(shard.shard, shard.snapshot)} if shard.snapshot else set())


def piece_name(shard: int, piece: BackupPiece) -> str:
    """Return the name of the object with this piece. Two pieces of one name have the same bytes, because committed
    entries never change. A name tells nothing about the messages, because targets do not encrypt names."""
    return f"shards/{shard}/log/{piece.position:020}-{piece.length}"


def snapshot_name(shard: int, snapshot: StoredSnapshot) -> str:
    return f"shards/{shard}/snapshots/{snapshot.index:020}"


def manifest_name(backup: str) -> str:
    return f"{_MANIFESTS}{backup}.json"


def backup_of(name: str) -> str | None:
    """Return the name of the backup whose manifest is the object `name`, or None if it is no manifest."""
    inner = name.removeprefix(_MANIFESTS).removesuffix(".json")
    return inner if name == manifest_name(inner) else None


def encode_manifest(manifest: Manifest) -> bytes:
    fields = {"format": FORMAT, **asdict(manifest)}
    return json.dumps({"manifest": fields, "sha256": _digest(fields)}, indent=1).encode() + b"\n"


def decode_manifest(content: bytes, name: str) -> Manifest:
    """Return the manifest in the object `name`. Raises DamagedBackupError, and BackupError if a later version wrote
    the manifest."""
    try:
        found = json.loads(content)
        fields, digest = found["manifest"], found["sha256"]
        if fields["format"] > FORMAT:
            raise BackupError(
                f"{name} has format {fields['format']}, and this program knows format {FORMAT}: use the version of "
                f"ledgermq that made the backup ({fields.get('version')})"
            )
        if _digest(fields) != digest:
            raise ValueError("its SHA-256 differs from the one that is stored in it")
        return _manifest(fields)
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedBackupError(f"{name} is no whole manifest ({error!r})") from error


def encode_shards(shards: Mapping[int, ShardBackup]) -> list[dict[str, Any]]:
    return [asdict(shards[number]) for number in sorted(shards)]


def decode_shard(fields: dict[str, Any]) -> ShardBackup:
    """Return the shard in these fields. Raises ValueError, TypeError or KeyError."""
    snapshot = fields["snapshot"]
    return ShardBackup(
        shard=fields["shard"],
        segment_bytes=fields["segment_bytes"],
        nodes=tuple(fields["nodes"]),
        start=LogTail(**fields["start"]),
        snapshot=None if snapshot is None else StoredSnapshot(**snapshot),
        pieces=tuple(BackupPiece(**piece) for piece in fields["pieces"]),
    )


def _manifest(fields: dict[str, Any]) -> Manifest:
    shards = tuple(decode_shard(shard) for shard in fields["shards"])
    if [shard.shard for shard in shards] != sorted({shard.shard for shard in shards}):
        raise ValueError("its shards are not in order")
    return Manifest(**{key: value for key, value in fields.items() if key not in ("format", "shards")}, shards=shards)


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
