"""The driver carries out what the core decides, in a fixed order of duties. Each shard has one driver.

Files, sockets, clocks and threads are behind small interfaces (`raft/interfaces.py`). So the same code runs under gRPC
and in the simulator.

    event ──> core.step ──> Ready ──> save vote · write log · send · apply ──> (end of the turn) group write, appends

All entries proposed in one turn of the event loop are written with one group write, and leave for each follower as one
message. Until the end of the turn they wait in `_proposals`, and the core does not know them. So a proposal that fails
before that was certainly not appended.

When the disk fails (`failure`), this node stops leading and accepts no entries, so that another node can lead. Entries
that this node has applied stay readable. If the disk is full, or too many files are open, the driver tries again from
time to time, and service resumes by itself. After any other failure only a restart helps: it reads what is really on
the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from raft.configuration_entry import decode_configuration
from raft.core import (
    Append,
    Busy,
    Configuration,
    Crowded,
    Diverged,
    Message,
    NotLeader,
    Raft,
    Ready,
    Refusal,
    Role,
    RoleChange,
    SnapshotChunk,
    Stalled,
    Transferring,
    Write,
)
from raft.errors import CutFailedError, LossAcceptedError
from raft.interfaces import Disk, Log, Machine, Proposal, Transport
from raft.log_start import LogStart
from raft.ranges import configurations, term_runs
from raft.reads import Reads
from raft.snapshot_piece import Piece
from store import EntryDraft, EntryKind, ForkedError, Header, Readable, Snapshot, Snapshots, StoreError

APPLY_ENTRIES_PER_TURN = 128
"""So that no turn of the loop gets long: heartbeats depend on it."""

APPLY_BYTES_PER_TURN = 4 << 20

MAX_PROPOSALS = 65_536
"""That are not committed yet, however small."""

TRY_AGAIN_TICKS = 20
"""How long a node waits before it tries to write again: its disk may have room by then."""


class Driver:
    """Runs one replica of a shard. All methods belong to one thread; none waits."""

    def __init__(
        self,
        raft: Raft,
        log: Log,
        *,
        snapshots: Snapshots | None = None,
        resumed: Snapshot | None = None,
        transport: Transport,
        disk: Disk,
        machine: Machine,
        now_ms: Callable[[], int],
        soon: Callable[[Callable[[], None]], object],
        max_uncommitted_bytes: int = 64 << 20,
        stalled: Callable[[], str] = lambda: "",
        was_held_up: Callable[[], bool] = lambda: False,
    ) -> None:
        """`was_held_up` is asked before each event: whether nothing happened here for longer than an election takes.
        Without `bases` the log begins with entry 1 for ever. `resumed`: what `machine` has applied already, of this log
        or before it. `stalled` is asked before each proposal: why nothing can be written now, empty where it can."""
        self.raft = raft
        self.failure: StoreError | None = None
        self.applied = resumed.index if resumed else 0
        """log.first_index - 1 <= applied <= raft.commit <= log.last_index"""
        self.log_start = LogStart(log, snapshots, machine, resumed) if snapshots else None
        self._log = log
        self._transport = transport
        self._disk = disk
        self._machine = machine
        self._now_ms = now_ms
        self._soon = soon
        self._max_uncommitted_bytes = max_uncommitted_bytes
        self._stalled = stalled
        self._was_held_up = was_held_up
        self._proposals: list[Proposal] = []
        """Not yet appended; written as one shard at the end of the turn."""
        self._queued_bytes = 0
        self._uncommitted: deque[tuple[int, Proposal]] = deque()
        """By index. Appended in the present term, in order of index, not yet applied."""
        self._incoming: tuple[Readable, list[Header]] = (b"", [])
        """The byte range whose Append the core is looking at."""
        self._incoming_piece: Piece | None = None
        """The bytes of the SnapshotChunk that it is looking at."""
        self._reads = Reads()
        self._turn_scheduled = False
        self._settling = False
        self._persisted_writes: deque[tuple[int, int, int]] = deque()
        """(token, term, index) of writes that are held as the flush mode promises; the core has not heard yet."""
        self._led_term = 0
        """The term in which `machine.leading` was called last."""
        self._forked_at = 0
        """Where a received range did not continue this log the last time that this happened."""
        self._resume_in_ticks = 0
        """While the disk is full, or files cannot be opened: how long until that is tried again."""
        self._stopped = False

    # -- events

    def start(self) -> None:
        """Carries out what the core has to say at its start (a shard of one node elects itself by its first ticks)."""
        self._tell_members()
        self._settle()

    def stop(self) -> None:
        """Stop: take no input and write nothing, so that the log can be closed.

        Waiting proposals and reads get no answer, so the callers must be gone before."""
        self._stopped = True

    def tick(self) -> None:
        """One tick of Raft's clock has passed."""
        self._notice_pause()
        if self._resume_in_ticks:
            self._resume_in_ticks -= 1
            if self._resume_in_ticks == 0:
                self.failure = None
                self.raft.resume_writing()
        self.raft.tick()
        self._settle()

    def receive(self, message: Message) -> None:
        """A vote, a heartbeat or an answer has come in."""
        self._notice_pause()
        self.raft.step(message)
        self._settle()

    def receive_append(self, append: Append, entries: Readable) -> None:
        """A byte range of the leader's log has come in; `append` says where it belongs, and has no runs yet.

        Raises CorruptRangeError when the bytes are bad in themselves, and ForkedError when they do not continue this
        log's chain: the stream that brought them is to be broken off, and they come again. When they fork again at the
        same place, it is no error of transmission: these are two logs, and this node must not go on with either.
        """
        self._notice_pause()
        if entries and self.failure is not None and not self._fits(append):
            return  # it cannot be taken: to say why would only make the leader send all of it again, at once
        try:
            append = self._examine(append, entries)
        except ForkedError as fork:
            if fork.index == self._forked_at:
                self.fail(fork)
            self._forked_at = fork.index
            raise
        try:
            self.raft.step(append)
        except Diverged as diverged:
            self.fail(LossAcceptedError(diverged.index))
        self._settle()
        self._incoming = (b"", [])

    def receive_base(self, chunk: SnapshotChunk, piece: Piece) -> None:
        """A piece of the snapshot at the leader's log start has arrived."""
        self._notice_pause()
        self._incoming_piece = piece
        self.raft.step(chunk)
        self._settle()
        self._incoming_piece = None

    def unreachable(self, peer: int) -> None:
        """The stream to a follower broke: messages in flight on it may be lost."""
        self.raft.unreachable(peer)
        self._settle()

    @property
    def leads(self) -> bool:
        return self.raft.role is Role.LEADER

    def check_room(self, size: int) -> None:
        """Raises unless a body of so many bytes can be proposed now: a Refusal, or the trouble with the disk."""
        self._notice_pause()
        if self._stopped:
            raise NotLeader(0)
        if self.failure is not None:
            raise self.failure
        if not self.leads:
            raise NotLeader(self.raft.leader)
        if self.raft.transferring_to:
            raise Transferring(self.raft.transferring_to)
        if reason := self._stalled():
            raise Stalled(reason)
        uncommitted = self._queued_bytes + self.raft.uncommitted_bytes
        if uncommitted and uncommitted + size > self._max_uncommitted_bytes:
            raise Busy(uncommitted)
        if self.backlog >= MAX_PROPOSALS:
            raise Crowded("proposals", self.backlog)

    def propose(self, proposal: Proposal) -> None:
        """Takes an entry, for which `check_room` has passed in this turn, for the group write at the turn's end."""
        self._queued_bytes += len(proposal.draft.body)
        self._proposals.append(proposal)
        self._schedule_turn()

    def change(self, proposal: Proposal, configuration: Configuration) -> None:
        """Appends a configuration entry, which counts at once, and is told of its end like any proposal. Raises
        Refusal, or the trouble with the disk: then it was surely not appended."""
        self.check_room(len(proposal.draft.body))
        self._write_proposals()  # what came before goes before
        self.raft.change(configuration, len(proposal.draft.body))
        try:
            (header,) = self._append([proposal.draft])
        except StoreError as failure:
            self.fail(failure)
            raise
        proposal.appended(header)
        self._uncommitted.append((header.index, proposal))
        self._settle()

    def transfer(self, to: int) -> None:
        """Hands leadership to that voter. Raises Refusal; otherwise it comes about within an election timeout, or not
        at all."""
        self._notice_pause()
        self.raft.transfer(to)
        self._settle()

    def accept_loss(self) -> None:
        """An operator accepts the loss of entries on this node: it is no longer a suspect."""
        self.raft.accept_loss()
        self._settle()

    @property
    def backlog(self) -> int:
        """The number of proposals that are not committed yet."""
        return len(self._proposals) + len(self._uncommitted)

    def read_index(self, answer: Callable[[bool], None]) -> None:
        """Calls answer(True) once all that was committed when this was called is applied here and this node is known to
        lead still; answer(False) when it lost the lead first. Raises NotLeader, Crowded."""
        self._notice_pause()
        if self._stopped:
            raise NotLeader(0)
        token = self._reads.next_token()
        self.raft.read(token)
        self._reads.begin(token, answer)
        self._settle()

    # -- the order of duties

    def _notice_pause(self) -> None:
        if self._was_held_up():
            self.raft.held_up()

    def _settle(self) -> None:
        """Carries out what the core wants, to the end of each Ready before the core hears of anything else."""
        if self._settling:
            return  # reported in the middle of a Ready: the loop below, further up the stack, takes it up
        self._settling = True
        try:
            while self._next_duty():
                pass
        finally:
            self._settling = False
        if self.leads or self.applied < self.raft.commit:
            self._schedule_turn()

    def _next_duty(self) -> bool:
        """Whether there was one."""
        try:
            if (ready := self.raft.ready()) is not None:
                self._carry_out(ready)
            elif self._persisted_writes:
                self.raft.persisted(*self._persisted_writes.popleft())
            else:
                return False
        except StoreError as failure:
            self.fail(failure)
        return True

    def _carry_out(self, ready: Ready) -> None:
        if ready.role is not None:
            self._role_changed(ready.role)
        if ready.save is not None:
            token = ready.save.token
            self._disk.save_vote(ready.save.term, ready.save.voted_for, lambda: self._vote_saved(token))
        if ready.write is not None:
            self._write_received(ready.write)
        if ready.no_op is not None:
            self._append([EntryDraft(EntryKind.NO_OP, b"")])
        if ready.configuration:
            self._tell_members()
        if ready.chunk is not None:
            self._take_piece(ready.chunk)
        if ready.trusted:
            self._disk.trusted()
        for message in ready.messages:
            self._transport.send(message)
        for token, index in ready.reads:
            self._reads.confirm(token, index)
        self._reads.answer(self.applied)

    def _vote_saved(self, token: int) -> None:
        self.raft.vote_saved(token)
        self._settle()

    def _persisted(self, token: int, term: int, index: int) -> None:
        self._persisted_writes.append((token, term, index))
        self._settle()

    def _write_received(self, write: Write) -> None:
        if write.truncate_to is not None:
            self._cut(write.truncate_to)
        data, headers = self._incoming
        self._log.write(data, headers, write.first)
        self._persist(headers, write.token, write.term, write.last)

    def _cut(self, last_index: int) -> None:
        try:
            self._log.truncate(last_index)
        except StoreError as failure:
            raise CutFailedError(last_index) from failure

    def _append(self, drafts: Sequence[EntryDraft]) -> list[Header]:
        """Writes this leader's entries in one group write, and tells the core when they are held."""
        headers = self._log.append(drafts, term=self.raft.term, commit=self.raft.commit, now_ms=self._now_ms())
        last = headers[-1]
        token = self.raft.own_write(last.index)
        self._persist(headers, token, last.term, last.index)
        return headers

    def _persist(self, headers: Sequence[Header], token: int, term: int, index: int) -> None:
        """A configuration is flushed in every mode before it counts: who forgot one in a crash might believe that it
        may decide alone."""
        is_flushed = any(header.kind is EntryKind.CONFIGURATION for header in headers)
        hold = self._disk.flush if is_flushed else self._disk.persist
        hold(lambda: self._persisted(token, term, index))

    def _tell_members(self) -> None:
        """To whom the log goes from now on."""
        if body := self.configuration():
            self._transport.configured(decode_configuration(body), self.raft.progress)

    def configuration(self) -> bytes:
        """The body of the newest configuration entry in the log or in its snapshot; empty if there is none."""
        index = self.raft.configuration_index
        if self.log_start and index <= self.applied:
            return self.log_start.configuration  # and not from the log, which may be damaged there
        if index >= self._log.first_index:
            return bytes(self._log.entry(index)[1])
        snapshot = self.log_start.snapshot if self.log_start else None
        return snapshot.configuration if snapshot else b""

    # -- the start of the log

    def _take_piece(self, chunk: SnapshotChunk) -> None:
        assert self.log_start is not None, "a base came to a shard whose log always begins with entry 1"
        assert self._incoming_piece is not None
        taken = self.log_start.receive(chunk.offset, self._incoming_piece)
        if isinstance(taken, int):
            self.raft.base_received(chunk, taken)
        else:
            self._install(chunk, taken)

    def _install(self, chunk: SnapshotChunk, snapshot: Snapshot) -> None:
        assert self.log_start is not None
        try:
            self.log_start.install(snapshot)
        except StoreError as failure:
            if failure.retriable and not self.log_start.is_installing:
                raise  # the log is as it was, and the base comes again
            raise CutFailedError(snapshot.index) from failure
        self.applied = snapshot.index
        self.raft.installed(chunk, snapshot.term, decode_configuration(snapshot.configuration).core)

    def _move_log_start(self, body: memoryview) -> None:
        snapshot = self.log_start.move(body) if self.log_start else None
        if snapshot is not None:
            self.raft.log_starts_behind(snapshot.index)
            self._machine.log_starts(snapshot)
            self._disk.tidy()

    # -- the end of a turn

    def _schedule_turn(self) -> None:
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._soon(self._end_turn)

    def _end_turn(self) -> None:
        if self._stopped:
            return
        self._write_proposals()  # what comes of it is applied and sent in this same turn
        self._turn_scheduled = False
        if self._proposals:
            self._schedule_turn()
        if self.failure is None:
            try:
                self._apply()
            except StoreError as failure:  # an index could not be written: applying goes on from here when it can
                self.fail(failure)
        try:
            if messages := self.raft.appends():
                self._send_bulk(messages)
        except StoreError as failure:  # what others need cannot be read here: they find a leader that can
            self.fail(failure)

    def _send_bulk(self, messages: Sequence[Append | SnapshotChunk]) -> None:
        """Raises StoreError where something cannot be read; ranges that can be have left by then."""
        self._transport.replicate(self._readable(message for message in messages if isinstance(message, Append)))
        for message in messages:
            if isinstance(message, SnapshotChunk):
                assert self.log_start is not None
                self._transport.send_snapshot(message, self.log_start.piece(message.offset))

    def _readable(self, appends: Iterable[Append]) -> Iterator[tuple[Append, Readable]]:
        """Each with its entries. At the end, raises for the first whose entries could not be read."""
        failure: StoreError | None = None
        for append in appends:
            first, last = append.prev_index + 1, append.last_index
            try:
                entries = self._log.view_range(first, last) if first <= last else b""
            except StoreError as error:
                failure = failure or error
            else:
                yield append, entries
        if failure is not None:
            raise failure

    def _write_proposals(self) -> None:
        """Group commit: everything that was proposed since the last turn, in one write."""
        group, self._proposals, self._queued_bytes = self._proposals, [], 0
        if not group:
            return
        try:
            self.raft.propose([len(proposal.draft.body) for proposal in group])
            headers = self._append([proposal.draft for proposal in group])
        except (Refusal, StoreError) as trouble:
            if isinstance(trouble, StoreError):
                self.fail(trouble)  # first, so that those who wait hear of it
            for proposal in group:
                proposal.settled(committed=False)
            return
        for proposal, header in zip(group, headers, strict=True):
            proposal.appended(header)
            self._uncommitted.append((header.index, proposal))
        self._settle()

    def _apply(self) -> None:
        """Applies what is committed, a slice a turn."""
        budget = APPLY_BYTES_PER_TURN
        last = min(self.raft.commit, self.applied + APPLY_ENTRIES_PER_TURN)
        while self.applied < last and budget > 0:
            header, body = self._log.entry(self.applied + 1)
            if self.log_start:
                self.log_start.passes(header, body)
            self._machine.apply(header, body)
            self.applied = header.index
            if header.kind is EntryKind.LOG_START:
                self._move_log_start(body)
            budget -= header.size
            if self._uncommitted and self._uncommitted[0][0] == header.index:
                self._uncommitted.popleft()[1].settled(committed=True)
            if self.leads and header.term == self.raft.term and self._led_term != header.term:
                self._led_term = header.term  # the own no-op: nothing of an earlier leader is left to come
                self._machine.leading(header.term)
        self._reads.answer(self.applied)
        if self.applied < self.raft.commit:
            self._schedule_turn()

    # -- incoming byte ranges

    def _examine(self, append: Append, entries: Readable) -> Append:
        """The append as the core sees it: terms and configurations, read from bytes whose CRCs and chain hold.

        Where the entry before the range is not ours the core will refuse anyway, and needs no entries for that.
        """
        if not entries or not self._fits(append) or append.term < self.raft.term:
            return append
        headers = self._log.examine(entries, append.prev_index)
        self._incoming = (entries, headers)
        return Append(
            sender=append.sender,
            receiver=append.receiver,
            term=append.term,
            prev_index=append.prev_index,
            prev_term=append.prev_term,
            runs=term_runs(headers),
            last_index=headers[-1].index,
            commit=append.commit,
            configurations=configurations(headers, entries),
        )

    def _fits(self, append: Append) -> bool:
        """Whether the entry before the range is here."""
        prev, log = append.prev_index, self._log
        return log.first_index - 1 <= prev <= log.last_index and (prev == 0 or log.term(prev) == append.prev_term)

    # -- who leads, and trouble

    def _role_changed(self, change: RoleChange) -> None:
        if not self.leads:
            self._give_up_proposals()
        self._machine.role_changed(change)

    def _give_up_proposals(self) -> None:
        """This node does not lead (any more): those who wait hear so, and find out from the next leader."""
        waiting = [*(proposal for _, proposal in self._uncommitted), *self._proposals]
        reads = self._reads.give_up()
        self._uncommitted.clear()
        self._proposals, self._queued_bytes = [], 0
        for proposal in waiting:
            proposal.settled(committed=False)
        for answer in reads:
            answer(False)

    def repaired(self, failure: StoreError) -> None:
        """What this node failed for is no more; unless it has failed for something else since."""
        if self.failure is failure:
            self.failure = None
            self.raft.resume_writing()
            self._settle()

    def fail(self, failure: StoreError) -> None:
        """The disk refused a write, here or on a helper thread."""
        self.failure = failure
        self._resume_in_ticks = TRY_AGAIN_TICKS if failure.retriable else 0
        self.raft.write_failed(self._log.last_index)
        self._machine.failed(failure)
        self._settle()
