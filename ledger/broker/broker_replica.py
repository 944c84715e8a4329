"""`BrokerReplica` gives the broker access to one replica of a shard. The object has the applied state and, while the
node leads, the proposals that wait for their results.

The state and the indexes change only when committed entries are applied, in the order of the log. A leader checks
proposals against the *projected* state, which also contains entries that are not committed yet. The projected state
exists only while this node leads and has applied its own no-op entry. The projected state is dropped when leadership
ends, so nothing has to be rolled back.

`BrokerReplica` implements `raft.driver.Machine`. The streams of clients are handled by the gRPC services and not by
`BrokerReplica`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ledger.batch import BatchHeader, HalfColumn, fired_column, half_column, message_ids, timed_column
from ledger.broker.applied_state import AppliedResult, AppliedState
from ledger.broker.feature_level import FeatureLevel
from ledger.broker.fetch.fetch_waiters import FetchWaiters
from ledger.broker.members.membership import Membership
from ledger.broker.meter import Meter
from ledger.broker.node_events import NodeEvents
from ledger.broker.produce.column_levels import needed_level, places_above
from ledger.broker.produce.produce_decisions import (
    AppendBatch,
    AwaitFirst,
    Obstacle,
    ProduceDecisions,
    Refuse,
    RepeatResult,
    Unavailable,
    not_ready,
)
from ledger.broker.produce.proposals import BatchProposal, CommandProposal, Committed, end, new_future, repeat_of
from ledger.broker.produce.timed_limits import DEFAULT_ROOM, TimedLimits, TimedRoom
from ledger.broker.produce.type_admission import target_topic, without_key
from ledger.broker.replica_news import ReplicaNews, divergence_of
from ledger.broker.retention.log_holds import LogHolds
from ledger.broker.shared.lease_clock import LeaseClock
from ledger.broker.timed.applied_timed import AppliedTimed
from ledger.errors import (
    BusyError,
    ChangeInProgressError,
    DiskFullError,
    DivergedError,
    InvalidArgumentError,
    LedgerError,
    NoLeaderError,
    NotLeaderError,
    RepeatedMessagesError,
    StorageFailedError,
    UnsupportedBatchError,
)
from ledger.state import DeletedTopic, Projected, State
from ledger.state.command_checks import check_command
from ledger.state.command_encoding import encode_command
from ledger.state.commands import CancelTimed, Command, DeleteTopic
from ledger.state.shard_table import ShardTable
from ledger.state.transaction_table import HERE
from ledger.topics import TopicType
from raft.configuration_entry import InvalidConfigurationError, ShardConfiguration, decode_configuration
from raft.core import (
    Busy,
    ChangeInProgress,
    Crowded,
    Diverged,
    Divergences,
    Refusal,
    RoleChange,
    Stalled,
    Transferring,
)
from raft.driver import Driver
from raft.errors import CannotApplyError
from store import (
    Checkpoint,
    CommitLog,
    ConsumeQueues,
    EntryDraft,
    EntryKind,
    Header,
    KeyIndex,
    NoSpaceError,
    Snapshot,
    StoreError,
    Suspect,
)
from store.log.entry import HEADER_SIZE


class BrokerReplica:
    """Applies the log of one shard on this node, answers reads, and proposes new entries while this node leads.
    Before any other method, call `attach` with the replica's Raft driver."""

    driver: Driver

    def __init__(
        self,
        *,
        shard: int,
        applied: AppliedState,
        membership: Membership,
        max_message_bytes: int,
        max_entry_bytes: int,
        meter: Meter,
        doubt: Callable[[], Suspect | None] = lambda: None,
        monotonic_s: Callable[[], float] = time.monotonic,
        timed_limits: TimedLimits | None = None,
        events: NodeEvents | None = None,
        preference_ms: int = 0,
    ) -> None:
        """`max_entry_bytes` is the size of the largest entry that followers can receive, header included. `doubt()`
        returns the suspect mark on this node's disk, or None if this node is no suspect. `monotonic_s` is
        a clock in seconds. `timed_limits` are the limits of messages with delivery times; None: the defaults. `events`
        takes what happens to this replica; None: nobody looks at it. `preference_ms` is how long another leader leads
        at least before it hands leadership to the preferred leader; 0: this is not known."""
        self.shard = shard
        self.max_message_bytes = max_message_bytes
        self.max_entry_bytes = max_entry_bytes
        self.membership = membership
        self.preference_ms = preference_ms
        self.log_holds = LogHolds(self)
        self.feature_level = FeatureLevel(self)
        self.leader_changes = 0
        # How often this node was elected by the votes of all voters, including suspects.
        self.losses_accepted = 0
        self._applied = applied
        self._doubt = doubt
        self._monotonic_s = monotonic_s
        self._timed_limits = timed_limits or TimedLimits()
        # The bytes of messages with delivery times in proposals that are not settled.
        self._timed_bytes_under_way = 0
        # The size of the log's disk in bytes; 0 if it is not known.
        self.disk_bytes = 0
        self._meter = meter
        self._news = ReplicaNews(shard, events or NodeEvents(), monotonic_s)
        # Called after a command is applied, after a snapshot is restored, and when this node becomes ready to lead.
        self.on_change: Callable[[], None] = lambda: None
        # Called when this node begins or ends to lead.
        self.on_role_change: Callable[[], None] = lambda: None
        # Called when this node begins or stops to lead.
        self.on_transaction_news: Callable[[], None] = lambda: None
        # Not None exactly while this node leads and has applied its no-op.
        self._projected: Projected | None = None
        # By id of a BatchRecord of `_projected`: the future that repeats of the batch wait for.
        self._pending_batches: dict[int, asyncio.Future[Committed]] = {}
        # By index: results of commands of this leader, until their proposals take them.
        self._command_results: dict[int, AppliedResult] = {}
        # How often this leader opened the stream to a follower again, because the follower only answered heartbeats.
        self.streams_reopened = 0
        self._lease_clock = LeaseClock(monotonic_s)
        # Returns the type of a topic. The node sets it to ask its replica of shard 0, which alone knows the types.
        self.type_of_topic: Callable[[int], TopicType] = lambda _: TopicType.MIXED
        # Returns this node's replica of shard 0, or None before it has started. The node sets it.
        self.find_first: Callable[[], BrokerReplica | None] = lambda: None
        # Why this node refuses new data: its disk has no room. Empty if it accepts data.
        self.no_room = ""
        # Why this start built state and indexes anew from the log, although there was a checkpoint; else empty.
        self.rebuilt = ""

    def attach(self, driver: Driver) -> None:
        self.driver = driver

    @property
    def shards(self) -> ShardTable:
        """The shards of the cluster, as far as this node's replica of shard 0 knows them."""
        return (self.find_first() or self).state.shards

    @property
    def node(self) -> int:
        """The number of this node."""
        return self.membership.node

    @property
    def log(self) -> CommitLog:
        return self._applied.log

    @property
    def queues(self) -> ConsumeQueues:
        return self._applied.queues

    @property
    def keys(self) -> KeyIndex:
        return self._applied.keys

    @property
    def fetch_waiters(self) -> FetchWaiters:
        """The requests of this node that wait for new messages."""
        return self._applied.fetch_waiters

    @property
    def timed(self) -> AppliedTimed:
        """The messages that wait for their delivery times."""
        return self._applied.timed

    @property
    def state(self) -> State:
        """The state after the last applied entry. When a snapshot is received, a new `State` object replaces this
        object."""
        return self._applied.state

    @property
    def pinned_leader(self) -> int:
        """The voter that an operator has pinned as the leader of this shard, or 0. The pin of a voter that was removed
        has no effect."""
        return self._pin(balances=False)

    @property
    def balanced_leader(self) -> int:
        """The voter that the cluster prefers as the leader of this shard, so that the nodes lead equally many, or
        0."""
        return self._pin(balances=True)

    def _pin(self, *, balances: bool) -> int:
        pin, configuration = self.state.pinned_leader, self.membership.configuration
        if pin is None or pin.balances is not balances or configuration is None:
            return 0
        return pin.among(configuration.voters)

    # -- the state machine: called by the driver

    def apply(self, header: Header, body: memoryview) -> None:
        """Apply a committed entry. Raises CannotApplyError, and StoreError if an index cannot be written."""
        self._news.writes_work()
        try:
            self._apply(header, body)
        except (LedgerError, InvalidConfigurationError) as reason:
            raise CannotApplyError(header.index, str(reason)) from reason
        except StoreError:
            raise
        except Exception as bug:
            # Every node has this entry, and applies it again at each start. So the error must not end the node.
            self._news.failed_at(header.index)
            raise CannotApplyError(
                header.index, f"this program failed at it ({type(bug).__name__}): install a version without the fault"
            ) from bug

    def _apply(self, header: Header, body: memoryview) -> None:
        match header.kind:
            case EntryKind.BATCH:
                self._applied.apply_batch(header, body)
            case EntryKind.COMMAND:
                result = self._applied.apply_command(header, body)
                if self._projected is not None:
                    self._command_results[header.index] = result
                self.on_change()
            case EntryKind.CONFIGURATION:
                configuration = decode_configuration(bytes(body))
                self.membership.applied(header.index, configuration)
                self._news.members_changed(configuration)
                return
            case _:
                return  # no-ops concern only Raft
        if self._projected is not None:
            self._projected.settle(header.index)

    def encoded_state(self) -> bytes:
        return self.state.encode()

    def resume(self, checkpoint: Checkpoint) -> None:
        """Load the state and the configuration from a checkpoint that an earlier run of this node wrote."""
        snapshot = checkpoint.snapshot
        self._applied.resume(snapshot)
        if snapshot.configuration:
            configuration = decode_configuration(snapshot.configuration)
            self.membership.resume(checkpoint.configuration_index, configuration, removed=checkpoint.removed)

    def flaw_of(self, snapshot: Snapshot) -> str:
        """Return why this program cannot read the state of a received snapshot, or "" if it can."""
        try:
            self._applied.decoded(snapshot)
        except LedgerError as error:
            return str(error)
        return ""

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the state and the configuration by those of a received snapshot."""
        state = self._applied.decoded(snapshot)
        if snapshot.configuration:
            self.membership.applied(snapshot.index, decode_configuration(snapshot.configuration))
        self._applied.restore(state, snapshot.end)
        self.on_change()

    def log_starts(self, snapshot: Snapshot) -> None:
        """Remove the entries before a new log start from the key index and from the ConsumeQueues."""
        self._applied.log_starts(snapshot)
        self._news.log_starts(snapshot.index)

    def role_changed(self, change: RoleChange) -> None:
        self._news.role_changed(change, self._doubt() if change.accepts_loss else None)
        if change.leader:
            self.leader_changes += 1
        if change.accepts_loss:
            self.losses_accepted += 1
        if change.was_unacknowledged and self._projected is not None:
            self._news.stepped_down_unacknowledged()
        if not self.driver.leads:
            self._projected = None
            self._command_results.clear()
            self.timed.on_news()
            self.on_transaction_news()
            self.on_role_change()

    def leading(self, term: int) -> None:
        self._projected = Projected(self.state)
        self._lease_clock.begin(self.state.shared.leases.time_ms)
        self.on_change()
        self.timed.on_news()
        self.on_transaction_news()
        self.on_role_change()

    def failed(self, failure: StoreError) -> None:
        self._news.writes_failed(failure)
        if isinstance(failure, NoSpaceError):
            self.room_changed(self.disk_full(failure))

    def diverged(self, divergences: Divergences) -> None:
        self._news.diverged(self.divergence if divergences else "", self.driver.raft.term)

    @property
    def divergence(self) -> str:
        """Return how the logs of other members contradict this log and what to do, or "" if none does."""
        divergences = self.driver.raft.divergences
        return divergence_of(self.shard, divergences) if divergences else ""

    def unacknowledged(self, peer: int) -> None:
        self.streams_reopened += 1
        self._news.unacknowledged(peer)

    @property
    def unacknowledged_by(self) -> list[int]:
        """Return the followers that keep this leader from committing, because they answer heartbeats and acknowledge no
        entries. Return an empty list if this leader commits, or if this node does not lead."""
        raft = self.driver.raft
        if not raft.is_unacknowledged:
            return []
        return [node for node, progress in sorted(raft.progress.items()) if progress.answers.are_missing]

    def stopped_applying(self, reason: CannotApplyError) -> None:
        self._news.stopped_applying(reason)

    def room_changed(self, no_room: str, *, elsewhere: str = "") -> None:
        """Refuse or accept new data from now on. `no_room` says why the disk has no room, and is "" if it has room.
        Without room, this node hands leadership to a voter that has room. `elsewhere` says why no majority stores new
        entries although this node has room."""
        if (no_room or elsewhere) != self.no_room:
            self._news.room_changed(no_room or elsewhere)
        self.no_room = no_room or elsewhere
        self.driver.raft.room_changed(not no_room)

    def disk_full(self, failure: NoSpaceError) -> str:
        """Return the sentence which says that a write failed because the disk of this node is full."""
        return f"the disk of node {self.node} is full: {failure}"

    # -- proposals: called by the services

    def produce(self, batch: bytes) -> asyncio.Future[Committed]:
        """Append a producer's batch. If the batch repeats an earlier batch, append nothing and return the result of
        the earlier batch. The returned future ends in LedgerError if this node stops leading before the commit. If
        this node stops leading, the batch can still be committed later; the producer learns the result when it
        sends the batch again. Raises LedgerError if the batch is refused."""
        header = ProduceDecisions.read(batch, self.max_message_bytes)
        if isinstance(header, Refuse):
            raise self._refused(header.error())
        obstacle = self._obstacle(len(batch))  # first: it may find that this node no longer leads
        projected = self._projected
        timed = timed_column(batch, header)
        half = half_column(batch, header)
        target = target_topic(header.topic_id, timed, half)
        topic_type = self.type_of_topic(target)
        ids = message_ids(batch, header)
        now_ms = 0 if timed is None and ids is None else self.driver.now_ms()
        room = DEFAULT_ROOM if timed is None and half is None else self._timed_room()
        decision = ProduceDecisions.decide(
            header,
            self.state,
            projected,
            self._pending_batches,
            obstacle,
            self.no_room,
            timed,
            now_ms,
            room,
            header.columns,
            self.feature_level.may_reach(needed_level(header.columns)),
            half,
            topic_type,
            without_key(batch, header) if topic_type is TopicType.FIFO else (),
            ids,
            self.shards,
        )
        match decision:
            case AppendBatch():
                assert projected is not None, "only a leader that is ready appends"
                named = None if ids is None else (target, ids)
                appended = self._append_batch(projected, header, batch, half=half, named=named)
                if timed is not None:
                    self._count_under_way(appended, max(header.plain_size, len(batch)))
                return appended
            case RepeatResult() | AwaitFirst():
                return self._repeated(decision)
            case Refuse(kind):
                if kind is UnsupportedBatchError:
                    places = places_above(batch, header, self.state.feature_level)
                    decision = replace(decision, places=tuple(places))
                if kind is RepeatedMessagesError or decision.places:
                    return self._refused_surely(decision)
                raise self._refused_at_once(decision.error())
            case Unavailable(obstacle):
                raise self._refused_at_once(self.refusal(obstacle)) from obstacle

    def _refused_surely(self, decision: Refuse) -> asyncio.Future[Committed]:
        """Return a future that ends in the refusal when this node has confirmed that it leads. So its sender knows that
        the batch is in no log, also if an earlier attempt left doubt. Raises LedgerError if this node cannot ask."""
        answer = new_future()

        def settle(confirmed: bool) -> None:
            if not answer.done():
                end(answer, self._refused(decision.error()) if confirmed else self.not_leading())

        try:
            self.driver.read_index(settle)
        except Refusal as refusal:
            raise self._refused_at_once(self.refusal(refusal)) from refusal
        return answer

    def _timed_room(self) -> TimedRoom:
        waiting_bytes = self.timed.index.total.bytes + self._timed_bytes_under_way
        return self._timed_limits.room(self.disk_bytes, waiting_bytes)

    def _count_under_way(self, appended: asyncio.Future[Committed], size: int) -> None:
        """Count the bytes of a batch of messages with delivery times until the index counts them."""

        def settled(_: asyncio.Future[Committed]) -> None:
            self._timed_bytes_under_way -= size

        self._timed_bytes_under_way += size
        appended.add_done_callback(settled)

    def _refused(self, error: LedgerError) -> LedgerError:
        """Count a refused batch in the metrics, and return the error for its producer."""
        self._meter.refused(error.code)
        return error

    def _refused_at_once(self, error: LedgerError) -> LedgerError:
        """Count a batch that is refused before it is appended, and return the error for its producer. If the producer
        may try again, the error says `not_appended`: the same error also comes from a leader that appended the batch
        and then lost leadership."""
        error.not_appended = error.retriable
        return self._refused(error)

    def append(self, batch: bytes) -> asyncio.Future[Committed]:
        """Append a batch that the broker itself has made, such as the copy of a moved message. The broker never
        appends the same batch a second time. Raises LedgerError if the batch was not appended."""
        return self._append_batch(self.leading_state(len(batch)), BatchHeader.parse(batch), batch)

    def deliver(self, batch: bytes, identities: Sequence[int]) -> asyncio.Future[Committed]:
        """Append a firing batch, which delivers the waiting messages `identities` to the batch's queue. Until it is
        applied, no other entry delivers or cancels these messages. Raises LedgerError if it was not appended."""
        delivered = self._append_batch(self.leading_state(len(batch)), BatchHeader.parse(batch), batch, identities)
        fired = fired_column(batch)
        assert fired is not None, "the batch delivers messages"
        delivered.add_done_callback(partial(self._count_delivered, len(identities), int(fired.times_ms.min())))
        return delivered

    def _count_delivered(self, messages: int, first_ms: int, delivered: asyncio.Future[Committed]) -> None:
        if not delivered.cancelled() and delivered.exception() is None:
            self._meter.delivered(messages, (delivered.result().append_time_ms - first_ms) / 1000)

    def copy(self, batch: bytes) -> asyncio.Future[Committed]:
        """Append a copying batch, also if the disk is nearly full, because copies let the log start move. Raises
        LedgerError if it was not appended."""
        return self._append_batch(self.check_leads(len(batch)), BatchHeader.parse(batch), batch)

    def cancel(self, command: CancelTimed) -> asyncio.Future[tuple[bool, ...]]:
        """Propose to cancel waiting messages. Until the entry is applied, no other entry delivers them. The result says
        for each message whether it was cancelled now: a message that an earlier entry delivers or cancels is not.
        Raises LedgerError if this node does not lead."""
        identities = [item.identity for item in command.items]
        future = self._propose_admitted(command, lambda projected, entry: projected.timed.admit(entry, identities))
        future.add_done_callback(self._count_cancelled)
        return future

    def _count_cancelled(self, cancelled: asyncio.Future[tuple[bool, ...]]) -> None:
        if not cancelled.cancelled() and cancelled.exception() is None:
            self._meter.cancelled(sum(cancelled.result()))

    def settle_half(self, batch: bytes, number: int) -> asyncio.Future[Committed]:
        """Append a decided batch, which settles the half batch `number`. Until it is applied, no other entry settles
        the half batch or ends its transaction. Raises LedgerError if it was not appended."""
        projected = self.leading_state(len(batch))
        return self._append_batch(projected, BatchHeader.parse(batch), batch, settles=number)

    def end_halves(self, command: Command, numbers: Sequence[int]) -> asyncio.Future[Any]:
        """Propose a command that settles the half batches `numbers`, or ends their transactions, also if the disk is
        nearly full. Until it is applied, no other entry does so. Raises LedgerError if this node does not lead."""
        return self._propose_admitted(command, lambda projected, entry: projected.transactions.admit(entry, numbers))

    def delete_topic(self, command: DeleteTopic) -> asyncio.Future[DeletedTopic | None]:
        """Propose to remove a topic from this shard, also if the disk is nearly full. Until the entry is applied, no
        batch of the topic is appended. Raises LedgerError if the topic cannot be deleted, or if this node does not
        lead."""
        return self._propose_admitted(
            command, lambda projected, entry: projected.admit_deletion(command.topic_id, entry)
        )

    def next_offset(self, topic_id: int, queue: int) -> int:
        """Return the offset that the next message of the queue will get. Raises LedgerError if this node does not
        lead."""
        return self.check_leads(0).next_offset(topic_id, queue)

    def _append_batch(
        self,
        projected: Projected,
        header: BatchHeader,
        batch: bytes,
        delivers: Sequence[int] = (),
        *,
        half: HalfColumn | None = None,
        settles: int | None = None,
        named: tuple[int, Sequence[bytes]] | None = None,
    ) -> asyncio.Future[Committed]:
        """Append a batch that was decided on. `named` has the topic that consumers read, and the message ids. Raises
        InvalidArgumentError if it is too large for an entry."""
        self._check_fits(batch)
        record = projected.admit_batch(
            topic_id=header.topic_id,
            queue=header.queue,
            producer_id=header.producer_id,
            epoch=header.epoch,
            first_sequence=header.first_sequence,
            count=header.count,
        )
        if delivers:
            projected.timed.admit(record, delivers)
        if half is not None:
            shard = HERE if half.shard == self.shard else half.shard
            joins = None if half.transaction is None else (shard, half.transaction)
            projected.transactions.prepare(record, half.topic_id, len(batch), joins)
        if settles is not None:
            projected.transactions.admit(record, (settles,))
        if named is not None:
            projected.message_ids.admit(record, *named)
        draft = EntryDraft(
            EntryKind.BATCH,
            batch,
            topic_id=header.topic_id,
            queue=header.queue,
            base_offset=record.base_offset,
            count=header.count,
        )
        proposal = BatchProposal(draft, record, projected, self._batch_settled, self._monotonic_s())
        self._pending_batches[id(record)] = proposal.future
        self.driver.propose(proposal)
        return proposal.future

    def _repeated(self, repeat: RepeatResult | AwaitFirst) -> asyncio.Future[Committed]:
        """Return a future with the result of an earlier batch that was sent again. The future ends when the earlier
        batch is committed."""
        self._meter.repeated()
        record = repeat.record
        if isinstance(repeat, AwaitFirst):
            return repeat_of(self._pending_batches[id(record)], record)
        answer = new_future()
        answer.set_result(Committed.of(record, duplicate=True))
        return answer

    def _batch_settled(self, proposal: BatchProposal, committed: bool) -> None:
        del self._pending_batches[id(proposal.record)]
        if not committed:
            end(proposal.future, self.not_leading())
            return
        end(proposal.future, Committed.of(proposal.record))
        draft, topic = proposal.draft, self.state.topics.get(proposal.draft.topic_id)
        assert topic is not None, "a batch was applied to a topic that does not exist"
        self._meter.produced(topic.name, draft.count, len(draft.body), self._monotonic_s() - proposal.since_s)

    def command(self, command: Command) -> asyncio.Future[Any]:
        """Propose a command. The returned future has the result of applying the command, or ends in the LedgerError
        that refused the command. Raises LedgerError if the command has an impossible value, or if this node does not
        lead, or accepts no data at the moment."""
        body = self._encoded(command)
        self.leading_state(len(body))
        return self._propose_body(body)

    def propose_checked(self, command: Command) -> asyncio.Future[Any]:
        """Propose a command, also if the disk is nearly full. Raises LedgerError if the command has an impossible
        value, or if this node does not lead."""
        body = self._encoded(command)
        self.check_leads(len(body))
        return self._propose_body(body)

    def propose_command(self, command: Command) -> asyncio.Future[Any]:
        """Propose a command. The caller must have called `check_leads` or `leading_state` earlier in the same turn
        of the event loop. Raises LedgerError if the command has an impossible value."""
        return self._propose_body(self._encoded(command))

    def _encoded(self, command: Command) -> bytes:
        """Return the body of the command's entry. Raises LedgerError if the shard cannot store the command."""
        check_command(command, self.shard)
        body = encode_command(command)
        self._check_fits(body)
        return body

    def fits(self, body: bytes) -> bool:
        """Return whether followers can receive an entry with this body."""
        return HEADER_SIZE + len(body) <= self.max_entry_bytes

    def _check_fits(self, body: bytes) -> None:
        """Raise InvalidArgumentError if followers cannot receive an entry with this body. Otherwise it would stay in
        the leader's log, and nothing behind it would be committed."""
        if not self.fits(body):
            raise InvalidArgumentError(
                f"An entry of {HEADER_SIZE + len(body):,} bytes is over the limit of {self.max_entry_bytes:,} bytes of "
                "this shard: put less into one request, or raise `max_message_bytes` on all nodes."
            )

    def _propose_admitted(
        self, command: Command, admit: Callable[[Projected, CommandProposal], object]
    ) -> asyncio.Future[Any]:
        """Propose a command, also if the disk is nearly full. `admit` notes the entry in the projected state, which
        knows it until it is applied. Raises LedgerError, also that of `admit`."""
        body = self._encoded(command)
        projected = self.check_leads(len(body))
        proposal = CommandProposal(EntryDraft(EntryKind.COMMAND, body), self._command_settled)
        admit(projected, proposal)
        self.driver.propose(proposal)
        return proposal.future

    def _propose_body(self, body: bytes) -> asyncio.Future[Any]:
        proposal = CommandProposal(EntryDraft(EntryKind.COMMAND, body), self._command_settled)
        self.driver.propose(proposal)
        return proposal.future

    def _command_settled(self, proposal: CommandProposal, committed: bool) -> None:
        result = self._command_results.pop(proposal.index) if committed else self.not_leading()
        end(proposal.future, result)

    def leading_state(self, size: int) -> Projected:
        """Return the projected state if an entry with a body of `size` bytes can be proposed now. Raises
        LedgerError like `check_leads`, and DiskFullError if the disk is nearly full."""
        projected = self.check_leads(size)
        if self.no_room:
            raise DiskFullError(self.no_room)
        return projected

    def check_leads(self, size: int) -> Projected:
        """Return the projected state. Raises LedgerError if this node does not lead, has not applied its no-op, or
        cannot propose a body of `size` bytes now. A nearly full disk raises no error, so that an operator can still
        free space."""
        if (obstacle := self._obstacle(size)) is not None:
            raise self.refusal(obstacle) from obstacle
        if self._projected is None:
            raise not_ready()
        return self._projected

    def _obstacle(self, size: int) -> Obstacle | None:
        """Return the error with which the driver would refuse a body of `size` bytes now, or None if it would
        accept the body."""
        try:
            self.driver.check_room(size)
        except (Refusal, StoreError) as obstacle:
            return obstacle.with_traceback(None)  # a traceback would make a cycle with its frames
        return None

    # -- reads

    @property
    def knows_the_end(self) -> bool:
        """True if this node leads and has applied its own no-op. A node for which this is True has applied every
        entry that earlier leaders acknowledged."""
        return self._projected is not None

    @property
    def leading_term(self) -> int:
        """The current term if this node leads and has applied its no-op, otherwise 0."""
        return self.driver.raft.term if self._projected is not None else 0

    @property
    def lease_time_ms(self) -> int:
        """The lease time: the present one if this node leads, and otherwise that of the last applied entry."""
        return self._lease_clock.now_ms() if self.knows_the_end else self.state.shared.leases.time_ms

    async def confirm_leadership(self) -> None:
        """Make a read index: return when this node has applied every entry that was committed at the time of the
        call. Raises LedgerError."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def settle(confirmed: bool) -> None:
            if not answer.done():
                answer.set_result(confirmed)

        try:
            self.driver.read_index(settle)
        except Refusal as refusal:
            raise self.refusal(refusal) from refusal
        if not await answer:
            raise self.not_leading()

    async def confirm_still_leading(self) -> None:
        """Call `confirm_leadership`, and raise LedgerError if this node no longer leads after it."""
        await self.confirm_leadership()
        if not self.driver.leads:
            raise self.not_leading()

    async def up_to_date(self, *, linearizable: bool) -> BrokerReplica:
        """Return this replica. With `linearizable`, call `confirm_leadership` first."""
        if linearizable:
            await self.confirm_leadership()
        return self

    # -- members

    def newest_configuration(self) -> ShardConfiguration | None:
        """Return the newest configuration in the log, even if it is not committed, or None if the log has no
        configuration."""
        body = self.driver.configuration()
        return decode_configuration(body) if body else None

    # -- refusals

    def refusal(self, trouble: Refusal | StoreError) -> LedgerError:
        """Return the error that a client receives after the Raft driver has refused its request."""
        match trouble:
            case Busy():
                return BusyError(
                    f"{trouble.uncommitted_bytes} bytes of this shard wait for a majority: try again shortly"
                )
            case Crowded():
                return BusyError(f"{trouble}: try again shortly")
            case Stalled():
                return BusyError(f"the disk of this node is too slow ({trouble}): try again shortly")
            case Diverged():
                self._news.refused_as_diverged(self.divergence)
                return DivergedError(self.divergence)
            case Transferring():
                why = f", because {self.no_room}" if self.no_room else ""
                return BusyError(f"leadership is being handed to node {trouble.to}{why}: try again shortly")
            case ChangeInProgress():
                return ChangeInProgressError("an earlier change of members is not committed yet: try again shortly")
            case _:
                return self.not_leading()

    def not_leading(self) -> LedgerError:
        """Return the error for a request that only a leader can serve. The error names the leader if this node
        knows the leader."""
        failure = self.driver.failure
        if isinstance(failure, NoSpaceError):
            return DiskFullError(self.disk_full(failure))
        if failure is not None:
            return StorageFailedError(f"the disk of node {self.node} failed: {failure}")
        leader = self.driver.raft.leader
        if leader == 0 or self.driver.leads:
            return NoLeaderError("no leader is known at the moment: try again shortly")
        address = self.membership.address(leader)
        return NotLeaderError(
            f"this node does not lead shard {self.shard}: ask node {leader} at "
            f"{address or 'an unknown address'}, the leader",
            leader=leader,
            leader_address=address or None,
        )
