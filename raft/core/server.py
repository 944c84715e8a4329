"""The state that a server has in every role: term, vote, log and commit index (the upper part of Figure 2 of the
paper).

    log   snapshot_index ...... commit ........ durable ........ last_index
                 | committed  |  held here     |  not yet held as the flush mode promises
                 |            |  (a leader's commit may pass its own durable)

A message leaves this node only after everything that the message promises is durable. No message is sent while the
present term and vote differ from the saved term and vote. A server acknowledges only entries up to the index
`durable`.
"""

from __future__ import annotations

from raft.core.configuration import Configuration, Configurations
from raft.core.divergence import NONE, Divergence, Divergences, that_remain
from raft.core.log_terms import LogTerms, runs_from
from raft.core.messages import Append, RaftMessage, SnapshotChunk
from raft.core.quorum import majority
from raft.core.ready import Save, Write
from raft.core.settings import Durable, RecoveredState


class Server:
    """Holds the term, the vote, the log's terms and the commit index of one server. Follower, Candidate and Leader
    share one Server object."""

    __slots__ = (
        "_outbox",
        "_saved",
        "_saving",
        "_token",
        "_valid_from",
        "_write",
        "can_apply",
        "chunk",
        "commit",
        "configurations",
        "divergences",
        "durable",
        "feature_level",
        "first_append",
        "has_room",
        "is_slow",
        "log",
        "matched",
        "node",
        "promise",
        "reopened",
        "suspicion",
        "ticks",
        "writable",
        "yields_until",
    )

    def __init__(self, node: int, recovered: RecoveredState, feature_level: int = 0) -> None:
        log, commit, vote = recovered.log, recovered.commit, recovered.vote
        self.node = node
        # The highest feature level that this server's program supports.
        self.feature_level = feature_level
        self.log = log
        # The ticks since this server was built.
        self.ticks = 0
        self.configurations = Configurations(recovered.configurations)
        # snapshot_index <= commit <= last_index. Never falls.
        self.commit = commit
        # The log agrees with the log of this term's leader up to here; commit <= matched <= last_index. A new term
        # lowers it to `commit`, and a new role does not. Every later leader has all committed entries (Leader
        # Completeness, section 5.4.3), and the server knows nothing more of a later leader's log.
        self.matched = commit
        # All entries up to here are held as the flush mode promises; durable <= last_index. Only a cut lowers it.
        self.durable = log.last_index
        # Whether the disk takes entries. While False, this server does not stand for election and takes no entries.
        self.writable = True
        # Whether the disk has room for new data. While False, this server takes the entries of its leader and votes. As
        # the leader it hands leadership over, and it stands for election only if no other server does.
        self.has_room = True
        # Whether the state machine can apply the committed entries. While False, this server votes and holds entries.
        # It does not stand for election, because a leader must apply its no-op before it serves clients.
        self.can_apply = True
        # Whether this server stepped down because its disk was slow. It does not stand again until its log is held.
        self.is_slow = False
        # Not 0: this server may have lost entries that it acknowledged (see suspicion.py).
        self.suspicion = recovered.suspicion
        # By node: the members whose log contradicts a committed entry (see divergence.py). Replaced, never changed.
        self.divergences: Divergences = NONE
        # Before this tick the server does not stand: a majority did not acknowledge its entries (see answers.py).
        self.yields_until = 0
        # The term of the newest leader of which this server had an Append, and the leader's commit index in the first
        # of them.
        self.first_append = (0, 0)
        # Term and vote as the server acts on them; promise.term >= log.last_term. After a crash, the log may have a
        # newer term than the vote file. Then this node has sent no vote in that term, because a vote is saved first.
        self.promise = vote if vote.term >= log.last_term else Durable(log.last_term)
        # Term and vote on disk.
        self._saved = vote
        # The newest Save that the driver was given. Its content is `promise` at that time.
        self._saving = Save(0, vote.term, vote.voted_for)
        # Messages wait here while promise != _saved.
        self._outbox: list[RaftMessage] = []
        # The write, and the piece of a snapshot, that the next Ready carries.
        self._write: Write | None = None
        self.chunk: SnapshotChunk | None = None
        # The followers whose streams the next Ready asks the driver to open again.
        self.reopened: list[int] = []
        # Tokens of saves and writes, one sequence; each is used once.
        self._token = 0
        # Entries of writes with an older token may have been overwritten, so `persisted` ignores these tokens.
        self._valid_from = 0

    @property
    def term(self) -> int:
        return self.promise.term

    @property
    def voted_for(self) -> int:
        return self.promise.voted_for

    @property
    def voters(self) -> tuple[int, ...]:
        return self.configurations.newest.voters

    @property
    def members(self) -> tuple[int, ...]:
        return self.configurations.newest.members

    @property
    def is_voter(self) -> bool:
        return self.node in self.voters

    @property
    def may_stand(self) -> bool:
        """Return True if this server is allowed to stand for election: it is a voter, or its removal as a voter is not
        committed yet.

        During the removal of a server its own vote does not count. Without this server, the other servers might not
        be able to elect a leader, because it is possible that only this server has a log that is up-to-date enough
        to win (dissertation, section 4.2.2).

        A server that lost its disk and was added again receives the log anew. Until its log has the configuration that
        added it, its newest configuration is an old one, with the voter that it was before. It does not stand for that
        voter: in a configuration with few voters it would elect itself."""
        configurations = (self.configurations.newest, self.configurations.before(self.commit))
        is_wanted = any(each.is_own and self.node in each.voters for each in configurations)
        is_able = self.writable and self.can_apply and not self.is_slow and not self.yields
        return is_wanted and is_able and self.agrees_with_majority

    @property
    def yields(self) -> bool:
        """Return True while this server lets others stand, because a majority did not acknowledge its entries."""
        return self.ticks < self.yields_until

    def heard_append(self, commit: int) -> None:
        """Note that the leader of this term has sent an Append and has committed up to `commit`."""
        if self.first_append[0] != self.term:
            self.first_append = (self.term, commit)

    # -- divergence

    @property
    def agrees_with_majority(self) -> bool:
        """Return True unless this server diverges from so many voters that the rest is no majority."""
        if not self.divergences:
            return True
        agreeing = [voter for voter in self.voters if voter not in self.divergences]
        return len(agreeing) >= majority(self.voters)

    def diverge(self, divergence: Divergence) -> None:
        """Note that another server has a different committed log. The first proof about a server stays."""
        if divergence.node not in self.divergences:
            self.divergences = {**self.divergences, divergence.node: divergence}

    @property
    def takes_writes(self) -> bool:
        """Return True if clients could write to this server if it were the leader."""
        return self.writable and self.has_room

    @property
    def stands_late(self) -> bool:
        """Return True if this server should let other voters stand for election first, because its disk has no room
        for new data."""
        return not self.has_room and len(self.voters) > 1

    # -- term and vote

    def enter(self, term: int, voted_for: int = 0) -> None:
        """Begin a newer term (section 5.1). Messages of the old term that wait to be sent are dropped."""
        assert term > self.term, f"term {term} is not newer than {self.term}"
        self.promise = Durable(term, voted_for)
        self.matched = self.commit
        self._outbox.clear()

    def vote(self, candidate: int) -> None:
        """Vote for `candidate` in the present term. The vote is sent only after it is saved on the disk."""
        assert self.voted_for in (0, candidate), f"voted for {self.voted_for} in term {self.term} already"
        self.promise = Durable(self.term, candidate)

    @property
    def has_output(self) -> bool:
        """Return True if this server may have output for the driver. Messages that wait for a save count as output."""
        promise, saving = self.promise, self._saving
        return bool(
            self._outbox
            or self._write
            or self.chunk
            or self.reopened
            or promise.term != saving.term
            or promise.voted_for != saving.voted_for
        )

    @property
    def is_saved(self) -> bool:
        """Return True if the present term and vote are on the disk."""
        return self.promise == self._saved

    def take_save(self) -> Save | None:
        """Return a new Save if term or vote changed since the last Save. If neither term nor vote has changed,
        return None."""
        if (self._saving.term, self._saving.voted_for) == (self.term, self.voted_for):
            return None
        self._saving = Save(self.next_token(), self.term, self.voted_for)
        return self._saving

    def vote_saved(self, token: int) -> None:
        """Record that the Save with this token is on the disk. A token that is older than the newest Save is
        ignored."""
        if token == self._saving.token:
            self._saved = Durable(self._saving.term, self._saving.voted_for)

    # -- messages

    def send(self, message: RaftMessage) -> None:
        self._outbox.append(message)

    def take_messages(self) -> tuple[RaftMessage, ...]:
        """Return the messages to send. Return no messages until term and vote are saved on the disk."""
        if not self._outbox or not self.is_saved:
            return ()
        messages = tuple(self._outbox)
        self._outbox.clear()
        return messages

    # -- the log

    def next_token(self) -> int:
        self._token += 1
        return self._token

    def append_own(self, count: int) -> int:
        """Append `count` new entries of this leader's term, and return the index of the first entry."""
        first = self.log.last_index + 1
        self.log.append(self.term, count)
        return first

    def take_over(self, append: Append) -> None:
        """Add the entries of an Append whose prev_index agrees with this log (section 5.3).

        Cut a conflicting entry and all entries after it. Keep own entries that agree with the Append, because the
        Append may be out of date. The caller has checked that no committed entry conflicts."""
        first = self.log.first_difference(append.runs, append.last_index)
        if first <= append.last_index:
            self._write_from(first, append)
        self.matched = max(self.matched, append.last_index)

    def _write_from(self, first: int, append: Append) -> None:
        assert first > self.matched, f"the leader of term {self.term} contradicts itself at {first}"
        token, truncate_to = self.next_token(), None
        if first <= self.log.last_index:
            truncate_to, self._valid_from = first - 1, token
            self.cut(truncate_to)
        self.log.extend(runs_from(append.runs, first), append.last_index)
        self.configurations.extend(entry for entry in append.configurations if entry[0] >= first)
        assert self._write is None, "the last write was not taken by the driver"
        self._write = Write(token, self.log.last_term, truncate_to, first, append.last_index)

    def cut(self, last_index: int) -> None:
        """Cut the log after `last_index`. Committed entries are never cut (section 5.4)."""
        assert last_index >= self.commit, f"cutting to {last_index} would lose committed entries up to {self.commit}"
        self.log.truncate(last_index)
        self.configurations.truncate(last_index)
        self.durable = min(self.durable, last_index)
        self.matched = min(self.matched, last_index)

    def take_chunk(self) -> SnapshotChunk | None:
        chunk, self.chunk = self.chunk, None
        return chunk

    def take_reopened(self) -> tuple[int, ...]:
        reopened, self.reopened = tuple(self.reopened), []
        return reopened

    def log_starts_behind(self, index: int) -> None:
        """Drop the entries up to `index`: the log now begins after this entry."""
        assert index <= self.commit, f"entry {index} is not committed: {self.commit}"
        self.log.drop_before(index)
        self.configurations.drop_before(index)

    def install(self, index: int, term: int, configuration: Configuration) -> None:
        """Record that a received snapshot has replaced the log. All entries up to `index` are committed."""
        assert index > self.commit, f"the snapshot at {index} ends before the commit index {self.commit}"
        self._valid_from = self.next_token()
        self.log = LogTerms(snapshot_index=index, snapshot_term=term)
        self.configurations = Configurations([(index, configuration)])
        self.commit = self.durable = self.matched = index
        self.divergences = that_remain(self.divergences, [configuration])
        self.can_apply = True  # the snapshot replaces the state, too

    def take_write(self) -> Write | None:
        write, self._write = self._write, None
        return write

    def persisted(self, token: int, term: int, index: int) -> bool:
        """Record that the writes up to `token` are as durable as the flush mode promises. The last entry that these
        writes wrote has this index and term. Return True if the call raises `durable`, the index of the last
        durable entry. It is possible that an entry of the reported writes was cut later, and then written again.
        Only the token shows that entries were cut after the write, so tokens from before the last cut are ignored."""
        assert token <= self._token, f"the core never issued token {token}"
        if token < self._valid_from:
            return False
        # The log may begin after this entry by now.
        is_here = index < self.log.snapshot_index or self.log.holds(index, term)
        assert is_here, f"entry {index} of term {term} is not in the log: {self.log}"
        if index <= self.durable:
            return False
        self.durable = index
        self.is_slow = self.is_slow and index < self.log.last_index
        return True

    def commit_to(self, index: int) -> None:
        """Raise the commit index to `index`, if `index` is larger."""
        assert index <= self.log.last_index, f"commit {index} lies beyond the log's end {self.log.last_index}"
        if self.divergences:
            newly_committed = self.configurations.within(self.commit + 1, index)
            self.divergences = that_remain(self.divergences, [members for _, members in newly_committed])
        self.commit = max(self.commit, index)
        self.matched = max(self.matched, self.commit)
