"""Defines a node of the protocol world, which runs the real Raft core and driver on a simulated log. The process of a
node can end at any moment.

    up --kill, power_cut--> down --start--> up        up --pause--> paused --resume--> up, with all pending events

The method `_event` handles every event of a node. An event that belongs to an earlier process of the node is dropped.
An event for a paused process waits until the process resumes. After each event of a node, the node's `Watch` checks
the invariants. `ProtocolNode` implements `raft.interfaces.Transport`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.protocol.disk_threads import SavedVote, SimDiskThreads, Votes
from chaos.sim.protocol.log import NO_SNAPSHOTS, SimEntry, SimLog
from chaos.sim.protocol.machine import SimMachine
from raft.configuration_entry import ConfiguredMember, ShardConfiguration, decode_configuration, encode_configuration
from raft.core import (
    Append,
    AppendResponse,
    Configuration,
    Divergences,
    Durable,
    InvalidMessage,
    LogTerms,
    Raft,
    RaftMessage,
    RaftSettings,
    RaftTiming,
    RecoveredState,
    SnapshotChunk,
)
from raft.driver import Driver
from raft.driver_settings import DriverRuntime, ReplicaStorage
from raft.errors import CutFailedError
from raft.held_up import HeldUp
from store import EntryDraft, EntryKind, ForkedError, Readable, StoreError

# Wall-clock time at the start of a run.
EPOCH_MS = 1_700_000_000_000


class Watch(Protocol):
    """The interface of the object that observes nodes. A node calls a method of this interface for each of its
    events."""

    def touched(self, node: ProtocolNode) -> None: ...
    def broken(self, node: ProtocolNode, error: Exception) -> None: ...
    def applied(self, node: ProtocolNode, index: int, digest: Callable[[], int]) -> None: ...
    def vote_saved(self, node: ProtocolNode, vote: SavedVote) -> None: ...
    def started(self, node: ProtocolNode) -> None: ...
    def wiped(self, node: ProtocolNode) -> None: ...
    def sends(self, node: ProtocolNode, message: RaftMessage) -> None: ...
    def receives(self, node: ProtocolNode, message: RaftMessage) -> None: ...
    def received_range(self, node: ProtocolNode, append: Append, entries: Readable) -> None: ...
    def keeps_back(self, node: ProtocolNode, message: RaftMessage, deliver: Callable[[], None]) -> bool: ...
    def loses_power(self, node: ProtocolNode) -> None: ...
    def ticked(self, node: ProtocolNode) -> None: ...
    def reopened(self, node: ProtocolNode, peer: int) -> None: ...
    def excuses(self, node: ProtocolNode, error: Exception) -> bool: ...
    def disk_failed(self, node: ProtocolNode, failure: StoreError) -> None: ...
    def loss_accepted(self, node: ProtocolNode) -> None: ...
    def diverged(self, node: ProtocolNode, divergences: Divergences) -> None: ...


class DiskCopy(NamedTuple):
    """A copy of a node's disk at some moment."""

    entries: tuple[SimEntry, ...]
    vote: SavedVote
    incarnation: int
    suspect: bool

    def is_older_than(self, node: ProtocolNode) -> bool:
        """Return True if the node would lose something with this copy."""
        return node.log.entries[: len(self.entries)] != list(self.entries) or node.log.last_index > len(self.entries)


