"""Replicas of one shard whose nodes are down, made by the store and the state machine themselves, and open to damage.

    entry 1         configuration: nodes 1 to 3
    entries 2, 3    topics `orders` (id 1, two queues) and `events` (id 2, one queue)
    entries 4 ...   batches of one to three messages with keys and tags, in turn; a command now and then

The tests write the log of node 1, and copy it to nodes 2 and 3. All three nodes were stopped in order. The entries
themselves show that all entries but the last one are committed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import google_crc32c

from ledger.batch import BatchHeader, encode, indexed_hashes, tag_hashes
from ledger.batch.header import seal
from ledger.history import HistoryWriter, Open, OperationOutcome, Send
from ledger.state import CommittedBatch, State
from ledger.v1 import command_pb2
from raft.configuration_entry import ConfiguredMember, ShardConfiguration, encode_configuration
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
    Snapshot,
    VoteFile,
)
from store.log.entry import HEADER_SIZE, chained, padded
from store.log.entry import encode as encode_entry

SEGMENT = 8192
TIME_MS = 1_700_000_000_000
PRODUCER = 0x51
NODES = (1, 2, 3)
ORDERS, EVENTS = 1, 2


def topics_of(shard: int) -> dict[int, str]:
    """Return the names of the two topics in this shard, by topic id."""
    behind = f"-{shard}" if shard else ""
    return {ORDERS: f"orders{behind}", EVENTS: f"events{behind}"}


@dataclass(slots=True)
class Written:
    """A message as its producer knows it."""

    topic: str
    queue: int
    offset: int
    sequence: int
    value: bytes


@dataclass
class Writer:
    """Appends entries to one node's log as a leader does, and applies them."""

    path: Path
    term: int = 1
    cluster: str = "test"
    node: int = 1
    shard: int = 0
    producer: int = PRODUCER
    segment_bytes: int = SEGMENT
    state: State = field(default_factory=State)
    written: list[Written] = field(default_factory=list)
    sequences: dict[tuple[int, int, int], int] = field(default_factory=dict)
    incarnation: int = 0

    def __post_init__(self) -> None:
        disk = PosixDisk()
        self.directory = NodeDirectory.open(disk, self.path, cluster=self.cluster, node=self.node)
        VoteFile.open(disk, self.directory.vote_path(self.shard), new_incarnation=bytes(range(16))).close()
        self.snapshots = self.directory.snapshots(self.shard)
        self.directory.marks(self.shard).record_boot("a-boot", "async")
        shard = self.directory.shard_directory(self.shard)
        self.log = CommitLog.open(disk, shard / "log", LogSettings(segment_bytes=self.segment_bytes))
        self.queues = ConsumeQueues(disk, shard / "queues")
        self.keys = KeyIndex(disk, shard / "keys", first_capacity=16)
        self.configuration = encode_configuration(
            ShardConfiguration(
                self.cluster,
                {node: ConfiguredMember(bytes([self.incarnation, node]) * 8) for node in NODES},
                self.segment_bytes,
                self.segment_bytes // 2,
            )
        )
        self.append(EntryDraft(EntryKind.CONFIGURATION, self.configuration))

    def append(self, draft: EntryDraft, *, time_ms: int | None = None, commit: int | None = None) -> Header:
        known = self.log.last_index if commit is None else commit
        now = TIME_MS + self.log.last_index if time_ms is None else time_ms
        (header,) = self.log.append([draft], term=self.term, commit=known, now_ms=now)
        return header

    def command(self, **command: object) -> Header:
        body = command_pb2.Command(**command).SerializeToString()  # type: ignore[arg-type]
        header = self.append(EntryDraft(EntryKind.COMMAND, body))
        self.state.apply_command(body, header.append_time_ms, index=header.index)
        return header

    def create_topic(self, name: str, queues: int) -> Header:
        return self.command(create_topic=command_pb2.CreateTopic(name=name, queues=queues))

    def batch(
        self,
        values: Sequence[bytes],
        *,
        topic_id: int = ORDERS,
        queue: int = 0,
        keys: Sequence[bytes | None] | None = None,
        tags: Sequence[str | None] | None = None,
        look_up_keys: Sequence[Sequence[bytes]] | None = None,
        time_ms: int | None = None,
    ) -> Header:
        producer = self.producer
        sequence = self.sequences.get((producer, topic_id, queue), 0)
        body = encode(
            list(values), topic_id=topic_id, queue=queue, producer_id=producer, epoch=0, first_sequence=sequence,
            base_timestamp_ms=TIME_MS, keys=keys, tags=tags, look_up_keys=look_up_keys,
        )  # fmt: skip
        offset = self.state.next_offset(topic_id, queue)
        draft = EntryDraft(EntryKind.BATCH, body, topic_id=topic_id, queue=queue, base_offset=offset, count=len(values))
        header = self.append(draft, time_ms=time_ms)
        self.sequences[producer, topic_id, queue] = sequence + len(values)
        self.apply(header, body)
        name = topics_of(self.shard)[topic_id]
        self.written += [Written(name, queue, offset + at, sequence + at, value) for at, value in enumerate(values)]
        return header

    def apply(self, header: Header, body: bytes) -> None:
        hashes = indexed_hashes(body)
        if hashes is not None:
            self.keys.put(header.topic_id, header.position, header.size, header.append_time_ms, hashes)
        self.queues.get(header.topic_id, header.queue).put(
            header.base_offset, header.position, header.size, tag_hashes(body), header.count
        )
        said = BatchHeader.parse(body)
        self.state.apply_batch(CommittedBatch(
            topic_id=header.topic_id, queue=header.queue, base_offset=header.base_offset, count=header.count,
            append_time_ms=header.append_time_ms, index=header.index, term=header.term,
            producer_id=said.producer_id, epoch=said.epoch, first_sequence=said.first_sequence,
        ))  # fmt: skip

    def keep_base(self) -> None:
        """Keep a snapshot of the last entry, so that the log may later begin after it."""
        self.snapshots.keep(self._snapshot())

    def checkpoint(self) -> None:
        """Write a checkpoint as a node does, with the positions of all entries up to it."""
        positions = PositionFiles(PosixDisk(), self.directory.shard_directory(self.shard) / "positions")
        positions.wipe(1)
        marks = positions.add(self.log.reading.position_units(1, self.log.last_index))
        positions.close()
        self.snapshots.save(Checkpoint(self._snapshot(), 1, False, tuple(marks)), self.snapshots.log_number)

    def _snapshot(self) -> Snapshot:
        index = self.log.last_index
        return self.log.snapshot_at(index, configuration=self.configuration, state=self.state.encode())

    def stop(self) -> None:
        self.log.sync()
        self.directory.marks(self.shard).write_clean_mark(self.log.clean_mark())
        self.log.close()
        self.queues.close()
        self.keys.close()
        self.directory.close()


