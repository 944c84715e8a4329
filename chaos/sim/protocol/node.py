"""A node of the protocol world: real core and real driver, on a simulated log, with a life that can end at any moment.

    up --kill, power_cut--> down --start--> up        up --pause--> standing still --resume--> up, all at once

Everything that happens in a node goes through `_event`: it is dropped when the process it was meant for is gone, put
off while it stands still, and followed by the invariants. It implements `raft.interfaces.Transport`.

Must not know: which faults there are, clients.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.protocol.disk_threads import SavedVote, SimDiskThreads, Votes
from chaos.sim.protocol.log import NO_SNAPSHOTS, SimLog
from chaos.sim.protocol.machine import SimMachine
from raft.configuration_entry import ConfiguredMember, ShardConfiguration, decode_configuration, encode_configuration
from raft.core import Append, Configuration, Durable, LogTerms, Message, Raft, SnapshotChunk, Timing
from raft.driver import Driver
from raft.errors import CutFailedError
from raft.held_up import HeldUp
from store import EntryDraft, EntryKind, Readable, StoreError

EPOCH_MS = 1_700_000_000_000
"""What wall clocks show when a run begins."""


class Watch(Protocol):
    """Who looks at nodes after every event."""

    def touched(self, node: ProtocolNode) -> None: ...
    def broken(self, node: ProtocolNode, error: Exception) -> None: ...
    def applied(self, node: ProtocolNode, index: int, digest: Callable[[], int]) -> None: ...
    def vote_saved(self, node: ProtocolNode, vote: SavedVote) -> None: ...
    def started(self, node: ProtocolNode) -> None: ...
    def wiped(self, node: ProtocolNode) -> None: ...
    def sends(self, node: ProtocolNode, message: Message) -> None: ...
    def receives(self, node: ProtocolNode, message: Message) -> None: ...
    def ticked(self, node: ProtocolNode) -> None: ...
    def disk_failed(self, node: ProtocolNode, failure: StoreError) -> None: ...
    def loss_accepted(self, node: ProtocolNode) -> None: ...


class ProtocolNode:
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
        self.stranger = False
        """Its disk was wiped: the others know another incarnation, and this one takes no part."""
        self.incarnation = 1
        """Counts its disks."""
        self.suspect = False
        """It may have lost what it acknowledged."""
        self.log = SimLog()
        self.votes = Votes()
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
        self._life = 0
        """Counts the processes: what was meant for an older one is dropped."""
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

    # -- its life

    def start(self) -> None:
        """A new process, on what the last one left."""
        assert not self.alive
        self._network.up(self.node)
        if self.stranger:
            return
        self.alive = True
        self._life += 1
        self.disk = SimDiskThreads(self, self.log, self.votes, self._options, self._random)
        self.machine = SimMachine(
            lambda index, digest: self._watch.applied(self, index, digest),
            lambda failure: self._watch.disk_failed(self, failure),
            lambda: self._watch.loss_accepted(self),
        )
        self.driver = self.machine.driver = self._make_driver(self._make_core())
        self._watch.started(self)
        self._do(self._begin)

    def _begin(self) -> None:
        self.disk.start()
        self.driver.start()
        self.later(self._random.random() * self._tick_s, self._tick)

    def kill(self) -> None:
        """The process ends; what it wrote stays, in the page cache."""
        self._end()
        self.log.killed(self._random)

    def cut_power(self) -> str:
        """The machine goes; returns what became of the log (`Log.power_lost`)."""
        self._end()
        outcome = self.log.power_lost(self._random)
        self.suspect = not self._options.sync
        return outcome

    def wipe(self) -> None:
        """The disk is replaced by an empty one."""
        self._end()
        self.log, self.votes = SimLog(), Votes()
        self.votes.saved = SavedVote(0, 0)
        self.votes.on_saved = lambda vote: self._watch.vote_saved(self, vote)
        self.stranger, self.suspect = True, False
        self.incarnation += 1
        self._watch.wiped(self)

    def join(self) -> None:
        """It is about to be added again, under its new incarnation."""
        self.stranger = False
        self.start()

    def _end(self) -> None:
        if self.alive:
            self.disk.ended()
        self.alive = self._paused = False
        self._life += 1
        self._put_off.clear()
        self._network.down(self.node)

    def pause(self) -> None:
        """It stands still; the world goes on."""
        self._paused = True

    def resume(self) -> None:
        """It takes up, one after the other, all that came meanwhile."""
        self._paused = False
        put_off, self._put_off = self._put_off, []
        life = self._life
        for action in put_off:
            self._event(life, action)

    # -- events

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._loop.call_later(delay_s, self._event, self._life, action)

    def ask(self, action: Callable[[], None], refusals: type[Exception] | tuple[type[Exception], ...]) -> bool:
        """An operator asks for something, at once. Returns whether it was not refused."""
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
        """Something has come in for whatever process is there."""
        if self.alive:
            self._event(self._life, action)

    def _event(self, life: int, action: Callable[[], None]) -> None:
        if life != self._life:
            return
        if self._paused:
            self._put_off.append(action)
        else:
            self._do(action)

    def _do(self, action: Callable[[], None]) -> None:
        try:
            action()
        except CutFailedError:
            self.kill()  # as the real process ends; somebody starts it again
            return
        except Exception as error:
            self._watch.broken(self, error)
            return
        self._watch.touched(self)

    def _soon(self, action: Callable[[], None]) -> None:
        self._loop.call_soon(self._event, self._life, action)

    def _tick(self) -> None:
        self.driver.tick()
        self._watch.ticked(self)
        self.later(self._tick_s, self._tick)

    @property
    def _tick_s(self) -> float:
        return self._options.tick_ms / 1000 / self.clock_rate

    def failed(self, failure: StoreError) -> None:
        """A helper thread met trouble with the disk."""
        self.driver.fail(failure)

    def trusted(self) -> None:
        self.suspect = False

    # -- messages

    def configured(self, configuration: ShardConfiguration, served: Container[int]) -> None:
        """Everyone can be reached at any time."""

    def send_snapshot(self, chunk: SnapshotChunk, piece: object) -> None:
        raise AssertionError(NO_SNAPSHOTS)

    def send(self, message: Message) -> None:
        self._watch.sends(self, message)
        receiver = self._peers(message.receiver)
        meant = receiver.incarnation
        self._network.send(self.node, message.receiver, lambda: receiver.receive(message, meant))

    def replicate(self, ranges: Iterable[tuple[Append, Readable]]) -> None:
        for append, entries in ranges:
            # As on the wire: the receiver reads terms and configurations from the bytes.
            bare = replace(append, runs=(), last_index=append.prev_index, configurations=())
            receiver = self._peers(append.receiver)
            arrive = partial(receiver.receive_append, bare, entries, receiver.incarnation)
            self._network.send(self.node, append.receiver, arrive)

    def receive(self, message: Message, meant: int) -> None:
        """What is meant for another incarnation is refused at the door, as the real transport does it."""
        if meant == self.incarnation:
            self.now(lambda: self._hear(message))

    def _hear(self, message: Message) -> None:
        self._watch.receives(self, message)
        self.driver.receive(message)

    def receive_append(self, append: Append, entries: Readable, meant: int) -> None:
        if meant == self.incarnation:
            self.now(lambda: self.driver.receive_append(append, entries))

    def unreachable(self, peer: int) -> None:
        """The stream to that node broke."""
        self.now(lambda: self.driver.unreachable(peer))

    # -- parts

    def _write_first_entry(self) -> None:
        """As the first start leaves it, the same on every node."""
        voters = {node: ConfiguredMember(incarnation_of(node, 1)) for node in range(1, self._options.nodes + 1)}
        body = encode_configuration(ShardConfiguration("simulated", voters, 1 << 30, 1 << 20))
        self.log.append([EntryDraft(EntryKind.CONFIGURATION, body)], term=1, commit=0, now_ms=EPOCH_MS)
        self.log.flushed = 1

    def _make_core(self) -> Raft:
        options, log = self._options, self.log
        return Raft(
            self.node,
            state=Durable(self.votes.saved.term, self.votes.saved.voted_for),
            log=LogTerms(log.term_runs(), log.last_index),
            configurations=self._configurations(),
            commit=log.known_commit,
            timing=Timing(options.heartbeat_ticks, options.election_ticks),
            jitter=lambda: self._random.randrange(options.election_ticks),
            reach=lambda first, most: self.log.reach(first, min(most, options.append_bytes)),
            max_uncommitted_bytes=options.max_uncommitted_bytes,
            suspicion=self._random.getrandbits(60) + 1 if self.suspect else 0,
        )

    def _configurations(self) -> list[tuple[int, Configuration]]:
        return [
            (entry.header.index, decode_configuration(entry.body).core)
            for entry in self.log.entries
            if entry.header.kind is EntryKind.CONFIGURATION
        ]

    def _make_driver(self, raft: Raft) -> Driver:
        return Driver(
            raft,
            self.log,
            transport=self,
            disk=self.disk,
            machine=self.machine,
            now_ms=self._wall_ms,
            soon=self._soon,
            max_uncommitted_bytes=self._options.max_uncommitted_bytes,
            was_held_up=HeldUp(self._monotonic_ms, self._options.tick_ms * self._options.election_ticks),
        )

    def _wall_ms(self) -> int:
        return EPOCH_MS + round(self._loop.time() * 1000) + self.clock_off_ms

    def _monotonic_ms(self) -> float:
        return self._loop.time() * 1000


def incarnation_of(node: int, number: int) -> bytes:
    """Of a node's n-th disk."""
    return bytes([node, number]) * 8
