"""The state of a server in every role: term, vote, log and commit index (the upper part of Figure 2 of the paper).

    log   base_index ...... commit ........ durable ........ last_index
                 |  settled   |  held here     |  not yet held as the flush mode promises
                 |            |  (a leader's commit may pass its own durable)

Promises leave this node only after what they promise is durable. So the outbox of messages stays shut
while term and vote differ from what is saved, and `durable` says how much of the log may be acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from raft.core.configuration import Configuration, Configurations
from raft.core.errors import Diverged
from raft.core.log_terms import LogTerms, runs_from
from raft.core.messages import Append, Message, SnapshotChunk
from raft.core.ready import Save, Write


@dataclass(frozen=True, slots=True)
class Durable:
    """What the vote file holds."""

    # The newest term this server has seen. Never falls.
    term: int = 0
    # Whom it voted for in that term; 0: nobody. Set once for each term.
    voted_for: int = 0


class Server:
    __slots__ = (
        "_outbox",
        "_saved",
        "_saving",
        "_token",
        "_valid_from",
        "_write",
        "chunk",
        "commit",
        "configurations",
        "durable",
        "is_slow",
        "log",
        "matched",
        "node",
        "promise",
        "suspicion",
        "ticks",
        "writable",
    )

    def __init__(
        self,
        node: int,
        state: Durable,
        log: LogTerms,
        configurations: Iterable[tuple[int, Configuration]],
        commit: int,
        suspicion: int = 0,
    ) -> None:
        assert node >= 1, "node ids begin at 1"
        assert log.base_index <= commit <= log.last_index, f"commit {commit} lies outside of {log}"
        self.node = node
        self.log = log
        # So many have passed since this server began.
        self.ticks = 0
        self.configurations = Configurations(configurations)
        # base_index <= commit <= last_index. Never falls.
        self.commit = commit
        # The log agrees with that of the leader of this term up to here; commit <= matched <= last_index. Falls only
        # with a new term, not with a new role: what is committed agrees with every later leader's log (Leader
        # Completeness, section 5.4.3), and more than that is not known of it.
        self.matched = commit
        # Everything up to here is held as the flush mode promises; durable <= last_index. Falls by truncation alone.
        self.durable = log.last_index
        # Whether the disk takes entries. While it does not, this server neither stands nor takes entries.
        self.writable = True
        # Whether the disk was so slow that this server gave up leading; until what it wrote is held it does not stand.
        self.is_slow = False
        # Not 0: this server may have lost what it acknowledged (see suspicion.py).
        self.suspicion = suspicion
        # Term and vote as the server acts on them; promise.term >= log.last_term. Entries may have outrun the vote file
        # in a crash: then no vote of that term has left this node, or it would be in the file.
        self.promise = state if state.term >= log.last_term else Durable(log.last_term)
        # Term and vote on disk.
        self._saved = state
        # The newest Save asked for; its content is what `promise` was then.
        self._saving = Save(0, state.term, state.voted_for)
        # Messages wait here while promise != _saved.
        self._outbox: list[Message] = []
        # The write, and the piece of a base, that the next Ready asks for.
        self._write: Write | None = None
        self.chunk: SnapshotChunk | None = None
        # Tokens of saves and writes, one sequence; each is used once.
        self._token = 0
        # Writes with an older token may have been overwritten: what they persisted is not counted.
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
        """Whether this server may stand for election: it is a voter, or its removal as a voter is not committed yet.

        In the second case its own vote does not count, but without its log no election might succeed (dissertation,
        section 4.2.2)."""
        is_wanted = self.is_voter or self.node in self.configurations.voters_before(self.commit)
        return is_wanted and self.writable and not self.is_slow

    # -- term and vote

    def enter(self, term: int, voted_for: int = 0) -> None:
        """Begin a newer term (section 5.1). Waiting messages of the old term are dropped."""
        assert term > self.term, f"term {term} is not newer than {self.term}"
        self.promise = Durable(term, voted_for)
        self.matched = self.commit
        self._outbox.clear()

    def vote(self, candidate: int) -> None:
        assert self.voted_for in (0, candidate), f"voted for {self.voted_for} in term {self.term} already"
        self.promise = Durable(self.term, candidate)

    @property
    def has_output(self) -> bool:
        """Whether there may be output to take. Messages count even if they still wait for a save."""
        promise, saving = self.promise, self._saving
        return bool(
            self._outbox
            or self._write
            or self.chunk
            or promise.term != saving.term
            or promise.voted_for != saving.voted_for
        )

    @property
    def is_saved(self) -> bool:
        return self.promise == self._saved

    def take_save(self) -> Save | None:
        if (self._saving.term, self._saving.voted_for) == (self.term, self.voted_for):
            return None
        self._saving = Save(self.next_token(), self.term, self.voted_for)
        return self._saving

    def vote_saved(self, token: int) -> None:
        """The Save with this token is on disk. An older token than the newest Save's is ignored."""
        if token == self._saving.token:
            self._saved = Durable(self._saving.term, self._saving.voted_for)

    # -- messages

    def send(self, message: Message) -> None:
        self._outbox.append(message)

    def take_messages(self) -> tuple[Message, ...]:
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
        """Append `count` new entries of this leader's term; returns the index of the first."""
        first = self.log.last_index + 1
        self.log.append(self.term, count)
        return first

    def take_over(self, append: Append) -> None:
        """Take the entries of an Append whose prev_index agrees with this log (section 5.3).

        A conflicting entry is cut together with all that follow it. Entries that agree stay, because the Append may be
        out of date. Raises Diverged if a committed entry conflicts."""
        first = self.log.first_difference(append.runs, append.last_index)
        if first <= append.last_index:
            self._write_from(first, append)
        self.matched = max(self.matched, append.last_index)

    def _write_from(self, first: int, append: Append) -> None:
        if first <= self.commit:
            raise Diverged(first, self.term)
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

    def log_starts_behind(self, index: int) -> None:
        assert index <= self.commit, f"entry {index} is not committed: {self.commit}"
        self.log.drop_before(index)
        self.configurations.drop_before(index)

    def install(self, index: int, term: int, configuration: Configuration) -> None:
        """A snapshot has replaced the log. All entries up to `index` are committed and held."""
        assert index > self.commit, f"the base at {index} stands for less than is committed: {self.commit}"
        self._valid_from = self.next_token()
        self.log = LogTerms(base_index=index, base_term=term)
        self.configurations = Configurations([(index, configuration)])
        self.commit = self.durable = self.matched = index

    def take_write(self) -> Write | None:
        write, self._write = self._write, None
        return write

    def persisted(self, token: int, term: int, index: int) -> bool:
        """The writes up to `token` are held; their last entry is `index`, of `term`. Returns whether `durable` rose.

        The same entry may have been cut and written again since. Only the token shows that, so old tokens are
        ignored."""
        assert token <= self._token, f"token {token} was never given out"
        if token < self._valid_from:
            return False
        is_here = index < self.log.base_index or self.log.holds(index, term)  # the log may begin behind it by now
        assert is_here, f"entry {index} of term {term} is not in the log: {self.log}"
        if index <= self.durable:
            return False
        self.durable = index
        self.is_slow = self.is_slow and index < self.log.last_index
        return True

    def commit_to(self, index: int) -> None:
        assert index <= self.log.last_index, f"commit {index} lies beyond the log's end {self.log.last_index}"
        self.commit = max(self.commit, index)
        self.matched = max(self.matched, self.commit)