class ProtocolNode:
    """One node of the protocol world. The log and the vote file of a node stay when a process of the node ends."""

    def __init__(
        self,
        node: int,
        loop: SimLoop,
        network: Network,
        options: Options,
        watch: Watch,
        peers: Callable[[int], ProtocolNode],
    ) -> None:
        self.node = node
        self.alive = False
        # Its disk was wiped and the others know only its old incarnation, so it takes no part.
        self.stranger = False
        # Number of the current disk.
        self.incarnation = 1
        # Whether it may have lost entries that it acknowledged.
        self.suspect = False
        self.log = self._make_log(options)
        self.votes = Votes()
        # Whether the disk has room for new data of clients.
        self.has_room = True
        # Nodes to which this node's acknowledgements get lost.
        self.unheard: set[int] = set()
        self.clock_off_ms = 0
        self.clock_rate = 1.0
        self.disk: SimDiskThreads
        self.driver: Driver
        self.machine: SimMachine
        self._loop = loop
        self._network = network
        self._options = options
        self._watch = watch
        self._peers = peers
        self._random = options.chance(f"node {node}")
        # Number of the current process. Events for an earlier process are dropped.
        self.life = 0
        self._paused = False
        self._put_off: list[Callable[[], None]] = []
        self.votes.on_saved = lambda vote: watch.vote_saved(self, vote)
        self._write_first_entry()

    @property
    def raft(self) -> Raft | None:
        return self.driver.raft if self.alive else None

    @property
    def paused(self) -> bool:
        return self._paused

    @property
    def leads(self) -> bool:
        return self.alive and self.driver.leads

    # -- start and end of the process

    def start(self) -> None:
        """Start a new process with the log and the vote file of the last process."""
        assert not self.alive
        self._network.up(self.node)
        if self.stranger:
            return
        self.alive = True
        self.life += 1
        self.disk = SimDiskThreads(self, self.log, self.votes, self._options, self._random)
        self.machine = SimMachine(
            lambda index, digest: self._watch.applied(self, index, digest),
            lambda failure: self._watch.disk_failed(self, failure),
            lambda: self._watch.loss_accepted(self),
            lambda divergences: self._watch.diverged(self, divergences),
        )
        self.driver = self.machine.driver = self._make_driver(self._make_core())
        self._watch.started(self)
        self._do(self._begin)

    def _begin(self) -> None:
        self.disk.start()
        self._look_for_room()
        self.driver.start()
        self.later(self._random.random() * self._tick_s, self._tick)

    def kill(self) -> None:
        """Kill the process. All writes of the process stay in the page cache."""
        self._end()
        self.log.killed(self._random)

    def cut_power(self) -> str:
        """End the process by a power cut. Return the effect on the log, as `SimLog.power_lost` describes it."""
        self._end()
        self.suspect = not self._options.sync
        self._watch.loses_power(self)
        return self.log.power_lost(self._random)

    def wipe(self) -> None:
        """End the process and replace the node's disk by an empty disk."""
        self._end()
        self.log, self.votes = self._make_log(self._options), Votes()
        self.votes.saved = SavedVote(0, 0)
        self.votes.on_saved = lambda vote: self._watch.vote_saved(self, vote)
        self.stranger, self.suspect = True, False
        self.incarnation += 1
        self._watch.wiped(self)

    def copied_disk(self) -> DiskCopy:
        """Return a copy of what is flushed."""
        entries = tuple(self.log.entries[: self.log.flushed])
        return DiskCopy(entries, self.votes.saved, self.incarnation, self.suspect)

    def put_back(self, copy: DiskCopy) -> None:
        """End the process, and replace the disk by this copy of it."""
        self._end()
        self.log.put_back(copy.entries)
        self.votes.saved = copy.vote
        self.suspect = copy.suspect
        self._watch.wiped(self)

    def join(self) -> None:
        """Start this node with its wiped disk, before the operator adds the node with its new incarnation."""
        self.stranger = False
        self.start()

    def _end(self) -> None:
        if self.alive:
            self.disk.ended()
        self.alive = self._paused = False
        self.life += 1
        self._put_off.clear()
        self._network.down(self.node)

    def room_changed(self, has_room: bool) -> None:
        """Let the disk have room for new data of clients, or no room."""
        self.has_room = has_room
        self.now(self._look_for_room)

    def _look_for_room(self) -> None:
        if self.machine.has_room != self.has_room:
            self.machine.has_room = self.has_room
            self.driver.raft.room_changed(self.has_room)

    def pause(self) -> None:
        """Pause the process of the node. Its events wait until `resume` is called."""
        self._paused = True

    def resume(self) -> None:
        """Resume the paused process, and run the events that have waited, in their order."""
        self._paused = False
        put_off, self._put_off = self._put_off, []
        life = self.life
        for action in put_off:
            self._event(life, action)

    # -- events

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._loop.call_later(delay_s, self._event, self.life, action)

    def ask(self, action: Callable[[], None], refusals: type[Exception] | tuple[type[Exception], ...]) -> bool:
        """Run an operator's request now. Return True if the request succeeded, and False if it raised one of the
        exceptions in `refusals`."""
        taken = False

        def try_it() -> None:
            nonlocal taken
            try:
                action()
                taken = True
            except refusals:
                pass

        self._do(try_it)
        return taken

    def now(self, action: Callable[[], None]) -> None:
        """If the node has a process, run an event that comes from outside of the node."""
        if self.alive:
            self._event(self.life, action)

    def _event(self, life: int, action: Callable[[], None]) -> None:
        if life != self.life:
            return
        if self._paused:
            self._put_off.append(action)
        else:
            self._do(action)

    def _do(self, action: Callable[[], None]) -> None:
        try:
            action()
        except CutFailedError:
            self.kill()  # the real process would end too; an operator starts it again
            return
        except Exception as error:
            self._watch.broken(self, error)
            return
        self._watch.touched(self)

    def _soon(self, action: Callable[[], None]) -> None:
        self._loop.call_soon(self._event, self.life, action)

    def _tick(self) -> None:
        self.driver.tick()
        self._watch.ticked(self)
        self.later(self._tick_s, self._tick)

    @property
    def _tick_s(self) -> float:
        return self._options.tick_ms / 1000 / self.clock_rate

    def failed(self, failure: StoreError) -> None:
        """Handle an error that a disk thread reports."""
        self.driver.fail(failure)

    def trusted(self) -> None:
        self.suspect = False

    # -- messages

    def configured(self, configuration: ShardConfiguration, served: Container[int]) -> None:
        """Do nothing, because every node can reach every other node."""

    def send_snapshot(self, chunk: SnapshotChunk, piece: object) -> None:
        raise AssertionError(NO_SNAPSHOTS)

    def reopen(self, peer: int) -> None:
        """Only record it, because messages are datagrams. The core itself begins again to ask the peer."""
        self._watch.reopened(self, peer)

    def send(self, message: RaftMessage) -> None:
        self._watch.sends(self, message)
        if message.receiver in self.unheard and isinstance(message, AppendResponse):
            return
        receiver = self._peers(message.receiver)
        meant = receiver.incarnation
        self._send(message, lambda: receiver.receive(message, meant))

    def _send(self, message: RaftMessage, arrive: Callable[[], None]) -> None:
        if not self._watch.keeps_back(self, message, arrive):
            self._network.send(self.node, message.receiver, arrive)

    def replicate(self, ranges: Iterable[tuple[Append, Readable]]) -> None:
        for append, entries in ranges:
            # As on the wire: the receiver reads terms and configurations from the bytes.
            bare = replace(append, runs=(), last_index=append.prev_index, configurations=())
            receiver = self._peers(append.receiver)
            arrive = partial(receiver.receive_append, bare, entries, receiver.incarnation)
            self._send(append, arrive)

    def receive(self, message: RaftMessage, meant: int) -> None:
        """Deliver a message to the node. A message for another incarnation of the node is dropped, because the real
        transport also refuses such a message."""
        if meant == self.incarnation:
            self.now(lambda: self._hear(message))

    def _hear(self, message: RaftMessage) -> None:
        self._watch.receives(self, message)
        self._take(message.sender, lambda: self.driver.receive(message))

    def receive_append(self, append: Append, entries: Readable, meant: int) -> None:
        if meant == self.incarnation:
            self.now(lambda: self._hear_append(append, entries))

    def _hear_append(self, append: Append, entries: Readable) -> None:
        self._watch.received_range(self, append, entries)
        self._take(append.sender, lambda: self.driver.receive_append(append, entries))

    def _take(self, sender: int, action: Callable[[], None]) -> None:
        """Give a message to the driver. If the driver refuses it for a reason that this run has, the stream breaks."""
        try:
            action()
        except (InvalidMessage, ForkedError) as error:
            if not self._watch.excuses(self, error):
                raise
            self._loop.call_soon(self._peers(sender).unreachable, self.node)

    def unreachable(self, peer: int) -> None:
        """Tell the driver that the stream to the node `peer` has broken."""
        self.now(lambda: self.driver.unreachable(peer))

    # -- parts

    @staticmethod
    def _make_log(options: Options) -> SimLog:
        # Only with leaps of a day does it matter. So the histories of older seeds stay.
        return SimLog(dates_back=all(kind != "clock_leap" for kind, _ in options.strengths))

    def _write_first_entry(self) -> None:
        """Write the first entry of the log, which contains the first configuration. The first entry is equal on
        every node, as after the first start of a real cluster."""
        voters = {node: ConfiguredMember(incarnation_of(node, 1)) for node in range(1, self._options.nodes + 1)}
        body = encode_configuration(ShardConfiguration("simulated", voters, 1 << 30, 1 << 20))
        self.log.append([EntryDraft(EntryKind.CONFIGURATION, body)], term=1, commit=0, now_ms=EPOCH_MS)
        self.log.flushed = 1

    def _make_core(self) -> Raft:
        options, log = self._options, self.log
        settings = RaftSettings(
            self.node,
            timing=RaftTiming(options.heartbeat_ticks, options.election_ticks),
            jitter=lambda: self._random.randrange(options.election_ticks),
            reach=lambda first, most: self.log.reach(first, min(most, options.append_bytes)),
            max_uncommitted_bytes=options.max_uncommitted_bytes,
            incarnation=incarnation_of(self.node, self.incarnation),
        )
        recovered = RecoveredState(
            Durable(self.votes.saved.term, self.votes.saved.voted_for),
            LogTerms(log.term_runs(), log.last_index),
            configurations=self._configurations(settings),
            commit=log.known_commit,
            suspicion=self._random.getrandbits(60) + 1 if self.suspect else 0,
        )
        return Raft(settings, recovered)

    def _configurations(self, server: RaftSettings) -> list[tuple[int, Configuration]]:
        return [
            (entry.header.index, decode_configuration(entry.body).core_of(server))
            for entry in self.log.entries
            if entry.header.kind is EntryKind.CONFIGURATION
        ]

    def _make_driver(self, raft: Raft) -> Driver:
        return Driver(
            raft,
            ReplicaStorage(self.log),
            transport=self,
            disk=self.disk,
            machine=self.machine,
            runtime=DriverRuntime(
                now_ms=self.wall_ms,
                steady_ms=self._monotonic_ms,
                soon=self._soon,
                was_held_up=HeldUp(self._monotonic_ms, self._options.tick_ms * self._options.election_ticks),
            ),
        )

    def wall_ms(self) -> int:
        """Return what the clock of this node shows."""
        return self.true_ms() + self.clock_off_ms

    def true_ms(self) -> int:
        """Return what a right clock shows."""
        return EPOCH_MS + round(self._loop.time() * 1000)

    def _monotonic_ms(self) -> float:
        return self._loop.time() * 1000


def incarnation_of(node: int, number: int) -> bytes:
    """Return the incarnation of a node's n-th disk."""
    return bytes([node, number]) * 8
