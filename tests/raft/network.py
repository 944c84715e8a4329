"""A small in-memory network of cores. Each node has a disk that can lose entries that were not flushed.

The network does everything that drivers do, one event after another, without time and without randomness. A scenario or
a seeded test chooses the next event. The invariants are checked after each event.

A node's disk has two versions of the log: `written` is the page cache, and `flushed` is the part that survives a power
cut. While `held` is set, saves and flushes wait until the test completes them; otherwise they complete at once. A flush
has a begin and an end, and the log may be cut in between. Under asynchronous flush (`async_flush`) an entry is held as
soon as it is written, except for configurations. A node that loses power under asynchronous flush restarts as a
suspect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from raft.core import (
    Append,
    AppendResponse,
    CommittedEntry,
    Configuration,
    Durable,
    Heartbeat,
    HeartbeatResponse,
    LogTerms,
    Raft,
    RaftMessage,
    RaftSettings,
    RaftTiming,
    Ready,
    RecoveredState,
    Save,
    TermRun,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from raft.core.catch_up import CatchUpLimit
from tests.raft.invariants import History

ENTRY_BYTES = 100


@dataclass(frozen=True, slots=True)
class Entry:
    term: int
    # The content of the entry, which is compared between replicas. A Configuration makes it a configuration entry.
    value: object
    # The leader's commit index when it appended the entry.
    commit: int = 0


@dataclass(frozen=True, slots=True)
class Packet:
    """A message, and the bytes that the driver sends with it."""

    message: RaftMessage
    entries: tuple[Entry, ...] = ()


@dataclass(slots=True)
class Disk:
    vote: Durable = field(default_factory=Durable)
    written: list[Entry] = field(default_factory=list)
    # Cut at the same time as `written`, because the erased bytes may reach the disk at any time.
    flushed: list[Entry] = field(default_factory=list)
    # The flushed log before the cuts since the last flush. The erased bytes may also not have reached the disk, so a
    # power cut may bring this log back.
    stale: list[Entry] | None = None


@dataclass(slots=True)
class Flush:
    """A flush that is under way: the entries that it covers, except those that were cut since it began."""

    token: int
    term: int
    last: int
    picture: list[Entry]
    was_cut: bool = False


def runs_of(entries: Sequence[Entry], first: int = 1) -> tuple[TermRun, ...]:
    runs: list[TermRun] = []
    for index, entry in enumerate(entries, first):
        if not runs or runs[-1].term != entry.term:
            runs.append(TermRun(index, entry.term))
    return tuple(runs)


class Node:
    """A core, and the work that a driver would do for it."""

    def __init__(
        self, number: int, network: Network, disk: Disk, configuration: Configuration, suspicion: int = 0
    ) -> None:
        self.number = number
        self.network = network
        self.disk = disk
        # Whether saves and flushes wait until the test completes them.
        self.held = False
        self.saves: list[Save] = []
        # The token of the newest write; 0: everything is flushed.
        self.unflushed = 0
        self.flushing: Flush | None = None
        # Whether a written configuration is not flushed yet. In both flush modes it is held only when it is flushed.
        self.must_flush = False
        self.reads: dict[int, int] = {}
        log = disk.written
        in_log = [(i, entry.value) for i, entry in enumerate(log, 1) if isinstance(entry.value, Configuration)]
        self.catch_up = CatchUpLimit(network.catch_up_bytes_per_tick)
        self.raft = Raft(
            RaftSettings(
                number,
                timing=network.timing,
                jitter=lambda: network.jitter(number),
                reach=self.reach,
                max_uncommitted_bytes=network.max_uncommitted_bytes,
                prefer=lambda _: network.preferred_leader,
                catch_up=self.catch_up,
            ),
            RecoveredState(
                disk.vote,
                LogTerms(runs_of(log), len(log)),
                configurations=[(0, configuration), *in_log] if configuration.voters else in_log,
                commit=max((entry.commit for entry in log), default=0),
                suspicion=suspicion,
            ),
        )

    def reach(self, first: int, max_bytes: int) -> tuple[int, int]:
        last = min(len(self.disk.written), first + max(1, min(max_bytes, self.network.append_bytes) // ENTRY_BYTES) - 1)
        return last, (last - first + 1) * ENTRY_BYTES

    def settle(self, entries: tuple[Entry, ...] = (), prev_index: int = 0) -> None:
        """Carry out each Ready of the core. Then send the Appends that may be sent."""
        while ready := self.raft.ready():
            self._handle(ready, entries, prev_index)
        for append in self.raft.appends():
            assert isinstance(append, Append), "logs begin with entry 1 here"
            self.network.send(Packet(append, tuple(self.disk.written[append.prev_index : append.last_index])))
        self.network.history.check(self)

    def propose(self, *values: object) -> None:
        term, first = self.raft.propose([ENTRY_BYTES] * len(values))
        assert first == len(self.disk.written) + 1
        self.disk.written += [Entry(term, value, self.raft.commit) for value in values]
        self._persist(self.raft.own_write(len(self.disk.written)), len(values))

    def change(self, configuration: Configuration) -> None:
        term, index = self.raft.change(configuration, ENTRY_BYTES)
        assert index == len(self.disk.written) + 1
        self.disk.written.append(Entry(term, configuration, self.raft.commit))
        self._persist(self.raft.own_write(index), 1)

    def read(self, token: int) -> None:
        self.raft.read(token)
        self.reads[token] = self.network.history.newest_commit

    def flush(self) -> None:
        """Complete all waiting saves, and flush all written entries."""
        while self.saves:
            self.save()
        if self.flushing:
            self.end_flush()
        if self.unflushed:
            self.begin_flush()
            self.end_flush()

    def save(self) -> None:
        """Complete the oldest waiting save."""
        save = self.saves.pop(0)
        self.disk.vote = Durable(save.term, save.voted_for)
        self.raft.vote_saved(save.token)

    def begin_flush(self) -> None:
        picture = list(self.disk.written)
        self.flushing = Flush(self.unflushed, picture[-1].term, len(picture), picture)
        self.unflushed = 0

    def end_flush(self) -> None:
        flush, self.flushing = self.flushing, None
        assert flush
        self.disk.flushed = flush.picture
        if not flush.was_cut:
            self.disk.stale = None
        if self.must_flush or not self.network.async_flush:
            self.must_flush = self.unflushed != 0
            self.raft.persisted(flush.token, flush.term, flush.last)

    def _handle(self, ready: Ready, entries: tuple[Entry, ...], prev_index: int) -> None:
        say = self.network.say
        for message in ready.messages:
            self.network.send(Packet(message))
        if ready.role:
            leader = f", follows {ready.role.leader}" if ready.role.leader not in (0, self.number) else ""
            loss = ", accepts what was lost" if ready.role.accepts_loss else ""
            say(f"{self.number} is {ready.role.role.value} in term {ready.role.term}{leader}{loss}")
            if ready.role.accepts_loss:
                self.network.history.accept_loss(self)
        if ready.configuration:
            members, index = describe_members(self.raft.configuration), self.raft.configuration_index
            say(f"{self.number} goes by {members} of entry {index}{', committed' * (index <= self.raft.commit)}")
        if ready.trusted:
            say(f"{self.number} is trusted again")
        for peer in ready.reopen:
            say(f"{self.number} opens the stream to {peer} again")
        if ready.diverged:
            told = "; ".join(str(each) for each in self.raft.divergences.values())
            say(f"{self.number} notes: {told or 'no member contradicts this log'}")
        if ready.save:
            say(f"{self.number} saves term {ready.save.term} vote {ready.save.voted_for or 'none'}")
            self.saves.append(ready.save)
            if not self.held:
                self.save()
        if ready.write:
            self._write(ready, entries, prev_index)
        if ready.no_op:
            assert ready.no_op == len(self.disk.written) + 1
            say(f"{self.number} writes its no-op {ready.no_op}")
            self.disk.written.append(Entry(self.raft.term, f"no-op of term {self.raft.term}", self.raft.commit))
            self._persist(self.raft.own_write(ready.no_op), 1)
        if ready.commit is not None:
            say(f"{self.number} commits {ready.commit}")
        for token, index in ready.reads:
            say(f"{self.number} answers read {token} at {index}")
            self.network.history.read(self, token, index)

    def _write(self, ready: Ready, entries: tuple[Entry, ...], prev_index: int) -> None:
        write = ready.write
        assert write
        cut = ""
        if write.truncate_to is not None:
            cut = f"cuts to {write.truncate_to}, "
            self._cut(write.truncate_to)
        assert write.first == len(self.disk.written) + 1, "no gap and no overlap"
        self.disk.written += entries[write.first - prev_index - 1 : write.last - prev_index]
        assert len(self.disk.written) == write.last
        self.network.say(f"{self.number} {cut}writes {write.first}..{write.last}")
        self._persist(write.token, write.last - write.first + 1)

    def _cut(self, last_index: int) -> None:
        disk = self.disk
        if disk.stale is None:
            disk.stale = list(disk.flushed)
        del disk.written[last_index:], disk.flushed[last_index:]
        if self.flushing:
            self.flushing.was_cut = True
            del self.flushing.picture[last_index:]

    def _persist(self, token: int, written: int) -> None:
        self.unflushed = token
        self.must_flush |= any(isinstance(entry.value, Configuration) for entry in self.disk.written[-written:])
        if self.network.async_flush and not self.must_flush:
            self.raft.persisted(token, self.disk.written[-1].term, len(self.disk.written))
        if not self.held:
            self.begin_flush()
            self.end_flush()


class Network:
    def __init__(
        self,
        nodes: int = 3,
        *,
        logs: Mapping[int, Sequence[int]] | None = None,
        terms: dict[int, int] | None = None,
        jitter: Callable[[int], int] = lambda node: node - 1,
        timing: RaftTiming | None = None,
        max_uncommitted_bytes: int = 1 << 20,
        append_bytes: int = 1 << 20,
        async_flush: bool = False,
        preferred_leader: int = 0,
        catch_up_bytes_per_tick: int = 0,
    ) -> None:
        """Build nodes 1..n, which are all voters.

        `logs` has the terms of the entries that a node starts with. `terms` has the newest term of a node, if that term
        is newer than its last entry."""
        self.async_flush = async_flush
        self.preferred_leader = preferred_leader
        self.catch_up_bytes_per_tick = catch_up_bytes_per_tick
        # The number of restarts as a suspect so far. Each suspicion gets a new number.
        self.suspicions = 0
        self.timing = timing or RaftTiming(heartbeat_ticks=2, election_ticks=10)
        self.jitter = jitter
        self.max_uncommitted_bytes = max_uncommitted_bytes
        self.append_bytes = append_bytes
        self.configuration = Configuration(tuple(range(1, nodes + 1)))
        self.wire: list[Packet] = []
        self.trace: list[str] = []
        # Pairs (sender, receiver) whose messages are lost.
        self.cut: set[tuple[int, int]] = set()
        self.history = History()
        # The disks of stopped nodes, by node.
        self.disks: dict[int, Disk] = {}
        self.nodes: dict[int, Node] = {}
        for number in self.configuration.voters:
            entries = [Entry(term, f"{term}.{i}") for i, term in enumerate((logs or {}).get(number, ()), 1)]
            term = (terms or {}).get(number, entries[-1].term if entries else 0)
            self.start(number, Disk(Durable(term), entries, list(entries)))

    def raft(self, number: int) -> Raft:
        return self.nodes[number].raft

    @property
    def leaders(self) -> list[int]:
        return [number for number, node in self.nodes.items() if node.raft.role.value == "leader"]

    def log(self, number: int) -> list[int]:
        """Return the terms of the entries."""
        return [entry.term for entry in self.nodes[number].disk.written]

    def say(self, line: str) -> None:
        self.trace.append(line)

    def send(self, packet: Packet) -> None:
        self.wire.append(packet)

    # -- events

    def tick(self, number: int, times: int = 1) -> None:
        for _ in range(times):
            if node := self.nodes.get(number):
                node.catch_up.tick()
                node.raft.tick()
                node.settle()

    def run(self, ticks: int) -> None:
        """Tick every node this many times, and deliver all messages after each tick."""
        for _ in range(ticks):
            for number in list(self.nodes):
                self.tick(number)
            self.deliver_all()

    def propose(self, number: int, *values: object) -> None:
        self.nodes[number].propose(*values)
        self.nodes[number].settle()

    def change(self, number: int, voters: Sequence[int], learners: Sequence[int] = ()) -> None:
        """Let the leader append this configuration."""
        self.nodes[number].change(Configuration(tuple(voters), tuple(learners)))
        self.nodes[number].settle()

    def join(self, number: int) -> None:
        """Start a new node with an empty disk and without a configuration."""
        self.history.wiped(number)
        node = self.nodes[number] = Node(number, self, Disk(), Configuration(()))
        node.settle()

    def transfer(self, number: int, to: int) -> None:
        self.nodes[number].raft.transfer(to)
        self.nodes[number].settle()

    def held_up(self, number: int) -> None:
        self.nodes[number].raft.held_up()
        self.nodes[number].settle()

    def read(self, number: int, token: int) -> None:
        self.nodes[number].read(token)
        self.nodes[number].settle()

    def flush(self, number: int) -> None:
        self.nodes[number].flush()
        self.nodes[number].settle()

    def unreachable(self, number: int, peer: int) -> None:
        self.nodes[number].raft.unreachable(peer)
        self.nodes[number].settle()

    def deliver(self, packet: Packet) -> None:
        message = packet.message
        if (message.sender, message.receiver) in self.cut or message.receiver not in self.nodes:
            self.say(f"lost: {describe(message)}")
            return
        self.say(describe(message))
        node = self.nodes[message.receiver]
        node.raft.step(message)
        if self.history.losses_accepted and isinstance(message, Append) and message.sender in node.raft.divergences:
            self.say(f"{node.number} has another log than its leader, and is wiped")
            self.join(node.number)
            return
        node.settle(packet.entries, message.prev_index if isinstance(message, Append) else 0)

    def deliver_all(self, limit: int = 10_000) -> None:
        """Deliver messages until none is in flight."""
        for _ in range(limit):
            if not self.wire:
                return
            self.deliver(self.wire.pop(0))
        raise AssertionError(f"the network does not come to rest: {[describe(p.message) for p in self.wire[:5]]}")

    def isolate(self, *numbers: int) -> None:
        """Lose every message between these nodes and all other nodes."""
        others = {*self.nodes, *self.disks} - set(numbers)
        self.cut |= {pair for a in numbers for b in others for pair in ((a, b), (b, a))}

    def heal(self) -> None:
        self.cut.clear()

    def crash(self, number: int, keeps: Callable[[Disk], list[Entry]] = lambda disk: disk.written) -> None:
        """Stop the node. It loses its memory, its incomplete saves, and all entries after `keeps`. By default this is a
        process kill, which keeps all written entries."""
        node = self.nodes.pop(number)
        node.disk.written = list(keeps(node.disk))
        node.disk.flushed, node.disk.stale = list(node.disk.written), None
        self.disks[number] = node.disk

    def restart(self, number: int, *, suspect: bool = False) -> None:
        self.start(number, self.disks.pop(number), suspect=suspect)

    def start(self, number: int, disk: Disk, *, suspect: bool = False) -> None:
        self.suspicions += suspect
        is_first = number in self.configuration.voters
        configuration = self.configuration if is_first else Configuration(())
        node = Node(number, self, disk, configuration, self.suspicions if suspect else 0)
        self.nodes[number] = node
        node.settle()

    def forget_leaders(self) -> None:
        """Let so much time pass that no follower trusts its leader any more, but no follower stands for election
        yet."""
        for number, node in self.nodes.items():
            if node.raft.role.value == "follower" and node.raft.leader:
                self.tick(number, self.timing.election_ticks)
                assert node.raft.role.value == "follower", "give it some jitter"

    def elect(self, number: int) -> None:
        """Let the node's election timeout pass, and deliver all messages."""
        for _ in range(40):
            if self.nodes[number].raft.role.value == "leader":
                return
            self.tick(number)
            self.deliver_all()
        raise AssertionError(f"{number} was not elected")


