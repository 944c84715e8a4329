"""A small data directory of a stopped node, written by the store, for tests that damage it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from ledger.batch import encode, indexed_hashes, tag_hashes
from store import (
    Checkpoint,
    CommitLog,
    ConsumeQueues,
    EntryDraft,
    EntryKind,
    Header,
    KeyIndex,
    LogSettings,
    NodeDirectory,
    PositionFiles,
    PosixDisk,
    VoteFile,
)

SEGMENT = 4096
TOPIC = 3
KEYS_IN_FIRST_FILE = 16


@dataclass(frozen=True, slots=True)
class StoppedNode:
    path: Path

    @staticmethod
    def make(path: Path, batches: int = 40, *, orderly: bool = True) -> StoppedNode:
        """Make the directory of a node with a no-op and `batches` batches of two messages in two queues. All
        entries are applied, and the log knows that all but the last are committed. With `orderly` false the node
        looks killed."""
        disk = PosixDisk()
        directory = NodeDirectory.open(disk, path, cluster="test", node=1)
        VoteFile.open(disk, directory.vote_path(0), new_incarnation=bytes(range(16))).close()
        directory.snapshots(0)
        directory.marks(0).record_boot("a-boot", "async")
        node = StoppedNode(path)
        log = CommitLog.open(disk, node.log, LogSettings(segment_bytes=SEGMENT))
        log.append([EntryDraft(EntryKind.NO_OP, b"")], term=1, commit=0, now_ms=1_700_000_000_000)
        queues = ConsumeQueues(disk, node.shard / "queues")
        keys = KeyIndex(disk, node.keys, first_capacity=KEYS_IN_FIRST_FILE)
        for number in range(batches):
            append_batch(log, number, queues=queues, keys=keys)
        log.sync()
        save_checkpoint(disk, directory, log, log.last_index // 2)
        if orderly:
            directory.marks(0).write_clean_mark(log.clean_mark())
        log.close()
        queues.close()
        keys.close()
        directory.close()
        return node

    @property
    def shard(self) -> Path:
        return self.path / "shard-0"

    @property
    def log(self) -> Path:
        return self.shard / "log"

    @property
    def keys(self) -> Path:
        return self.shard / "keys"

    def units(self, queue: int) -> Path:
        return self.shard / "queues" / f"{TOPIC}-{queue}" / f"{0:020}"

    def segment(self, position: int) -> Path:
        return self.log / f"{position - position % SEGMENT:020}"

    def copy(self, path: Path) -> StoppedNode:
        shutil.copytree(self.path, path)
        return StoppedNode(path)

    def killed(self) -> StoppedNode:
        """Remove the clean mark, so that the node looks killed."""
        (self.shard / "clean").unlink()
        return self

    def open(self) -> CommitLog:
        """Open the log for writing, without the clean mark. The caller closes the log."""
        (self.shard / "clean").unlink(missing_ok=True)
        return CommitLog.open(PosixDisk(), self.log, LogSettings(segment_bytes=SEGMENT))

    def headers(self) -> list[Header]:
        """Return the headers of all entries, from index 1 on."""
        log = CommitLog.open(PosixDisk(), self.log, LogSettings(segment_bytes=SEGMENT))
        try:
            return [log.reading.header(index) for index in range(1, log.last_index + 1)]
        finally:
            log.close()

    def flip(self, path: Path, offset: int, bit: int = 3) -> None:
        data = bytearray(path.read_bytes())
        data[offset] ^= 1 << bit
        path.write_bytes(data)

    def overwrite(self, path: Path, offset: int, data: bytes) -> None:
        whole = bytearray(path.read_bytes())
        whole[offset : offset + len(data)] = data
        path.write_bytes(whole)

    def content(self) -> dict[str, bytes]:
        """Return the content of every file by its relative path."""
        return {str(path.relative_to(self.path)): path.read_bytes() for path in self.path.rglob("*") if path.is_file()}

    def set_format(self, number: int) -> None:
        self._set_identity(format=number)

    def set_node(self, number: int) -> None:
        """Write another node number into the identity of the directory."""
        self._set_identity(node=number)

    def _set_identity(self, **changes: int) -> None:
        identity = self.path / "identity.json"
        identity.write_text(json.dumps({**json.loads(identity.read_text()), **changes}))


def save_checkpoint(disk: PosixDisk, directory: NodeDirectory, log: CommitLog, index: int) -> None:
    """Save a checkpoint at entry `index`, with the positions of the entries up to `index`."""
    positions = PositionFiles(disk, directory.shard_directory(0) / "positions")
    positions.wipe(1)
    marks = positions.add(log.reading.position_units(1, index))
    positions.close()
    snapshots = directory.snapshots(0)
    place = log.snapshot_at(index, configuration=b"", state=b"")
    snapshots.save(Checkpoint(place, 0, False, tuple(marks)), snapshots.log_number)


def append_batch(
    log: CommitLog,
    number: int,
    *,
    term: int = 1,
    commit: int | None = None,
    queues: ConsumeQueues | None = None,
    keys: KeyIndex | None = None,
) -> Header:
    """Append batch `number` to queue `number` % 2. Its messages contain the number and the term. If the indexes are
    given, add the units and keys of the batch."""
    queue = number % 2
    values = [f"message {number} of term {term}".encode(), b"x" * (number % 7)]
    body = encode(
        values, topic_id=TOPIC, queue=queue, producer_id=7, epoch=0, first_sequence=number, base_timestamp_ms=1,
        keys=[b"key", None], tags=["even" if queue == 0 else "odd", None],
    )  # fmt: skip
    draft = EntryDraft(EntryKind.BATCH, body, topic_id=TOPIC, queue=queue, base_offset=number // 2 * 2, count=2)
    known = log.last_index if commit is None else commit
    (header,) = log.append([draft], term=term, commit=known, now_ms=1_700_000_000_000 + number)
    if queues is not None:
        queues.get(TOPIC, queue).put(draft.base_offset, header.position, header.size, tag_hashes(body), 2)
    hashes = indexed_hashes(body)
    if keys is not None and hashes is not None:
        keys.put(TOPIC, header.position, header.size, header.append_time_ms, hashes)
    return header
