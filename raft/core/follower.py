"""The follower: a server that copies the leader's log, and stands for election if it hears no leader (section 5.2).

A follower acknowledges only entries that agree with the log of this term's leader (`matched`) and that the follower
holds (`durable`). Each term has a new Follower object, so an acknowledgement for one leader is never sent to the next
leader.
"""

from __future__ import annotations

from raft.core.divergence import CommittedEntry, Divergence
from raft.core.election_timer import ElectionTimer
from raft.core.log_terms import runs_from
from raft.core.messages import Append, AppendResponse, Heartbeat, HeartbeatResponse, SnapshotChunk, SnapshotResponse
from raft.core.ready import Role
from raft.core.server import Server

# A server whose disk has no room for new data lets so many more election timeouts pass before it stands for election.
# Meanwhile another voter can win.
FULL_DISK_PATIENCE = 4


class Follower:
    """Does what a server does as a follower in one term."""

    __slots__ = ("_leader_commit", "_owed", "_server", "_timer", "leader")

    role = Role.FOLLOWER

    def __init__(self, server: Server, timer: ElectionTimer, leader: int) -> None:
        self._server = server
        self._timer = timer
        # The leader of this term; 0 until it is heard. It never changes within a term (Election Safety, section 5.2).
        self.leader = leader
        # The index up to which entries were accepted but not acknowledged, because they are not held yet; 0: none.
        # 0 or durable < _owed <= matched.
        self._owed = 0
        # The leader's largest commit index so far. This server's commit follows it as far as entries match and are
        # held.
        self._leader_commit = 0

    @property
    def hears_leader(self) -> bool:
        """Return True if this server heard the leader within the shortest election timeout. A server that heard its
        leader within the shortest election timeout ignores vote requests (section 6)."""
        return self.leader != 0 and self._timer.is_fresh

    def tick(self) -> Role | None:
        patience = FULL_DISK_PATIENCE if self._server.stands_late else 0
        if self._timer.tick(patience) and self._server.may_stand:
            return Role.PRE_CANDIDATE
        return None

    def voted(self) -> None:
        """Restart the election timer after this server voted for a candidate, so that the candidate has time to
        win."""
        self._timer.restart()

    def on_append(self, append: Append) -> None:
        self._hear(append.sender)
        self._server.heard_append(append.commit)
        if divergence := self._divergence_from(append):
            self.diverge(divergence)
        elif append.prev_index < self._server.log.snapshot_index:
            # An old Append: the entry before its range is committed here.
            self._acknowledge(min(self._server.commit, self._server.durable))
        elif not self._server.log.holds(append.prev_index, append.prev_term):
            # A follower whose disk refuses writes does not report a gap, because the leader would send all entries of
            # the gap again and the follower could not write them.
            if self._server.writable or append.prev_index <= self._server.log.last_index:
                self._reject(append)
        elif self._server.writable or self._is_here(append):
            self._accept(append)

    def on_heartbeat(self, heartbeat: Heartbeat) -> None:
        self._hear(heartbeat.sender)
        self._learn_commit(heartbeat.commit)
        server = self._server
        if heartbeat.lifted == server.suspicion:
            server.suspicion = 0
        server.send(
            HeartbeatResponse(
                server.node,
                heartbeat.sender,
                server.term,
                heartbeat.round,
                server.suspicion,
                server.feature_level,
                owes_nothing=server.writable and not self._owed and heartbeat.sender not in server.divergences,
                refuses_writes=not server.takes_writes,
            )
        )

    def on_chunk(self, chunk: SnapshotChunk) -> None:
        """Pass a received piece of a snapshot to the driver (section 7).

        If the snapshot's entries are already committed on this server, the follower answers that the snapshot is
        installed."""
        self._hear(chunk.sender)
        if divergence := self._server.divergences.get(chunk.sender):
            self._claim(divergence)
        elif chunk.index <= self._server.commit:
            self.answer_chunk(chunk, received=0, installed=True)
        elif self._server.writable:
            self._server.chunk = chunk

    def answer_chunk(self, chunk: SnapshotChunk, *, received: int, installed: bool) -> None:
        """Tell the leader how many bytes of the snapshot this server has received, or that the snapshot is
        installed."""
        server = self._server
        self._owed = 0 if installed else self._owed
        server.send(
            SnapshotResponse(
                server.node,
                chunk.sender,
                server.term,
                chunk.index,
                received,
                installed=installed,
                suspicion=server.suspicion,
            )
        )

    def on_persisted(self) -> None:
        """Record that more entries of this log are as durable as the flush mode promises. Acknowledge the accepted
        entries that are now durable on this server, and advance the commit index."""
        if self._owed:
            held = min(self._owed, self._server.durable)
            if held == self._owed:
                self._owed = 0
            self._acknowledge(held)
        self._learn_commit(self._leader_commit)

    def on_cut(self) -> None:
        """Record that the disk refused a write and the end of the log was cut. This server must never acknowledge
        the cut entries."""
        self._owed = min(self._owed, self._server.matched)
        if self._owed <= self._server.durable:
            self._owed = 0

    def _hear(self, leader: int) -> None:
        assert self.leader in (0, leader), f"{self.leader} and {leader} both lead term {self._server.term}"
        self.leader = leader
        # A server that diverges from its leader lets another server lead.
        if leader not in self._server.divergences:
            self._timer.restart()

    def _is_here(self, append: Append) -> bool:
        return self._server.log.first_difference(append.runs, append.last_index) > append.last_index

    def _accept(self, append: Append) -> None:
        server = self._server
        server.take_over(append)
        self._learn_commit(append.commit)
        if append.last_index <= server.durable:
            self._acknowledge(append.last_index)
        else:
            self._owed = max(self._owed, append.last_index)

    def _acknowledge(self, match: int) -> None:
        server = self._server
        server.send(AppendResponse(server.node, self.leader, server.term, match=match, suspicion=server.suspicion))

    def _reject(self, append: Append) -> None:
        """Refuse an Append. The answer contains a hint: an index at which the logs possibly agree. With this hint,
        the leader can skip all entries of a term at once (end of section 5.3)."""
        server = self._server
        hint_index = server.log.last_at_or_below(append.prev_index, append.prev_term)
        server.send(
            AppendResponse(
                server.node,
                append.sender,
                server.term,
                rejected=True,
                rejected_index=append.prev_index,
                hint_index=hint_index,
                hint_term=server.log.term(hint_index),
                suspicion=server.suspicion,
            )
        )

    # -- divergence

    def diverge(self, divergence: Divergence) -> None:
        """Note that the leader's log contradicts a committed entry, or has other bytes, and tell the leader. A sender
        that is no member could not be removed, so it is only refused."""
        if divergence.node in self._server.members:
            self._server.diverge(divergence)
        self._claim(divergence)

    def _divergence_from(self, append: Append) -> Divergence | None:
        """Return the divergence from the leader if the leader's log contradicts a committed entry of this server. In
        Raft, a later leader has all committed entries (Leader Completeness, section 5.4.3)."""
        server = self._server
        log, commit, prev = server.log, server.commit, append.prev_index
        if known := server.divergences.get(append.sender):
            return known
        if not log.snapshot_index <= prev <= commit:
            return None
        if not log.holds(prev, append.prev_term):
            return self.divergence_at(append.sender, prev, append.prev_term)
        first = log.first_difference(append.runs, append.last_index) if prev < commit else commit + 1
        if first > min(commit, append.last_index):
            return None
        return self.divergence_at(append.sender, first, runs_from(append.runs, first)[0].term)

    def divergence_at(self, leader: int, index: int, leader_term: int) -> Divergence:
        """Return the divergence from the leader, whose entry at the committed `index` is of another term."""
        own_term = self._server.log.term(index)
        return Divergence(leader, index, own_term, leader_term, CommittedEntry(index, own_term))

    def _claim(self, divergence: Divergence) -> None:
        """Tell the leader which committed entry of this server it contradicts. The leader checks it in its own log."""
        server = self._server
        server.send(
            AppendResponse(
                server.node,
                divergence.node,
                server.term,
                rejected=True,
                suspicion=server.suspicion,
                contradicted=divergence.committed,
            )
        )

    def _learn_commit(self, leader_commit: int) -> None:
        """Advance the commit index (Figure 2, AppendEntries 5), but only over entries that match the leader's log
        and are held. An entry that is not held does not count as committed on this server, because a failed write
        could still remove it."""
        self._leader_commit = max(self._leader_commit, leader_commit)
        self._server.commit_to(min(self._leader_commit, self._server.matched, self._server.durable))
