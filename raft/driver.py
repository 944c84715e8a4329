"""The driver carries out what the core decides, in a fixed order of duties. Each replica has one driver.

The driver reaches files, sockets, clocks and threads only through small interfaces (`raft/interfaces.py`), so the same
driver runs under gRPC and in the simulator.

The driver passes each event to the core and receives a `Ready`. For each `Ready`, the driver saves the vote, writes
the entries of a follower, and sends messages, in this order. At the end of the turn, the driver writes the proposals
with one group write, applies committed entries, and sends Appends. A leader that hears of a majority applies entries
at once.

All entries proposed in one turn of the event loop are written with one group write, and are sent to each follower as
one message. Until the end of the turn the proposals are queued (`raft/proposals.py`), and the core does not know them.
A proposal that fails while it is queued was certainly not appended.

When the disk fails (`failure`), this node stops leading and accepts no entries, so that another node can lead. While
the disk fails, clients can read the entries that this node has applied. If the disk is full, or too many files are
open, the driver tries to write again from time to time. When a repeated write succeeds, the replica takes part
normally again. After a disk failure that is neither a full disk nor too many open files, the node must restart. The
restart reads the real content of the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from raft.applier import Applier
from raft.bulk_sender import BulkSender
from raft.cluster_clock import ClusterClock
from raft.configuration_entry import decode_configuration
from raft.core import (
    Append,
    AppendResponse,
    Busy,
    Configuration,
    Crowded,
    Diverged,
    HeartbeatResponse,
    InvalidMessage,
    NotLeader,
    Raft,
    RaftMessage,
    Ready,
    Refusal,
    Role,
    RoleChange,
    SnapshotChunk,
    Stalled,
    Transferring,
    VoteResponse,
)
from raft.driver_settings import DriverRuntime, ReplicaStorage
from raft.entry_times import EntryTimes
from raft.errors import CannotApplyError
from raft.forks import Forks
from raft.interfaces import DriverDisk, Machine, Proposal, Transport
from raft.log_start import LogStart
from raft.log_writer import LogWriter
from raft.proposals import WaitingProposals
from raft.reads import WaitingReads
from raft.received_range import ReceivedRange
from raft.snapshot_installation import SnapshotInstallation
from raft.snapshot_piece import SnapshotPiece
from store import (
    CorruptRangeError,
    EntryDraft,
    EntryKind,
    ForkedError,
    LogDamagedError,
    RangeDamagedError,
    Readable,
    StoreError,
)

# The largest number of proposals that are not committed, whatever their size.
MAX_PROPOSALS = 65_536

# The driver tries to write again this many ticks after the disk was full or files could not be opened.
TRY_AGAIN_TICKS = 20


class Driver:
    """`Driver` runs one replica of a shard. All methods of the driver must be called from one thread, and no method
    waits."""

    def __init__(
        self,
        raft: Raft,
        storage: ReplicaStorage,
        *,
        transport: Transport,
        disk: DriverDisk,
        machine: Machine,
        runtime: DriverRuntime,
    ) -> None:
        """`machine` must have applied the entries up to `storage.resumed`."""
        log, snapshots, resumed = storage.log, storage.snapshots, storage.resumed
        self.raft = raft
        # Why this node cannot write; None while it can.
        self.failure: StoreError | None = None
        # How many proposals this node has given up, because it stopped leading or its disk refused the write.
        self.given_up = 0
        self.log_start = LogStart(log, snapshots, machine, resumed) if snapshots else None
        self._log = log
        self._transport = transport
        self._disk = disk
        self._machine = machine
        self._runtime = runtime
        self._proposals = WaitingProposals()
        self._reads = WaitingReads()
        self._received = ReceivedRange(raft, log)
        self._forks = Forks(raft, log)
        self.clock = ClusterClock(raft.node, runtime.now_ms, runtime.steady_ms)
        # When this replica wrote, held, committed and applied its last entries.
        self.times = EntryTimes(
            runtime.steady_ms,
            runtime.now_ms,
            last_index=log.last_index,
            commit=raft.commit,
            applied=resumed.index if resumed else 0,
            remembered=runtime.remembered_writes,
        )
        self._writer = LogWriter(raft, log, disk, times=self.times, now_ms=self.now_ms, on_persisted=self._settle)
        self._applier = Applier(
            raft,
            log,
            self.log_start,
            applied=resumed.index if resumed else 0,
            machine=machine,
            disk=disk,
            proposals=self._proposals,
        )
        self._installation = SnapshotInstallation(raft, log, self.log_start, machine, self._applier)
        self._bulk = BulkSender(log, self.log_start, transport)
        self._turn_scheduled = False
        # In this turn, entries were applied when an acknowledgement arrived.
        self._has_applied = False
        self._settling = False
        # Ticks until the driver tries to write again; 0: no attempt is planned.
        self._resume_in_ticks = 0
        self._stopped = False

    @property
    def applied(self) -> int:
        """Return the index of the last applied entry. The following is always true: log.first_index - 1 <= applied
        <= raft.commit <= log.last_index."""
        return self._applier.applied

    @property
    def cannot_apply(self) -> CannotApplyError | None:
        """Return why this replica applies no more entries, or None while it applies entries."""
        return self._applier.stopped

    @property
    def needs_restart(self) -> bool:
        """Return True if this node cannot write before it is restarted. A damaged log needs no restart, because scrub
        repair repairs it."""
        failure = self.failure
        return failure is not None and not failure.retriable and not isinstance(failure, LogDamagedError)

    @property
    def leads(self) -> bool:
        return self.raft.role is Role.LEADER

    @property
    def backlog(self) -> int:
        """Return the number of proposals that have no result yet."""
        return len(self._proposals)

    @property
    def clock_offsets_ms(self) -> dict[int, int]:
        """Return by how much the wall clock of each voter is ahead of the clocks of a majority, or behind them
        (negative), as far as this leader was told. Return an empty mapping if this node does not lead."""
        return self.clock.offsets_ms(self.raft.configuration.voters) if self.leads else {}

    def passed_ms(self) -> int | None:
        """Return the time, in ms since 1970, that the clocks of a majority of voters have passed. Return None if this
        node does not know it."""
        return self.clock.passed_ms(self.raft.configuration.voters)

    def now_ms(self) -> int:
        """Return the time by which this node dates new entries of the shard while it leads, in ms since 1970. The
        append time of an entry is never less than that of the entry before it."""
        return self.clock.now_ms(self.raft.configuration.voters)

    # -- events

    def start(self) -> None:
        """Begin. Start the replica. A shard with a single node elects that node during the first ticks."""
        self._announce_members()
        self._settle()

    def stop(self) -> None:
        """Stop this replica: accept no further input and write nothing more, so that the log can be closed.

        Waiting proposals and reads get no answer, so the caller of `stop` must first stop the requests that wait
        for the answers."""
        self._stopped = True

    def tick(self) -> None:
        """Handle one tick of Raft's clock."""
        self._notice_pause()
        if self._resume_in_ticks:
            self._resume_in_ticks -= 1
            if self._resume_in_ticks == 0:
                self._resume()
        self.clock.tick(self.raft.configuration.voters)
        self._write_proposals()  # a tick may begin a handover, and then the core refuses what `check_room` has accepted
        self.raft.tick()
        self._settle()

    def receive(self, message: RaftMessage) -> None:
        """Handle a vote request, a heartbeat or an answer from another node. Raises InvalidMessage."""
        self._notice_pause()
        if isinstance(message, AppendResponse) and self._forks.is_unproven(message):
            return
        self.raft.step(message)
        if isinstance(message, HeartbeatResponse | VoteResponse) and message.sender in self.raft.configuration.members:
            self.clock.heard(message.sender, message.wall_ms)  # before the no-op of a new leader is dated
        if isinstance(message, AppendResponse) and (progress := self.raft.progress.get(message.sender)) is not None:
            self.times.has_acknowledged(message.sender, progress.match)
        self._settle()
        if isinstance(message, AppendResponse) and self.leads and not self._has_applied:
            # Now, because producers wait for it. The rest of the turn's answers can wait for the end of the turn.
            self._has_applied = True
            self._apply_committed()

    def receive_append(self, append: Append, entries: Readable) -> None:
        """Handle a byte range of the leader's log. `append` has the indexes of the range, without terms.

        Raises InvalidMessage, CorruptRangeError if the bytes are damaged, and ForkedError if they do not continue this
        log's chain. After an error the caller breaks the stream, and the leader sends the range again. If the
        range forks at the same index again, the leader's log and this log really differ: this node diverges from the
        leader, and tells the leader. If this log cannot be read now, the range is dropped, and the leader sends the
        range again later."""
        self._notice_pause()
        if entries and self.failure is not None and not self._received.continues_log(append):
            return  # this node cannot write the range, and a rejection would make the leader send it again at once
        try:
            append = self._received.take(append, entries)
        except ForkedError as fork:
            if not self._forks.is_proven(fork):
                raise
            self._fork(append, append.prev_index)
            return
        except CorruptRangeError:
            raise
        except RangeDamagedError:
            return  # scrub repair is repairing the entry before the range, and the leader sends the range again
        except StoreError as failure:
            self.fail(failure)
            return
        if forked_at := self._forks.within(self._received.headers):
            self._fork(append, forked_at)
            return
        try:
            self.raft.step(append)
        except InvalidMessage:
            self._received.forget()
            raise
        self._settle()
        self._received.forget()

    def _fork(self, append: Append, index: int) -> None:
        """Diverge from the leader, whose log has other bytes up to `index`."""
        self._received.forget()
        self.raft.forked(append, index, self._forks.chain(self.raft.provable_fork(index)))
        self._settle()

    def receive_snapshot(self, chunk: SnapshotChunk, piece: SnapshotPiece) -> None:
        """Handle a piece of the snapshot at the leader's log start. Raises InvalidMessage."""
        self._notice_pause()
        self._installation.check_piece(chunk, piece)
        self._installation.piece = piece
        try:
            if self._forks.contradicts(chunk.index, piece.offer.term):
                self.raft.contradicted(chunk, piece.offer.term)
            else:
                self.raft.step(chunk)
            self._settle()
        finally:
            self._installation.piece = None
        if (refused := self._installation.take_refusal()) is not None:
            raise refused

    def unreachable(self, peer: int) -> None:
        """Handle a broken stream to a follower: messages in flight on the stream may be lost."""
        self.raft.unreachable(peer)
        self._settle()

    # -- requests

    def check_room(self, size: int) -> None:
        """Check that an entry with a body of `size` bytes can be proposed now.

        Raise Refusal if the entry cannot be proposed now, or StoreError if this node cannot write."""
        self._check_leads()
        if divergences := self.raft.divergences:
            raise Diverged([*divergences.values()])
        self._check_load(size)

    def _check_leads(self) -> None:
        self._notice_pause()
        if self._stopped:
            raise NotLeader(0)
        if self.failure is not None:
            raise self.failure
        if not self.leads:
            raise NotLeader(self.raft.leader)

    def _check_load(self, size: int) -> None:
        if self.raft.transferring_to:
            raise Transferring(self.raft.transferring_to)
        if reason := self._runtime.stalled():
            raise Stalled(reason)
        uncommitted = self._proposals.queued_bytes + self.raft.uncommitted_bytes
        if uncommitted and uncommitted + size > self.raft.settings.max_uncommitted_bytes:
            raise Busy(uncommitted)
        if self.backlog >= MAX_PROPOSALS:
            raise Crowded("proposals", self.backlog)

    def propose(self, proposal: Proposal) -> None:
        """Queue an entry for the group write at the end of the turn. Call `check_room` in the same turn before
        `propose`."""
        self._proposals.add(proposal)
        self._schedule_turn()

    def change(self, proposal: Proposal, configuration: Configuration) -> None:
        """Append a configuration entry, which takes effect at once. `proposal` gets its result like any other
        proposal. A change is possible also while this node diverges from other nodes, so that an operator can remove
        them.

        Raise Refusal if the change is refused, or StoreError if the disk fails. If the call raises, the entry was
        certainly not appended."""
        self._check_leads()
        self._check_load(len(proposal.draft.body))
        self._write_proposals()  # proposals that were queued earlier get smaller indexes
        self.raft.change(configuration, len(proposal.draft.body))
        try:
            (header,) = self._writer.append([proposal.draft])
        except StoreError as failure:
            self.fail(failure)
            raise
        self._proposals.appended(proposal, header)
        self._settle()

    def transfer(self, to: int) -> None:
        """Hand leadership over to the voter `to`. Raises Refusal.

        If the handover does not succeed within an election timeout, this node stays the leader."""
        self._notice_pause()
        self._write_proposals()  # a handover refuses what `check_room` has accepted
        self.raft.transfer(to)
        self._settle()

    def accept_loss(self) -> None:
        """Accept the loss of entries on this node, as an operator decided. After this call, the node is no longer a
        suspect."""
        self.raft.accept_loss()
        self._settle()

    def read_index(self, answer: Callable[[bool], None]) -> None:
        """Begin a linearizable read. Raise NotLeader if this node does not lead, or Crowded if too many reads wait.

        The driver calls answer(True) when two conditions hold: this node still leads, and it has applied every
        entry that was committed at the time of this call. If this node stops leading before the read is answered,
        the driver calls answer(False)."""
        self._notice_pause()
        if self._stopped:
            raise NotLeader(0)
        token = self._reads.next_token()
        self.raft.read(token)
        self._reads.begin(token, answer)
        self._settle()

    def configuration(self) -> bytes:
        """Return the body of the newest configuration entry in the log or in its snapshot. Return empty bytes if
        there is no configuration entry."""
        index = self.raft.configuration_index
        if self.log_start and index <= self.applied:
            return self.log_start.configuration  # not read from the log, which may be damaged there
        if index >= self._log.first_index:
            return bytes(self._log.entry(index)[1])
        snapshot = self.log_start.snapshot if self.log_start else None
        return snapshot.configuration if snapshot else b""

    # -- failures of the disk

    def fail(self, failure: StoreError) -> None:
        """Handle a write that the disk refused. The failed write was made in this thread or on a helper thread. A
        later failure does not replace a failure that needs a restart."""
        if not self.needs_restart:
            self.failure = failure
            self._resume_in_ticks = TRY_AGAIN_TICKS if failure.retriable else 0
        self.raft.write_failed(self._log.last_index)
        self._machine.failed(failure)
        self._settle()

    def try_writing(self) -> None:
        """Try to write again now, because the disk that was full has room. After any other failure, do nothing."""
        if self._resume_in_ticks:
            self._resume_in_ticks = 0
            self._resume()
            self._settle()

    def repaired(self, failure: StoreError) -> None:
        """Resume writing after the cause of `failure` is repaired, unless this node has failed for another reason
        since."""
        if self.failure is failure:
            self._resume()
            self._settle()

    def _resume(self) -> None:
        self.failure = None
        self.raft.resume_writing()

    # -- the order of duties

    def _notice_pause(self) -> None:
        if self._runtime.was_held_up():
            self.raft.held_up()

    def _settle(self) -> None:
        """Do all duties of the driver in order. Each Ready is carried out completely before the core gets further
        input."""
        if self._settling:
            return  # called while a duty is carried out: the loop further up the stack continues with the next duty
        self._settling = True
        try:
            while self._next_duty():
                pass
        finally:
            self._settling = False
        self.times.commits(self.raft.commit)
        if self.leads or self._applier.has_work:
            self._schedule_turn()

    def _next_duty(self) -> bool:
        """Do the first duty that is due. Return True if a duty was due."""
        try:
            if (ready := self.raft.ready()) is None:
                return self._writer.report_persisted()
            self._carry_out(ready)
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
            self._writer.write(ready.write, self._received)
        if ready.no_op is not None:
            self._writer.append([EntryDraft(EntryKind.NO_OP, b"")])
        if ready.configuration:
            self._announce_members()
        if ready.chunk is not None:
            self._installation.take(ready.chunk)
            self._note_installed()
        if ready.trusted:
            self._disk.trusted()
        if ready.diverged:
            self._machine.diverged(self.raft.divergences)
        for peer in ready.reopen:
            self._machine.unacknowledged(peer)
            self._transport.reopen(peer)
        for message in ready.messages:
            self._transport.send(self._with_clock(message))
        for token, index in ready.reads:
            self._reads.confirm(token, index)
        self._reads.answer(self.applied)

    def _with_clock(self, message: RaftMessage) -> RaftMessage:
        """Return the message with this node's wall clock, if it has a field for it."""
        if isinstance(message, HeartbeatResponse | VoteResponse):
            return replace(message, wall_ms=self.clock.wall_ms())
        return message

    def _vote_saved(self, token: int) -> None:
        self.raft.vote_saved(token)
        self._settle()

    def _announce_members(self) -> None:
        """Tell the transport which nodes are members now."""
        if body := self.configuration():
            self._transport.configured(decode_configuration(body), self.raft.progress)

    def _note_installed(self) -> None:
        """Forget the times of the entries, if a snapshot that ends behind them has replaced the log."""
        if self._log.first_index - 1 > self.times.written.last:
            self.times.installed(self._log.first_index - 1)

    def _role_changed(self, change: RoleChange) -> None:
        self.times.role_changed()
        if not self.leads:
            self._give_up_waiting()
        self._machine.role_changed(change)

    def _give_up_waiting(self) -> None:
        """Give up all waiting proposals and reads, because this node does not lead. Settle the proposals as not
        committed, and answer the reads with False."""
        proposals, answers = self._proposals.give_up(), self._reads.give_up()
        self.given_up += len(proposals)
        for proposal in proposals:
            proposal.settled(committed=False)
        for answer in answers:
            answer(False)

    # -- the end of a turn

    def _schedule_turn(self) -> None:
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._runtime.soon(self._end_turn)

    def _end_turn(self) -> None:
        if self._stopped:
            return
        self._write_proposals()  # the results of this write are applied and sent in the same turn
        self._turn_scheduled = self._has_applied = False
        if self._proposals.has_queued:
            self._schedule_turn()
        self._apply_committed()
        try:
            if messages := self.raft.appends():
                self._bulk.send(messages)
        except StoreError as failure:  # this node cannot read what a follower lacks, so another node must lead
            self.fail(failure)

    def _apply_committed(self) -> None:
        """Apply committed entries up to the limits of one turn, unless the disk fails."""
        if self.failure is None:
            try:
                self._apply()
            except StoreError as failure:  # when the disk works again, applying continues with the failed entry
                self.fail(failure)

    def _apply(self) -> None:
        try:
            self._applier.apply()
        except CannotApplyError as reason:
            self.raft.stop_applying()
            self._machine.stopped_applying(reason)
            self._settle()
        self.times.applies(self.applied)
        self._reads.answer(self.applied)
        if self._applier.has_work:
            self._schedule_turn()

    def _write_proposals(self) -> None:
        """Append all queued proposals in one group write."""
        group = self._proposals.take_queued()
        if not group:
            return
        try:
            self.raft.propose([len(proposal.draft.body) for proposal in group])
            headers = self._writer.append([proposal.draft for proposal in group])
        except (Refusal, StoreError) as error:
            if isinstance(error, StoreError):
                self.fail(error)  # before the proposals are settled, so that their callers see `failure`
            else:
                # `check_room` has accepted these entries, so the state machine counts on them for the entries that it
                # proposes next. A new leadership does not.
                self.raft.step_down()
                self._settle()
            self.given_up += len(group)
            for proposal in group:
                proposal.settled(committed=False)
            return
        for proposal, header in zip(group, headers, strict=True):
            self._proposals.appended(proposal, header)
        self._settle()
