"""The leader: it appends entries, sends them to the other members, and counts acknowledgements to commit.

An entry of the leader's *own term* is committed when a majority holds it; all earlier entries are committed with it
(section 5.4.2). Each leadership has its own Leader object.

A leader steps down if it hears no majority, if it has handed leadership over, if its disk is too slow, or if mute
followers, with silent ones or without, keep it from committing. A leader also steps down if a committed configuration
does not contain it, or if it diverges from too many voters. A leader whose disk has no room for new data hands
leadership to a voter with room; without such a voter it keeps leading, so that the shard can be read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from raft.core.answers import YIELD_PATIENCE
from raft.core.catch_up import CatchUp
from raft.core.configuration import Configuration
from raft.core.divergence import CommittedEntry, Divergence
from raft.core.errors import Busy, ChangeInProgress, ChangeRefused, Diverged, Transferring
from raft.core.messages import Append, AppendResponse, Heartbeat, HeartbeatResponse, SnapshotChunk, SnapshotResponse
from raft.core.progress import FollowerProgress
from raft.core.quorum import majority, reached_by_majority
from raft.core.reads import UnconfirmedReads
from raft.core.ready import Role
from raft.core.server import Server
from raft.core.settings import RaftSettings
from raft.core.transfer import Transfer

MAX_APPEND_BYTES = 1 << 20

# A leader steps down if its own writes wait for the disk longer than this many election timeouts.
SLOW_DISK_PATIENCE = 4


class Leader:
    """Does what a server does as the leader of one term. The methods of `Leader` return the next role of the
    server, or None if the server stays the leader."""

    __slots__ = (
        "_catch_up",
        "_fresh_round",
        "_max_uncommitted_bytes",
        "_no_op",
        "_reach",
        "_reads",
        "_round",
        "_server",
        "_timing",
        "_transfer",
        "_uncommitted",
        "_waits_for_disk",
        "_waits_since",
        "_written",
        "accepts_loss",
        "progress",
        "uncommitted_bytes",
    )

    role = Role.LEADER
    hears_leader = True

    def __init__(self, server: Server, settings: RaftSettings, *, accepts_loss: bool = False) -> None:
        assert server.is_saved, "a vote for itself that is not saved does not count"
        # Elected by all voters, including suspects.
        self.accepts_loss = accepts_loss
        self._server = server
        self._timing = settings.timing
        self._reach = settings.reach
        self._max_uncommitted_bytes = settings.max_uncommitted_bytes
        # Entries up to here are on this node's disk or in its page cache, so they can be read and sent;
        # commit <= _written <= last_index.
        self._written = server.log.last_index
        # The first entry of this term. Until it is committed, earlier leaders may have committed entries after
        # `commit`.
        self._no_op = server.append_own(1)
        # By node: every other member of the newest configuration. A removed member stays until its removal is
        # committed.
        self.progress: dict[int, FollowerProgress] = {}
        self._meet_members()
        self._catch_up = CatchUp(settings.catch_up)
        # (last index, bytes) of each proposal of this term that is not committed.
        self._uncommitted: deque[tuple[int, int]] = deque()
        # The sum of the bytes in _uncommitted.
        self.uncommitted_bytes = 0
        # The newest round of heartbeats. Counts up; every heartbeat belongs to one.
        self._round = 0
        # Until a majority has answered this round, no entry is committed and no read is answered.
        self._fresh_round = 0
        self._reads = UnconfirmedReads()
        self._transfer = Transfer(server, self.progress, settings)
        # An own write that waits to be held: the last index that was written at the tick `_waits_since`; 0: none waits.
        self._waits_for_disk = 0
        self._waits_since = 0

    @property
    def leader(self) -> int:
        return self._server.node

    @property
    def no_op(self) -> int:
        """Return the index of the first entry of this leadership."""
        return self._no_op

    @property
    def round(self) -> int:
        """Return the newest round of heartbeats that this leader has begun."""
        return self._round

    @property
    def supported_feature_level(self) -> int:
        """Return the highest feature level that the programs of all members support. A member that has not answered
        this leader yet counts as level 0."""
        levels = [progress.feature_level for progress in self.progress.values()]
        return min([self._server.feature_level, *levels])

    @property
    def transferring_to(self) -> int:
        """Return the node to which this leader hands leadership over, or 0 if there is no handover."""
        return self._transfer.to

    def tick(self) -> Role | None:
        if not self._hears_majority():
            return Role.FOLLOWER
        if self._is_stuck():
            self._server.is_slow = True
            return self.leave()
        self._catch_up.tick()
        self._reopen_silent_streams()
        if self._waits_for(lambda progress: not progress.answers.is_mute):
            self._server.yields_until = self._server.ticks + YIELD_PATIENCE * self._timing.election_ticks
            return self.leave()
        self._transfer.tick()
        # Heartbeats follow the server's tick count, not the time of the election. So all shards of a node, which tick
        # together, send their heartbeats together.
        if self._server.ticks % self._timing.heartbeat_ticks == 0:
            for progress in self.progress.values():
                progress.heartbeat()
            self.begin_round()
            self._transfer.heartbeat()
        return None

    def begin_round(self) -> None:
        """Send heartbeats to all members.

        Heartbeats keep followers from standing for election, and confirm reads. Each heartbeat carries the commit
        index, but at most the index up to which the follower's log is known to agree."""
        self._round += 1
        self._reads.begin(self._round)
        server = self._server
        for peer, progress in self.progress.items():
            commit = min(progress.match, server.commit)
            lifted = progress.suspicion.lifted(progress.match) if progress.suspicion else 0
            server.send(Heartbeat(server.node, peer, server.term, commit, self._round, lifted))

    def held_up(self) -> None:
        """Record that this node did nothing for longer than an election takes, so that another leader may exist.

        From then on, followers' acknowledgements do not count for commits until a majority has answered a new round
        of heartbeats."""
        self.begin_round()
        self._fresh_round = self._round

    # -- entries

    def propose(self, sizes: Sequence[int]) -> int:
        """Append one new entry for each element of `sizes`, which are sizes in bytes. Return the index of the first
        new entry. Raise Busy if too many bytes are uncommitted, Transferring during a handover, or Diverged if this
        server diverges from a member. If all earlier entries are committed, entries of any size are accepted."""
        if divergences := self._server.divergences:
            raise Diverged([*divergences.values()])
        return self._append_own(sizes)

    def _append_own(self, sizes: Sequence[int]) -> int:
        assert sizes, "a proposal has at least one entry"
        if self._transfer.to:
            raise Transferring(self._transfer.to)
        size = sum(sizes)
        if self.uncommitted_bytes and self.uncommitted_bytes + size > self._max_uncommitted_bytes:
            raise Busy(self.uncommitted_bytes)
        first = self._server.append_own(len(sizes))
        self._uncommitted.append((self._server.log.last_index, size))
        self.uncommitted_bytes += size
        self._catch_up.appended(size * (len(self.progress) + 1 - len(self._server.voters)))
        return first

    def change(self, configuration: Configuration, size: int) -> int:
        """Append a configuration entry of this size (bytes), which takes effect at once. Return the index of the
        configuration entry.

        Each change adds or removes at most one voter. A change is refused until the previous change and an entry of
        this leader's term are committed. If the leader did not wait for an entry of its own term, two majorities
        could have no common node (Ongaro's correction of 2015 to section 4.1 of the dissertation). A divergence does
        not prevent a change."""
        server = self._server
        if not configuration.voters:
            raise ChangeRefused("a shard needs a voter; this would remove the last one")
        if not configuration.is_one_step_from(server.configurations.newest):
            raise ChangeRefused("voters change one at a time; this would change several")
        if server.commit < self._no_op or server.configurations.newest_index > server.commit:
            raise ChangeInProgress("an earlier change is not committed yet; ask again shortly")
        index = self._append_own([size])
        server.configurations.extend([(index, configuration)])
        self._meet_members()
        return index

    def transfer(self, to: int) -> None:
        """Hand leadership to the voter `to`: the voter receives the entries that it lacks, and then stands for
        election. Raises TransferRefused.

        If the handover does not succeed within an election timeout, this server stays the leader."""
        self._transfer.begin(to)

    def wrote(self, last_index: int) -> None:
        """Record that this leader's entries up to `last_index` were written, so that the leader is allowed to send
        them."""
        last = self._server.log.last_index
        assert self._written < last_index <= last, f"wrote {last_index} of {self._written + 1}..{last}"
        self._written = last_index

    def appends(self) -> Iterator[Append | SnapshotChunk]:
        """Yield the Appends and snapshot chunks that the limits of flow control allow this leader to send now."""
        server = self._server
        for peer, progress in self.progress.items():
            if progress.must_send(server.log.snapshot_index):
                progress.asked()
                yield SnapshotChunk(server.node, peer, server.term, progress.snapshot_index, progress.offset)
            if progress.must_ask(self._timing.election_ticks):
                progress.asked()
                yield self._append(peer, progress.next, progress.next - 1)
            is_learner = peer not in server.voters
            while progress.may_stream and progress.next <= self._written:
                if is_learner and self._catch_up.is_spent:
                    break
                first = progress.next
                last, size = self._reach(first, MAX_APPEND_BYTES)
                assert first <= last <= self._written, f"reach({first}) gave {last}, written is {self._written}"
                progress.streamed(last, size)
                if is_learner:
                    self._catch_up.sent(size)
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

    def on_append_response(self, response: AppendResponse) -> Role | None:
        progress = self._hear(response)
        if progress is None:
            return None  # the sender is not a member
        progress.answers.came()
        if response.contradicted is not None:
            return self._contradicted(progress, response.sender, response.contradicted)
        if progress.diverges or (progress.suspicion and not response.suspicion):
            return None  # the sender answered before it diverged, or before it restarted as a suspect
        log = self._server.log
        if response.rejected:
            agreement = log.last_at_or_below(response.hint_index, response.hint_term)
            progress.rejected(response.rejected_index, agreement)
            return None
        assert response.match <= log.last_index, f"{response.sender} acknowledged {response.match}, never sent"
        return self._accepted(progress, response.sender, response.match)

    def on_snapshot_response(self, response: SnapshotResponse) -> Role | None:
        progress = self._hear(response)
        if progress is None:
            return None
        progress.answers.came()
        if progress.diverges or (progress.suspicion and not response.suspicion):
            return None
        if response.installed:
            return self._accepted(progress, response.sender, response.index)
        progress.received(response.index, response.received)
        return None

    def _accepted(self, progress: FollowerProgress, sender: int, match: int) -> Role | None:
        if not progress.accepted(match):
            return None
        self._transfer.heard(sender)
        return self.count()

    def on_heartbeat_response(self, response: HeartbeatResponse) -> Role | None:
        progress = self._hear(response)
        if progress is None:
            return None
        progress.round = max(progress.round, response.round)
        progress.feature_level = response.feature_level
        progress.answers.heartbeat(self._server.ticks, owes_nothing=response.owes_nothing)
        progress.refuses_writes = response.refuses_writes
        if progress.suspicion and not response.suspicion and progress.suspicion.is_over(response.round):
            progress.trust()
            return self.count()
        return self.count() if self._fresh_round else None

    def unreachable(self, peer: int) -> None:
        if peer in self.progress:
            self.progress[peer].restart()

    def _contradicted(self, progress: FollowerProgress, sender: int, committed: CommittedEntry) -> Role | None:
        """Handle a rejection whose sender has committed another entry than this leader has at the same index. The
        claim counts only if this leader's own log proves that the logs differ there."""
        server, index = self._server, committed.index
        if progress.diverges or not server.log.snapshot_index <= index <= server.log.last_index:
            return None
        server.diverge(Divergence(sender, index, server.log.term(index), committed.term, committed))
        progress.diverge()
        return None if server.agrees_with_majority else self.leave()

    def count(self) -> Role | None:
        """Commit up to the last index that a majority holds, if the entry at that index is of this leader's term
        (section 5.4.2, Figure 8)."""
        server = self._server
        if not self._is_confirmed():
            return None
        held = reached_by_majority(self._of_voters(server.durable, lambda progress: progress.held))
        if held <= server.commit or server.log.term(held) != server.term:
            return None
        server.commit_to(held)
        while self._uncommitted and self._uncommitted[0][0] <= held:
            self.uncommitted_bytes -= self._uncommitted.popleft()[1]
        return self._settle_members()

    # -- members

    def _meet_members(self) -> None:
        """Create a progress object for each member that is new in the configuration. Replication to a new member
        begins with the configuration entry that was just appended."""
        server = self._server
        for node in server.members:
            if node != server.node and node not in self.progress:
                self.progress[node] = FollowerProgress(server.log.last_index)
                self.progress[node].heard_at = server.ticks
                self.progress[node].diverges = node in server.divergences

    def _settle_members(self) -> Role | None:
        """After a configuration is committed, stop sending to nodes outside of the configuration. If this leader is
        outside of the configuration, it steps down (dissertation, section 4.2.2)."""
        server = self._server
        if server.configurations.newest_index > server.commit:
            return None
        if leaving := [node for node in self.progress if node not in server.members]:
            self.begin_round()  # the last heartbeat to removed nodes carries the commit index of their removal
            for node in leaving:
                del self.progress[node]
        return None if server.is_voter else self.leave()

    def leave(self) -> Role:
        """Step down, and ask one voter that holds the whole log to stand for election at once."""
        self.begin_round()
        self._transfer.hand_to_anybody()
        return Role.FOLLOWER

    # -- reads

    def read(self, token: int) -> None:
        """Register a linearizable read. The index of the read is at least the index of the no-op, because all
        entries that earlier leaders committed lie before the no-op."""
        self._reads.request(token, max(self._server.commit, self._no_op))

    @property
    def has_reads(self) -> bool:
        return self._reads.needs_round or self._reads.in_round

    def start_reads(self) -> None:
        if self._reads.needs_round:
            self.begin_round()

    def take_reads(self) -> tuple[tuple[int, int], ...]:
        if not self._reads.in_round or self._server.commit < self._no_op or not self._is_confirmed():
            return ()
        return self._reads.take(self._confirmed_round())

    # -- contact with the other members

    def _hear(self, response: AppendResponse | SnapshotResponse | HeartbeatResponse) -> FollowerProgress | None:
        progress = self.progress.get(response.sender)
        if progress is None:
            return None
        progress.heard_at = self._server.ticks
        known = progress.suspicion.number if progress.suspicion else 0
        if response.suspicion and response.suspicion != known:
            progress.suspect(response.suspicion, self._server.log.last_index, self._round)
        return progress

    def _confirmed_round(self) -> int:
        return reached_by_majority(self._of_voters(self._round, lambda progress: progress.confirmed))

    def _is_confirmed(self) -> bool:
        if self._fresh_round and self._confirmed_round() >= self._fresh_round:
            self._fresh_round = 0
        return self._fresh_round == 0

    @property
    def is_unacknowledged(self) -> bool:
        """Return True if this leader cannot commit the entries that it holds, because followers that answer heartbeats
        acknowledge nothing, and perhaps because others are not heard."""
        return self._waits_for(lambda progress: not progress.answers.are_missing)

    def _waits_for(self, answers: Callable[[FollowerProgress], bool]) -> bool:
        """Return True if held entries wait to be committed, and this server is no majority together with the followers
        that are heard and for which `answers` is True. A follower that is not heard acknowledges nothing either."""
        server = self._server
        if server.durable <= server.commit:
            return False
        able = self._of_voters(True, lambda progress: self._hears(progress) and answers(progress))
        return sum(able) < majority(server.voters)

    def _reopen_silent_streams(self) -> None:
        """Count a tick for every follower. Ask the driver to open the streams again whose followers answer only
        heartbeats."""
        server = self._server
        for peer, progress in self.progress.items():
            if progress.tick(server.ticks, self._timing):
                server.reopened.append(peer)

    def _is_stuck(self) -> bool:
        """Return True if one of this leader's writes has waited so long for the disk that it should step down.

        Later writes do not count: under load some write always waits, and the flushes of a working disk hold one write
        after another."""
        server = self._server
        if server.durable >= self._waits_for_disk:
            is_waiting = server.durable < self._written
            self._waits_for_disk = self._written if is_waiting else 0
            self._waits_since = server.ticks
        if not self._waits_for_disk:
            return False
        return server.ticks - self._waits_since >= SLOW_DISK_PATIENCE * self._timing.election_ticks

    def _hears_majority(self) -> bool:
        """Return True if this leader heard a majority within an election timeout (check-quorum, dissertation, section
        6.2).

        A leader that cannot reach a majority steps down, so that clients look for the new leader."""
        heard = self._of_voters(True, self._hears)
        return sum(heard) >= majority(self._server.voters)

    def _hears(self, progress: FollowerProgress) -> bool:
        """Return True if this leader heard the follower within an election timeout."""
        return self._server.ticks - progress.heard_at < self._timing.election_ticks

    def _of_voters(self, own: int, of: Callable[[FollowerProgress], int]) -> list[int]:
        """Return one value for each voter: `own` for this server, and `of(progress)` for every other voter."""
        server = self._server
        return [own if voter == server.node else of(self.progress[voter]) for voter in server.voters]
