"""The fault `put_back_disk`: the disks of some nodes are replaced by older copies of themselves, for example by an old
snapshot of a virtual machine.

    copy ──── the cluster goes on ────> the nodes end, their disks become the copies, they start
                                        sometimes the other nodes are away meanwhile

A put-back node has lost entries that it acknowledged and votes that it gave, which is beyond Raft's fault model. So
after the first broken invariant of Raft, the run counts as lost, and only these promises count:

    noted            A node that receives a range which contradicts an entry that it knows to be committed notes the
                     divergence, and says so. (Other bytes with the same terms: the second time.)
    writes stop      A leader that has heard so appends no messages of clients while the other node is a member.
    own promises     What a node says about its own disk and its own votes, and how it elects and changes members.
    at the end       Where terms prove that committed entries of the leader and of a member differ, the leader has noted
                     it. Without a leader, some node has noted a divergence.

Until an invariant of Raft is broken, all of them count: most put-back disks do no harm.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of, leader_of
from chaos.sim.protocol.faults.promised_fault import FaultTools, PromisedFault
from chaos.sim.protocol.log import SimRange
from chaos.sim.protocol.node import DiskCopy, ProtocolNode
from raft.core import Append, AppendResponse, CommittedEntry, InvalidMessage, RaftMessage
from store import EntryKind, ForkedError, Readable
from store.log.entry import chained

# Invariants of Raft that put-back disks can break.
BEYOND_RAFT = frozenset(
    {
        "Election Safety",
        "Leader Completeness",
        "Log Matching",
        "State Machine Safety",
        "committed entries stay",
        "durable term",
        "durable vote",
        "one vote a term",
    }
)
NOTED, STOPS = "a contradiction is noted", "a noted divergence stops writes"
# The invariants that still count in a lost run.
STILL_COUNT = frozenset(
    {
        NOTED,
        STOPS,
        "acknowledged what it holds",
        "held as promised",
        "voted what it saved",
        "suspects do not vote",
        "pre-vote",
        "check-quorum",
        "commit by counting",
        "one voter at a time",
        "one change at a time",
        "commit never falls",
        "commit <= last_index",
        "applied <= commit",
        "term never falls",
        "no exception",
        "bounded traffic",
    }
)
AWAY_MS = (2_000, 15_000)


@dataclass(slots=True)
class _Told:
    """A leader was told that a follower has committed another entry."""

    life: int
    follower_incarnation: int
    # The last entry of the leader's log when it was told.
    last_index: int


class PutBackDisk(PromisedFault):
    kind = "put_back_disk"

    def __init__(self, tools: FaultTools) -> None:
        super().__init__(tools)
        self.is_lost = False
        self._was_put_back = False
        # (receiver, its process, sender, index) -> how often the receiver got a range that contradicts there.
        self._contradicted: dict[tuple[int, int, int, int], int] = {}
        # (receiver, sender) that must have a divergence after the present event of the receiver.
        self._due: set[tuple[int, int]] = set()
        # (leader, follower) -> what the leader was told.
        self._told: dict[tuple[int, int], _Told] = {}

    # -- the fault

    def fire(self, event: FaultEvent) -> bool:
        """Copy the disks of some nodes now, and put the copies back after the duration of the event."""
        random, nodes = chance_of(event), self.tools.nodes
        if len(nodes) < 2 or any(not node.alive or node.stranger for node in nodes):
            return False
        few = random.sample(list(nodes), random.randint(1, len(nodes) - 1))
        copies = [(node, node.copied_disk()) for node in few]
        away_ms = random.randint(*AWAY_MS) if random.random() < 0.7 else 0
        self.tools.loop.call_later(event.for_ms / 1000, self._put_back, copies, away_ms)
        return True

    def _put_back(self, copies: list[tuple[ProtocolNode, DiskCopy]], away_ms: int) -> None:
        same = [(node, copy) for node, copy in copies if node.incarnation == copy.incarnation and not node.stranger]
        if not any(copy.is_older_than(node) for node, copy in same):
            return
        if not self._was_put_back:
            self._was_put_back, before = True, self.tools.invariants.counts
            self.tools.invariants.counts = lambda invariant: before(invariant) and self._counts(invariant)
        put_back = [node for node, _ in same]
        for node in self.tools.nodes:
            if away_ms and node not in put_back:
                self.tools.kill(node, away_ms)
        for node, copy in same:
            node.put_back(copy)
            self.tools.start_later(node, 0)
        self.tools.happened("disk put back")

    def _counts(self, invariant: str) -> bool:
        """Return True if a violation of this invariant counts."""
        if invariant in STILL_COUNT:
            return True
        if invariant in BEYOND_RAFT and not self.is_lost:
            self.is_lost = True
            self.tools.happened("run lost by disks")
        return not self.is_lost

    def excuses(self, node: ProtocolNode, error: Exception) -> bool:
        """Two leaders can have had one term, so nodes refuse their messages."""
        return self._was_put_back and isinstance(error, InvalidMessage | ForkedError)

    # -- noted

    def received_range(self, node: ProtocolNode, append: Append, entries: Readable) -> None:
        if not self._was_put_back:
            return
        raft, range_ = node.driver.raft, entries if isinstance(entries, SimRange) else None
        if append.term < raft.term or append.sender not in raft.configuration.members:
            return
        if range_ is None or not range_.entries or node.driver.failure is not None:
            return
        index, same_terms = _contradiction(node, append.prev_index, range_)
        if index == 0:
            return
        key = (node.node, node.life, append.sender, index)
        self._contradicted[key] = self._contradicted.get(key, 0) + 1
        if not same_terms:
            self._due.add((node.node, append.sender))

    def touched(self, node: ProtocolNode) -> None:
        if self._due:
            self._check_noted(node)
        if node.leads:
            for (leader, follower), told in self._told.items():
                if leader == node.node and told.life == node.life:
                    self._check_stopped(node, self.tools.node(follower), told)

    def _check_noted(self, node: ProtocolNode) -> None:
        raft = node.driver.raft
        for receiver, sender in sorted(self._due):
            if receiver == node.node and sender in raft.configuration.members and sender not in raft.divergences:
                self.tools.invariants.fail(NOTED, f"node {receiver} got a contradicting range of node {sender}")
        self._due = {each for each in self._due if each[0] != node.node}

    # -- writes stop

    def receives(self, node: ProtocolNode, message: RaftMessage) -> None:
        if not isinstance(message, AppendResponse) or message.contradicted is None or not node.leads:
            return
        if message.term != node.driver.raft.term or message.sender not in node.driver.raft.configuration.members:
            return
        claim, follower = message.contradicted, self.tools.node(message.sender)
        if not _is_true(claim, node, follower):
            return
        known = self._told.get((node.node, message.sender))
        if known is None or (known.life, known.follower_incarnation) != (node.life, follower.incarnation):
            self._told[node.node, message.sender] = _Told(node.life, follower.incarnation, node.log.last_index)
            self.tools.happened("divergence told")

    def _check_stopped(self, leader: ProtocolNode, follower: ProtocolNode, told: _Told) -> None:
        raft, log = leader.driver.raft, leader.log
        if follower.incarnation != told.follower_incarnation or follower.node not in raft.configuration.members:
            told.last_index = log.last_index
            return
        for index in range(told.last_index + 1, log.last_index + 1):
            header = log.header(index)
            if header.term == raft.term and header.kind is EntryKind.BATCH:
                what = f"leader {leader.node} appends batch {index}, and diverges from node {follower.node}"
                self.tools.invariants.fail(STOPS, what)
        told.last_index = log.last_index

    # -- the end

    def unsettled(self) -> list[str] | None:
        if not self.is_lost:
            return None
        alive = [node for node in self.tools.nodes if node.alive]
        missing = [f"node {node.node} is down" for node in self.tools.nodes if not node.alive and not node.stranger]
        leader = leader_of(self.tools.nodes)
        if leader is None or leader.raft is None:
            noted = any(node.driver.raft.divergences for node in alive)
            return missing if noted else [*missing, "no node leads, and no node has noted a divergence"]
        for node in alive:
            if node is leader or node.node not in leader.raft.configuration.members:
                continue
            index = _contradicted_by_terms(leader, node)
            if index and node.node not in leader.raft.divergences:
                missing.append(f"leader {leader.node} has not noted that node {node.node} has another entry {index}")
        return missing


def _contradiction(node: ProtocolNode, prev_index: int, received: SimRange) -> tuple[int, bool]:
    """Return the first index at which the range contradicts an entry that the node knows to be committed, and whether
    the terms there are equal. Return 0 as the index if the range contradicts nothing."""
    log, commit = node.log, node.driver.raft.commit
    if prev_index > min(commit, log.last_index):
        return 0, False
    first = received.entries[0].header
    if first.chain != chained(log.chain(prev_index), first.crc):
        return prev_index, True  # the terms of the entry before the range are checked by the core
    for entry in received.entries:
        index = entry.header.index
        if index > min(commit, log.last_index):
            break
        if log.chain(index) != entry.header.chain:
            return index, log.term(index) == entry.header.term
    return 0, False


def _is_true(claim: CommittedEntry, leader: ProtocolNode, follower: ProtocolNode) -> bool:
    """Return True if the logs of the two nodes prove the claim of the follower."""
    if claim.index > min(leader.log.last_index, follower.log.last_index):
        return False
    return leader.log.term(claim.index) != claim.term == follower.log.term(claim.index)


def _contradicted_by_terms(leader: ProtocolNode, node: ProtocolNode) -> int:
    """Return the first index at which the terms of committed entries of the node differ from the leader's, or 0."""
    last = min(leader.log.last_index, node.log.last_index, node.driver.raft.commit)
    return next((index for index in range(1, last + 1) if leader.log.term(index) != node.log.term(index)), 0)
