"""A leader: it appends, replicates, counts, and lets go when it no longer hears a majority.

The one idea: what a majority holds of an entry of *its own term* is committed, and with it all before (section 5.4.2).
Everything here dies with the leadership. Must not know: other roles, what followers' answers travelled through.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from raft.core.election_timer import Timing
from raft.core.errors import Busy
from raft.core.messages import Append, AppendResponse, Heartbeat, HeartbeatResponse
from raft.core.progress import Progress
from raft.core.quorum import majority, reached_by_majority
from raft.core.reads import Reads
from raft.core.ready import Role
from raft.core.server import Server

MAX_APPEND_BYTES = 1 << 20

# Of the entries from `first` on that one Append of at most `max_bytes` may carry (always at least one):
# the index of the last, and how many bytes they are.
Reach = Callable[[int, int], tuple[int, int]]


class Leader:
    __slots__ = (
        "_max_uncommitted_bytes",
        "_no_op",
        "_reach",
        "_reads",
        "_round",
        "_server",
        "_ticks",
        "_timing",
        "_uncommitted",
        "_written",
        "progress",
        "uncommitted_bytes",
    )

    role = Role.LEADER
    hears_leader = True

    def __init__(self, server: Server, timing: Timing, reach: Reach, max_uncommitted_bytes: int) -> None:
        assert server.is_saved, "a vote for itself that is not saved does not count"
        self._server = server
        self._timing = timing
        self._reach = reach
        self._max_uncommitted_bytes = max_uncommitted_bytes
        # Entries up to here are on this node's disk or in its page cache, so they can be read and sent;
        # commit <= _written <= last_index.
        self._written = server.log.last_index
        # The first entry of this term. Until it is committed, `commit` may lag behind what earlier leaders committed.
        self._no_op = server.append_own(1)
        # One for each other voter.
        self.progress = {node: Progress(self._no_op) for node in server.voters if node != server.node}
        # (last index, bytes) of each proposal of this term that is not committed.
        self._uncommitted: deque[tuple[int, int]] = deque()
        # The sum of the bytes in _uncommitted.
        self.uncommitted_bytes = 0
        # Ticks of this leadership.
        self._ticks = 0
        # The newest round of heartbeats. Counts up; every heartbeat belongs to one.
        self._round = 0
        self._reads = Reads()

    @property
    def leader(self) -> int:
        return self._server.node

    @property
    def no_op(self) -> int:
        return self._no_op

    def tick(self) -> Role | None:
        self._ticks += 1
        if not self._hears_majority():
            return Role.FOLLOWER
        for progress in self.progress.values():
            progress.tick()
        if self._ticks % self._timing.heartbeat_ticks == 0:
            for progress in self.progress.values():
                progress.heartbeat()
            self.begin_round()
        return None

    def begin_round(self) -> None:
        """Heartbeats to all: they keep followers from standing, confirm reads, and carry the commit index as far as the
        follower is known to agree."""
        self._round += 1
        self._reads.begin(self._round)
        server = self._server
        for peer, progress in self.progress.items():
            commit = min(progress.match, server.commit)
            server.send(Heartbeat(server.node, peer, server.term, commit, self._round))

    # -- entries

    def propose(self, sizes: Sequence[int]) -> int:
        """Take entries of these sizes into the log; returns the index of the first. An empty tail takes anything."""
        assert sizes, "a proposal has at least one entry"
        size = sum(sizes)
        if self.uncommitted_bytes and self.uncommitted_bytes + size > self._max_uncommitted_bytes:
            raise Busy(self.uncommitted_bytes)
        first = self._server.append_own(len(sizes))
        self._uncommitted.append((self._server.log.last_index, size))
        self.uncommitted_bytes += size
        return first

    def wrote(self, last_index: int) -> None:
        """The own entries up to `last_index` were written, and may be sent."""
        last = self._server.log.last_index
        assert self._written < last_index <= last, f"wrote {last_index} of {self._written + 1}..{last}"
        self._written = last_index

    def appends(self) -> Iterator[Append]:
        """What followers can be sent now."""
        for peer, progress in self.progress.items():
            if progress.must_ask(self._timing.election_ticks):
                progress.asked()
                yield self._append(peer, progress.next, progress.next - 1)
            while progress.may_stream and progress.next <= self._written:
                first = progress.next
                last, size = self._reach(first, MAX_APPEND_BYTES)
                assert first <= last <= self._written, f"reach({first}) gave {last}, written is {self._written}"
                progress.streamed(last, size)
                yield self._append(peer, first, last)

    def _append(self, peer: int, first: int, last: int) -> Append:
        server, log = self._server, self._server.log
        return Append(
            sender=server.node,
            receiver=peer,
            term=server.term,
            prev_index=first - 1,
            prev_term=log.term(first - 1),
            runs=log.runs(first, last),
            last_index=last,
            commit=server.commit,
            configurations=server.configurations.within(first, last),
        )

    # -- answers

    def on_append_response(self, response: AppendResponse) -> None:
        progress = self._hear(response.sender)
        if progress is None:
            return
        log = self._server.log
        if response.rejected:
            agreement = log.last_at_or_below(response.hint_index, response.hint_term)
            progress.rejected(response.rejected_index, agreement)
        else:
            assert response.match <= log.last_index, f"{response.sender} acknowledged {response.match}, never sent"
            if progress.accepted(response.match):
                self.count()

    def on_heartbeat_response(self, response: HeartbeatResponse) -> None:
        progress = self._hear(response.sender)
        if progress is not None:
            progress.round = max(progress.round, response.round)

    def unreachable(self, peer: int) -> None:
        if peer in self.progress:
            self.progress[peer].restart()

    def count(self) -> None:
        """Commit what a majority holds, if it is of the own term (section 5.4.2, Figure 8)."""
        server = self._server
        held = reached_by_majority(self._of_each(server.durable, lambda progress: progress.match))
        if held > server.commit and server.log.term(held) == server.term:
            server.commit_to(held)
            while self._uncommitted and self._uncommitted[0][0] <= held:
                self.uncommitted_bytes -= self._uncommitted.popleft()[1]

    # -- reads

    def read(self, token: int) -> None:
        """All that earlier leaders committed lies before the no-op, so that is the least index to answer with."""
        self._reads.request(token, max(self._server.commit, self._no_op))

    def start_reads(self) -> None:
        if self._reads.needs_round:
            self.begin_round()

    def take_reads(self) -> tuple[tuple[int, int], ...]:
        if not self._reads.in_round or self._server.commit < self._no_op:
            return ()
        return self._reads.take(reached_by_majority(self._of_each(self._round, lambda progress: progress.round)))

    # -- who is there

    def _hear(self, peer: int) -> Progress | None:
        progress = self.progress.get(peer)
        if progress is not None:
            progress.heard_at = self._ticks
        return progress

    def _hears_majority(self) -> bool:
        """Check-quorum (section 6.2 of the dissertation): a leader that is cut off makes room, so that clients look for
        another one."""
        patience = self._timing.election_ticks
        heard = 1 + sum(self._ticks - progress.heard_at < patience for progress in self.progress.values())
        return heard >= majority(self._server.voters)

    def _of_each(self, own: int, of: Callable[[Progress], int]) -> list[int]:
        """One value for each voter."""
        return [own, *map(of, self.progress.values())]