@dataclass(frozen=True, slots=True)
class StoppedReplica:
    """The files of one shard in one node's directory."""

    path: Path
    number: int = 0

    @property
    def shard(self) -> Path:
        return self.path / f"shard-{self.number}"

    def segment(self, position: int) -> Path:
        return self.shard / "log" / f"{position - position % SEGMENT:020}"

    def units(self, queue: int, topic: int = ORDERS) -> Path:
        return self.shard / "queues" / f"{topic}-{queue}" / f"{0:020}"

    def key_files(self) -> list[Path]:
        return sorted(path for path in (self.shard / "keys").iterdir() if not path.suffix)

    def bytes_of(self, header: Header) -> bytes:
        at = header.position % SEGMENT
        return self.segment(header.position).read_bytes()[at : at + padded(header.size)]

    def headers(self) -> list[Header]:
        log = CommitLog.open(PosixDisk(), self.shard / "log", LogSettings(segment_bytes=SEGMENT))
        try:
            return [log.reading.header(index) for index in range(1, log.last_index + 1)]
        finally:
            log.close()

    def checkpoint_at(self, index: int) -> None:
        """Let the checkpoint say that the node has applied the entries up to `index`."""
        path = self.shard / "checkpoint"
        old = Checkpoint.decode(path.read_bytes())
        log = CommitLog.open(PosixDisk(), self.shard / "log", LogSettings(segment_bytes=SEGMENT))
        try:
            base = log.snapshot_at(index, configuration=old.snapshot.configuration, state=old.snapshot.state)
        finally:
            log.close()
        path.write_bytes(replace(old, snapshot=base).encode())

    def killed(self) -> StoppedReplica:
        (self.shard / "clean").unlink(missing_ok=True)
        return self

    def overwrite(self, path: Path, offset: int, data: bytes) -> None:
        whole = bytearray(path.read_bytes())
        whole[offset : offset + len(data)] = data
        path.write_bytes(whole)

    def put(self, position: int, data: bytes) -> None:
        """Write these bytes at this position of the log."""
        self.overwrite(self.segment(position), position % SEGMENT, data)

    def flip(self, path: Path, offset: int, bit: int = 3) -> None:
        self.overwrite(path, offset, bytes([path.read_bytes()[offset] ^ 1 << bit]))

    def rewritten(self, first: int, change: Callable[[Header, bytes], tuple[Header, bytes] | None]) -> None:
        """Write the log again from entry `first` on, with right CRCs and chains. `change` gets header and body of
        each entry, and returns them changed, or None to leave the entry out. Entries keep their positions, unless
        their sizes change."""
        headers = self.headers()
        bodies = [self.bytes_of(header)[HEADER_SIZE : header.size] for header in headers]
        chain = headers[first - 2].chain if first > 1 else 0
        position = headers[first - 1].position
        for path in sorted((self.shard / "log").iterdir()):
            base = int(path.name)
            if base + SEGMENT > position:
                at = max(0, position - base)
                self.overwrite(path, at, bytes(SEGMENT - at))
        for header, body in zip(headers[first - 1 :], bodies[first - 1 :], strict=True):
            changed = change(header, body)
            if changed is None:
                continue
            new, content = changed
            size = HEADER_SIZE + len(content)
            if position % SEGMENT and position % SEGMENT + padded(size) > SEGMENT:
                position += SEGMENT - position % SEGMENT
            data, chain = sealed(new, content, position, chain)
            self.put(position, data)
            position += len(data)
        self.killed()