def led(nodes: int = 3, *, preferred_leader: int = 0) -> Network:
    """Return a network in which node 1 leads and all nodes have its no-op."""
    network = Network(nodes, preferred_leader=preferred_leader)
    network.elect(1)
    network.run(4)
    return network


def describe(message: RaftMessage) -> str:
    head = f"{message.sender}->{message.receiver}"
    match message:
        case VoteRequest(term=term, last_index=index, last_term=last_term, pre=pre):
            why = f"{', by transfer' * message.transfer}{', from everybody' * message.unanimous}"
            return f"{head} {'pre-' if pre else ''}vote? term {term}, log {index}/{last_term}{why}"
        case VoteResponse(term=term, granted=granted, pre=pre):
            suspect = ", suspect" if message.suspicion else ""
            return f"{head} {'pre-' if pre else ''}vote {'yes' if granted else 'no'}, term {term}{suspect}"
        case Heartbeat(term=term, commit=commit, round=number, lifted=lifted):
            trusts = ", trusts you" if lifted else ""
            return f"{head} heartbeat {number}, term {term}, commit {commit}{trusts}"
        case HeartbeatResponse(term=term, round=number):
            return f"{head} heard {number}, term {term}{', suspect' if message.suspicion else ''}"
        case TimeoutNow(term=term):
            return f"{head} stand now, term {term}"
        case Append(prev_index=prev, prev_term=prev_term, last_index=last, term=term, commit=commit):
            carried = f"{prev + 1}..{last}" if last > prev else "nothing"
            return f"{head} append {carried} after {prev}/{prev_term}, term {term}, commit {commit}"
        case AppendResponse(contradicted=CommittedEntry(index=index, term=committed_term), term=term):
            return f"{head} has committed {index}/{committed_term}, term {term}"
        case AppendResponse(rejected=True, rejected_index=index, hint_index=hint, hint_term=hint_term, term=term):
            return f"{head} not at {index}, try {hint}/{hint_term}, term {term}"
        case AppendResponse(match=match, term=term):
            return f"{head} holds {match}, term {term}{', suspect' if message.suspicion else ''}"
    raise AssertionError(message)


def describe_members(configuration: Configuration) -> str:
    learners = f", learners {' '.join(map(str, configuration.learners))}" if configuration.learners else ""
    return f"voters {' '.join(map(str, configuration.voters))}{learners}"
