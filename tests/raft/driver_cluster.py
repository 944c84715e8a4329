"""Drivers over real CommitLogs on memory disks, connected by a network in memory. The test decides about turns and
time."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from raft.configuration_entry import ConfiguredMember as GroupMember
from raft.configuration_entry import ShardConfiguration, decode_configuration, encode_configuration
from raft.core import (
    Append,
    Configuration,
    Divergences,
    Durable,
    LogTerms,
    Raft,
    RaftMessage,
    RaftSettings,
    RaftTiming,
    RecoveredState,
    RoleChange,
    SnapshotChunk,
    TermRun,
)
from raft.driver import Driver
from raft.driver_settings import DriverRuntime, ReplicaStorage
from raft.errors import CannotApplyError
from raft.held_up import HeldUp
from raft.snapshot_piece import SnapshotPiece
from store import (
    CommitLog,
    EntryDraft,
    EntryKind,
    Header,
    LogCallbacks,
    LogSettings,
    MemoryDisk,
    PreviousRun,
    Readable,
    Snapshot,
    Snapshots,
    StoreError,
)

SEGMENT_BYTES = 1 << 16
LOG_DIRECTORY = Path("/log")


@dataclass
class RecordingMachine:
    """A state machine that records its calls. Its state is the list of all entries that it ever applied."""

    applied: list[tuple[int, bytes]] = field(default_factory=list)
    restored: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    roles: list[RoleChange] = field(default_factory=list)
    led: list[int] = field(default_factory=list)
    failures: list[StoreError] = field(default_factory=list)
    divergences: list[Divergences] = field(default_factory=list)
    mute: list[int] = field(default_factory=list)
    stopped: list[CannotApplyError] = field(default_factory=list)
    # Bodies of entries that this machine cannot apply.
    unknown: tuple[bytes, ...] = ()

    def apply(self, header: Header, body: memoryview) -> None:
        if bytes(body) in self.unknown:
            raise CannotApplyError(header.index, "unknown")
        self.applied.append((header.index, bytes(body)))

    def encoded_state(self) -> bytes:
        return repr(self.applied).encode()

    def flaw_of(self, snapshot: Snapshot) -> str:
        try:
            ast.literal_eval(snapshot.state.decode())
        except (SyntaxError, ValueError) as error:
            return str(error)
        return ""

    def restore(self, snapshot: Snapshot) -> None:
        self.applied = ast.literal_eval(snapshot.state.decode())
        self.restored.append(snapshot.index)

    def log_starts(self, snapshot: Snapshot) -> None:
        self.starts.append(snapshot.index)

    def role_changed(self, change: RoleChange) -> None:
        self.roles.append(change)

    def leading(self, term: int) -> None:
        self.led.append(term)

    def stopped_applying(self, reason: CannotApplyError) -> None:
        self.stopped.append(reason)

    def diverged(self, divergences: Divergences) -> None:
        self.divergences.append(divergences)

    def unacknowledged(self, peer: int) -> None:
        self.mute.append(peer)

    def failed(self, failure: StoreError) -> None:
        self.failures.append(failure)


@dataclass
class ManualDisk:
    """Saves votes at once. Writes are held at once, or when the test says so."""

    holds_back: bool = False
    waiting: list[Callable[[], None]] = field(default_factory=list)
    flushes: int = 0
    is_trusted: bool = False
    tidied: int = 0

    def save_vote(self, term: int, voted_for: int, done: Callable[[], None]) -> None:
        done()

    def persist(self, done: Callable[[], None]) -> None:
        if self.holds_back:
            self.waiting.append(done)
        else:
            done()

    def flush(self, done: Callable[[], None]) -> None:
        self.flushes += 1
        self.persist(done)

    def tidy(self) -> None:
        self.tidied += 1

    def trusted(self) -> None:
        self.is_trusted = True

    def finish(self) -> None:
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done()


class TestProposal:
    """A proposal that records its result."""

    __test__ = False

    def __init__(self, body: bytes, kind: EntryKind = EntryKind.COMMAND) -> None:
        self.draft = EntryDraft(kind, body)
        self.header: Header | None = None
        self.outcome: bool | None = None

    def appended(self, header: Header) -> None:
        assert self.header is None
        self.header = header

    def settled(self, committed: bool) -> None:
        assert self.outcome is None, "settled twice"
        self.outcome = committed


class Member:
    """One node: driver, log and state machine. The network of the cluster delivers the messages that the node sends."""

    def __init__(self, cluster: DriverCluster, node: int, disk: MemoryDisk) -> None:
        self.node = node
        self.disk = disk
        self.files = ManualDisk()
        self.machine = RecordingMachine()
        self.turns: deque[Callable[[], None]] = deque()
        self.sent_ranges: list[Append] = []
        self.reopened: list[int] = []
        self.configured_with: list[ShardConfiguration] = []
        self.monotonic_ms = 0
        # By how much the wall clock of this node is ahead of the right time.
        self.wall_error_ms = 0
        self._cluster = cluster
        self.configurations: list[tuple[int, Configuration]] = []
        self.snapshots = Snapshots(disk, Path("/"))
        snapshot = self.snapshots.snapshot
        if snapshot:
            self.configurations.append((snapshot.index, decode_configuration(snapshot.configuration).core))
        self.log = CommitLog.open(
            disk,
            LOG_DIRECTORY,
            LogSettings(segment_bytes=SEGMENT_BYTES),
            PreviousRun(snapshot=snapshot, is_resetting=self.snapshots.is_resetting),
            LogCallbacks(on_entry=self._remember_configuration),
        )
        self.snapshots.finish_reset()
        if self.log.last_index == 0 and node in cluster.nodes:
            self.log.append([cluster.first_entry], term=1, commit=0, now_ms=0)
            self.configurations.append((1, Configuration(tuple(cluster.nodes))))
        first, last = self.log.first_index, self.log.last_index
        runs = [TermRun(*run) for run in self.log.reading.term_runs(first, last)]
        self.driver = Driver(
            Raft(
                RaftSettings(
                    node,
                    timing=RaftTiming(heartbeat_ticks=1, election_ticks=4),
                    jitter=lambda: node,
                    reach=self._reach,
                    max_uncommitted_bytes=1 << 15,
                ),
                RecoveredState(
                    Durable(self.log.tail.term, 0),
                    LogTerms(runs, last, snapshot_index=first - 1, snapshot_term=self.log.term(first - 1)),
                    configurations=self.configurations,
                    commit=self.log.known_commit,
                ),
            ),
            ReplicaStorage(self.log, self.snapshots, self.snapshots.snapshot),
            transport=self,
            disk=self.files,
            machine=self.machine,
            runtime=DriverRuntime(
                now_ms=lambda: self._cluster.steady_ms + self.wall_error_ms,
                steady_ms=lambda: self._cluster.steady_ms,
                soon=self.turns.append,
                was_held_up=HeldUp(lambda: self.monotonic_ms, 1000),
            ),
        )
        if snapshot:
            self.machine.restore(snapshot)
        self.driver.start()

    def _remember_configuration(self, header: Header, body: memoryview) -> None:
        if header.kind is EntryKind.CONFIGURATION:
            self.configurations.append((header.index, decode_configuration(bytes(body)).core))

    def _reach(self, first: int, max_bytes: int) -> tuple[int, int]:
        last = self.log.reading.reach(first, max_bytes)
        return last, self.log.reading.span(first, last)

    def send(self, message: RaftMessage) -> None:
        self._cluster.deliver(message, b"")

    def send_snapshot(self, chunk: SnapshotChunk, piece: SnapshotPiece) -> None:
        self._cluster.deliver(chunk, piece)

    def replicate(self, ranges: Iterable[tuple[Append, Readable]]) -> None:
        for append, entries in ranges:
            self.sent_ranges.append(append)
            # As on the wire: the receiver reads terms from the bytes.
            bare = Append(
                append.sender,
                append.receiver,
                append.term,
                append.prev_index,
                append.prev_term,
                (),
                append.prev_index,
                append.commit,
            )
            self._cluster.deliver(bare, bytes(entries))

    def reopen(self, peer: int) -> None:
        self.reopened.append(peer)

    def configured(self, configuration: ShardConfiguration, served: Container[int]) -> None:
        self.configured_with.append(configuration)

    def bytes_of_log(self) -> bytes:
        first, last = self.log.first_index, self.log.last_index
        return b"".join(self.log.reading.read_range(index, index) for index in range(first, last + 1))


MOST_TURNS = 100_000


class DriverCluster:
    """The members and their network. The network delivers messages in order, except on connections that the test
    cut."""

    def __init__(self, size: int) -> None:
        self.nodes = list(range(1, size + 1))
        self.voters = {node: GroupMember(bytes([node]) * 16) for node in self.nodes}
        configuration = ShardConfiguration("test", self.voters, SEGMENT_BYTES, SEGMENT_BYTES)
        self.first_entry = EntryDraft(EntryKind.CONFIGURATION, encode_configuration(configuration))
        self.mail: deque[tuple[RaftMessage, bytes | SnapshotPiece]] = deque()
        self.cut_off: set[int] = set()
        # The right time, on the steady clocks of all nodes.
        self.steady_ms = 1_000
        self.members = {node: Member(self, node, MemoryDisk()) for node in self.nodes}

    def __getitem__(self, node: int) -> Member:
        return self.members[node]

    def deliver(self, message: RaftMessage, beside: bytes | SnapshotPiece) -> None:
        self.mail.append((message, beside))

    def run(self) -> None:
        """Run all turns and deliver all messages, until nothing is left to do without a tick."""
        for _ in range(MOST_TURNS):
            if not self.mail and not any(member.turns for member in self.members.values()):
                return
            for member in self.members.values():
                while member.turns:
                    member.turns.popleft()()
            if self.mail:
                self._hand_over(*self.mail.popleft())
        raise AssertionError("they answer each other without end")

    def hand_over_to(self, node: int) -> None:
        """Deliver the messages that wait for this node now."""
        mine = [mail for mail in self.mail if mail[0].receiver == node]
        self.mail = deque(mail for mail in self.mail if mail[0].receiver != node)
        for message, beside in mine:
            self._hand_over(message, beside)

    def _hand_over(self, message: RaftMessage, beside: bytes | SnapshotPiece) -> None:
        gone = message.receiver not in self.members
        if gone or message.sender in self.cut_off or message.receiver in self.cut_off:
            return
        driver = self.members[message.receiver].driver
        if isinstance(message, Append) and isinstance(beside, bytes):
            driver.receive_append(message, beside)
        elif isinstance(message, SnapshotChunk) and isinstance(beside, SnapshotPiece):
            driver.receive_snapshot(message, beside)
        else:
            driver.receive(message)

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            for member in self.members.values():
                member.driver.tick()
            self.run()

    def elect(self) -> Member:
        """Tick until a node leads and a majority follows it."""
        for _ in range(50):
            self.tick()
            leaders = [member for member in self.members.values() if member.driver.leads]
            ready = [member for member in leaders if member.driver.raft.term in member.machine.led]
            if ready and ready[-1].node not in self.cut_off:
                return ready[-1]
        raise AssertionError("nobody was elected")

    def join(self, node: int) -> Member:
        """Start a new node with an empty disk and without a configuration."""
        self.members[node] = Member(self, node, MemoryDisk())
        return self.members[node]

    def restart(self, node: int) -> Member:
        """Kill the process of the node and start it again on the same disk. The streams of the other nodes to it
        break."""
        self.members[node] = Member(self, node, self.members[node].disk.after_kill())
        for member in self.members.values():
            member.driver.unreachable(node)
        return self.members[node]