def sealed(header: Header, body: bytes, position: int, previous_chain: int) -> tuple[bytes, int]:
    """Return the bytes of an entry with right CRCs, even if its fields are wrong, and its chain."""
    draft = EntryDraft(header.kind, body, header.topic_id, header.queue, header.base_offset, header.count)
    made, parts = encode_entry(
        draft, index=header.index, term=header.term, position=position, commit=header.commit,
        append_time_ms=header.append_time_ms, previous_chain=previous_chain,
    )  # fmt: skip
    assert chained(previous_chain, made.crc) == made.chain
    return b"".join(parts), made.chain


def resealed_batch(body: bytes, **changes: int) -> bytes:
    """Return the same batch with other fields in its header, and the right CRC."""
    return seal(replace(BatchHeader.parse(body), **changes).pack(), memoryview(body)[64:])


@dataclass(slots=True)
class StoppedCluster:
    """One shard of a cluster. Several shards may be in one directory."""

    path: Path
    shard: int
    replicas: list[StoppedReplica]
    written: list[Written]

    @staticmethod
    def make(path: Path, batches: int = 60, *, shard: int = 0, **settings: object) -> StoppedCluster:
        writer = Writer(path / "node-1", shard=shard, producer=PRODUCER + shard, **settings)  # type: ignore[arg-type]
        for topic, queues in zip(topics_of(shard).values(), (2, 1), strict=True):
            writer.create_topic(topic, queues)
        for number in range(batches):
            write_batch(writer, number)
            if number == batches // 3:
                writer.keep_base()
            if number == batches // 2:
                writer.checkpoint()
                writer.term = 2
                writer.append(EntryDraft(EntryKind.NO_OP, b""))
        writer.append(EntryDraft(EntryKind.NO_OP, b""))
        writer.stop()
        cluster = StoppedCluster(path, shard, [StoppedReplica(path / "node-1", shard)], writer.written)
        cluster.replicas += [cluster.copy(node) for node in NODES[1:]]
        return cluster

    @property
    def producer(self) -> int:
        return PRODUCER + self.shard

    def copy(self, node: int) -> StoppedReplica:
        """Copy the shard of node 1 to another node."""
        of, to = self.path / "node-1", self.path / f"node-{node}"
        shutil.copytree(of / f"shard-{self.shard}", to / f"shard-{self.shard}")
        identity = json.loads((of / "identity.json").read_text())
        (to / "identity.json").write_text(json.dumps({**identity, "node": node}))
        return StoppedReplica(to, self.shard)

    @property
    def sources(self) -> list[str]:
        return [str(replica.path) for replica in self.replicas]

    def send(self, message: Written) -> Send:
        """Return the history line of a send of this message, acknowledged at its offset."""
        crc = google_crc32c.value(message.value)
        return Send(
            1, OperationOutcome.OK, message.topic, message.queue, True, message.offset, f"{self.producer:016x}", 0,
            message.sequence, [crc], [len(message.value)], None, 1, 2,
        )  # fmt: skip

    def history(self, path: Path, sends: Iterable[Send] | None = None) -> Path:
        """Write a history of all messages, acknowledged at their offsets, or of the given sends."""
        with HistoryWriter(path) as writer:
            writer.write(Open(1, f"{self.producer:016x}", 1))
            for send in map(self.send, self.written) if sends is None else sends:
                writer.write(send)
        return path


def write_batch(writer: Writer, number: int) -> Header:
    """Append a batch of one to three messages, with or without tags. Three of four batches have a key."""
    values = [f"message {number}.{at}".encode() for at in range(number % 3 + 1)]
    topic, queue = (EVENTS, 0) if number % 5 == 4 else (ORDERS, number % 2)
    return writer.batch(
        values,
        topic_id=topic,
        queue=queue,
        keys=[f"key {number % 7}".encode() for _ in values] if number % 4 != 3 else None,
        tags=["even" if number % 2 == 0 else None for _ in values],
    )
