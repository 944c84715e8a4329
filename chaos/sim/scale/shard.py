"""One shard of the scale world: a real Raft core for each replica, and a log of which only the terms are kept.

The log of a shard is one entry with the configuration, entries of BLOCK_BYTES, and later small entries: the no-ops of
leaders, configurations, and commands of shard 0. Messages arrive at once, and writes are held at once. So a shard only
changes when its nodes tick, when a node stops or starts, and when somebody proposes an entry.

A shard *sleeps* while nothing happens in it: it has its preferred leader, or one that cannot hand over, and all
followers that live have the whole log. Then each wake of the nodes repeats the messages of the wake before, and changes
no state that matters. A sleeping shard is not simulated; its messages are counted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.sim.scale.options import BLOCK_BYTES
from chaos.sim.scale.timing import STRIDE, TIMING
from cluster.node.formation.first_voters import in_turn
from ledger.state.feature_levels import LATEST_LEVEL
from raft.configuration_entry import ShardConfiguration
from raft.core import (
    Append,
    Configuration,
    Durable,
    Heartbeat,
    LogTerms,
    Raft,
    RaftMessage,
    RaftSettings,
    RecoveredState,
    Role,
    TermRun,
    TimeoutNow,
    VoteRequest,
)
from raft.core.catch_up import CatchUpLimit
from raft.core.progress import Mode
from raft.core.transfer import PREFERENCE_PATIENCE

MAX_UNCOMMITTED_BYTES = 1 << 30
# After so many wakes without an event a shard may sleep. A leader would have handed over to the preferred leader.
WAKES_TO_SLEEP = 2 + -(-PREFERENCE_PATIENCE * TIMING.election_ticks // STRIDE) + TIMING.election_ticks
# After a new entry, so many wakes tell all followers that it is committed.
WAKES_AFTER_ENTRY = 2
REQUESTS = (Heartbeat, VoteRequest, TimeoutNow, Append)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a replica that is stopped has on its disk."""

    vote: Durable
    log: LogTerms
    configurations: Sequence[tuple[int, Configuration]]
    incarnation: bytes


@dataclass(frozen=True, slots=True)
class ShardEvents:
    """What a shard tells the world."""

    # A server on this node was elected.
    elected: Callable[[ScaleShard, int], None]
    # A node has sent so many bytes of entries to a node that lives.
    moved: Callable[[int, int], None]


class ScaleServer:
    """One replica of a shard, on a node that lives."""

    __slots__ = ("incarnation", "node", "raft", "shard")

    def __init__(self, shard: ScaleShard, node: int, recovered: RecoveredState, incarnation: bytes) -> None:
        self.shard, self.node, self.incarnation = shard, node, incarnation
        chance = Random(f"{shard.seed}/{shard.number}/{node}/{incarnation.hex()}/{recovered.vote.term}")
        self.raft = Raft(
            RaftSettings(
                node=node,
                timing=TIMING,
                jitter=lambda: chance.randrange(TIMING.election_ticks),
                reach=self._reach,
                max_uncommitted_bytes=MAX_UNCOMMITTED_BYTES,
                prefer=shard.preferred,
                feature_level=LATEST_LEVEL,
                catch_up=shard.catch_up[node],
            ),
            recovered,
        )

    @property
    def leads(self) -> bool:
        return self.raft.role is Role.LEADER

    def _reach(self, first: int, _: int) -> tuple[int, int]:
        """Return how far one Append goes: one entry with bytes, or all small entries."""
        if first <= self.shard.last_block:
            return first, BLOCK_BYTES
        return self.raft.log.last_index, 100

    def settle(self) -> None:
        """Carry out what the core asks for."""
        raft, shard = self.raft, self.shard
        while (ready := raft.ready()) is not None:
            if ready.save is not None:
                raft.vote_saved(ready.save.token)
            if (write := ready.write) is not None:
                raft.persisted(write.token, write.term, write.last)
            if ready.no_op is not None:
                raft.persisted(raft.own_write(ready.no_op), raft.term, ready.no_op)
            if ready.messages:
                shard.waiting.extend(ready.messages)
            if ready.role is not None or ready.configuration:
                shard.stir()
            if ready.role is not None:
                shard.role_changed(self, ready.role.role)


class ScaleShard:
    """The replicas of one shard on all nodes."""

    def __init__(
        self,
        number: int,
        seed: str,
        blocks: int,
        events: ShardEvents,
        rank: Mapping[int, int],
        catch_up: Mapping[int, CatchUpLimit],
    ) -> None:
        """`rank` says in which order the nodes wake, and `catch_up` limits what each node sends to learners."""
        self.number, self.seed, self.blocks, self.events = number, seed, blocks, events
        self.catch_up = catch_up
        # The voter that the cluster has chosen for the balance of leaders, or 0.
        self.balanced_leader = 0
        # Entry 1 is the first configuration, and the entries up to `last_block` have BLOCK_BYTES.
        self.last_block = 1 + blocks
        self.servers: dict[int, ScaleServer] = {}
        # The replicas on nodes that are stopped.
        self.stored: dict[int, Stored] = {}
        # By (index, term): the content of each configuration entry.
        self.configurations: dict[tuple[int, int], ShardConfiguration] = {}
        self.waiting: deque[RaftMessage] = deque()
        # (sender, receiver) -> control messages in the last wake, as requests and as answers.
        self.asked: Counter[tuple[int, int]] = Counter()
        self.answered: Counter[tuple[int, int]] = Counter()
        # Wakes since something happened.
        self.still = 0
        self.asleep = False
        self._rank = rank
        self._order: list[ScaleServer] = []
        # The servers that lead a term, by node.
        self._leading: dict[int, ScaleServer] = {}

    @property
    def size(self) -> int:
        """Return the bytes of the log."""
        return self.blocks * BLOCK_BYTES

    # -- replicas

    def form(self, configuration: ShardConfiguration) -> None:
        """Begin with these members. All of them have the whole log, and none leads."""
        self.configurations[1, 1] = configuration
        for node, member in configuration.members.items():
            log = LogTerms([TermRun(1, 1)], self.last_block)
            self._open(node, Durable(1), log, ((1, configuration.core),), member.incarnation)

    def open_empty(self, node: int, incarnation: bytes) -> None:
        """Make an empty replica on a node that is about to join."""
        self._open(node, Durable(), LogTerms(), (), incarnation)

    def _open(
        self,
        node: int,
        vote: Durable,
        log: LogTerms,
        configurations: Sequence[tuple[int, Configuration]],
        incarnation: bytes,
    ) -> None:
        # The commit index is not stored. A restarted server learns it from the leader.
        recovered = RecoveredState(vote, log, configurations, commit=min(self.last_block, log.last_index))
        self.servers[node] = ScaleServer(self, node, recovered, incarnation)
        self._reorder()

    def stop(self, nodes: Iterable[int]) -> None:
        """Stop the replicas on these nodes, whose processes end at the same moment."""
        stopped = [server for node in nodes if (server := self.servers.pop(node, None)) is not None]
        for server in stopped:
            self._leading.pop(server.node, None)
            raft, last = server.raft, server.raft.log.last_index
            log = LogTerms(raft.log.runs(1, last), last)
            kept = tuple(
                sorted(
                    (index, each.core) for (index, term), each in self.configurations.items() if log.holds(index, term)
                )
            )
            self.stored[server.node] = Stored(Durable(raft.term, raft.voted_for), log, kept, server.incarnation)
        self._reorder()
        for other in self._order:
            for server in stopped:
                other.raft.unreachable(server.node)
            other.settle()
        self.run()

    def start(self, node: int) -> None:
        """Start the replica on this node again."""
        if (stored := self.stored.pop(node, None)) is not None:
            self._open(node, stored.vote, stored.log, stored.configurations, stored.incarnation)

    def _reorder(self) -> None:
        self._order = sorted(self.servers.values(), key=lambda server: self._rank[server.node])
        self.stir()

    # -- state

    @property
    def leader(self) -> ScaleServer | None:
        """Return the leader of the newest term, if there is one."""
        return max(self._leading.values(), key=lambda server: server.raft.term, default=None)

    def configuration_of(self, server: ScaleServer) -> ShardConfiguration:
        """Return the newest configuration in the log of a server."""
        raft = server.raft
        index = raft.configuration_index
        return self.configurations[index, raft.log.term(index)]

    def role_changed(self, server: ScaleServer, role: Role) -> None:
        if role is not Role.LEADER:
            self._leading.pop(server.node, None)
        elif server.node not in self._leading:
            self._leading[server.node] = server
            self.events.elected(self, server.node)

    def preferred(self, voters: tuple[int, ...]) -> int:
        """Return the preferred leader, as `cluster/node/formation/first_voters.py` does with the default settings."""
        return self.balanced_leader if self.balanced_leader in voters else in_turn(self.number, voters)

    # -- running

    def stir(self, wakes: int = WAKES_TO_SLEEP) -> None:
        """Note that something happened: the shard must not sleep for so many wakes."""
        self.still = min(self.still, WAKES_TO_SLEEP - wakes)
        self.asleep = False

    def wake(self) -> None:
        """Let each node tick as often as it does when its ticker wakes, one node after another."""
        self.still += 1
        for server in self._order:
            if server.node not in self.servers:
                continue
            for _ in range(STRIDE):
                server.raft.tick()
            server.settle()
            if self.waiting or server.node in self._leading:
                self.run()
        self.asleep = self.still >= WAKES_TO_SLEEP and self._is_steady()

    def run(self) -> None:
        """Deliver messages until none is under way."""
        waiting, servers = self.waiting, self.servers
        while True:
            while waiting:
                message = waiting.popleft()
                self._count(message)
                server = servers.get(message.receiver)
                if server is not None:
                    server.raft.step(message)
                    server.settle()
            for server in [*self._leading.values()]:
                waiting.extend(server.raft.appends())
            if not waiting:
                break
        self._discard_removed()

    def _count(self, message: RaftMessage) -> None:
        pair = (message.sender, message.receiver)
        if (
            isinstance(message, Append)
            and message.prev_index < self.last_block
            and message.last_index > message.prev_index
        ):
            size = (min(message.last_index, self.last_block) - max(message.prev_index, 1)) * BLOCK_BYTES
            if message.receiver in self.servers and size:
                self.events.moved(message.sender, size)
                self.stir(WAKES_AFTER_ENTRY)
        elif isinstance(message, REQUESTS):
            self.asked[pair] += 1
        else:
            self.answered[pair] += 1

    def _discard_removed(self) -> None:
        leader = self.leader
        if leader is None or len(self.servers) <= len(leader.raft.configuration.members):
            return
        raft = leader.raft
        if raft.configuration_index <= raft.commit:
            members = raft.configuration.members
            for node in [node for node in self.servers if node not in members and node not in raft.progress]:
                if self.servers[node].raft.configuration_index:  # an empty replica waits until it is added
                    del self.servers[node]
                    self._leading.pop(node, None)
                    self._reorder()

    def _is_steady(self) -> bool:
        leader = self.leader
        if leader is None:
            return False
        raft = leader.raft
        if raft.transferring_to or raft.commit < raft.log.last_index or raft.configuration_index > raft.commit:
            return False
        if raft.preferred_leader not in (0, leader.node) and raft.preferred_leader in self.servers:
            return False
        last = raft.log.last_index
        for node, progress in raft.progress.items():
            server = self.servers.get(node)
            if server is not None and (
                progress.match < last
                or progress.mode is not Mode.REPLICATE
                or server.raft.commit < last
                or server.raft.leader != leader.node
            ):
                return False
        return len(self.servers) <= len(raft.configuration.members)
