"""A shard's replica as the broker uses it: replicated state, indexes, and the proposals under way while the node leads.

State and indexes change only when committed entries are applied, in order. A leader checks proposals against the
*projected* state, which also contains entries that are not committed yet. The projected state exists only while this
node leads and has applied its own no-op entry. It is dropped when leadership ends, so nothing has to be rolled back.

`BrokerReplica` implements `raft.driver.Machine`. It handles no client streams.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from ledger.batch import Batch, BatchHeader, key_hashes, tag_hashes
from ledger.broker.fetch.fetch_waiters import FetchWaiters
from ledger.broker.members.membership import Membership
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
from ledger.errors import (
    BusyError,
    ChangeInProgressError,
    DiskFullError,
    LedgerError,
    NoLeaderError,
    NotLeaderError,
    StorageFailedError,
)
from ledger.holds import validate_hold
from ledger.retries import consumer_group_of, place_before
from ledger.state import CommandResult, DeletedTopic, Hold, Projected, State, Topic
from ledger.v1 import command_pb2
from raft.configuration_entry import ShardConfiguration, decode_configuration
from raft.core import Busy, ChangeInProgress, Crowded, Refusal, RoleChange, Stalled, Transferring
from raft.driver import Driver
from store import (
    Checkpoint,
    CommitLog,
    ConsumeQueues,
    EntryDraft,
    EntryKind,
    Header,
    KeyIndex,
    Snapshot,
    StoreError,
    Suspect,
)
from store import DiskFullError as StoreFullError

log = logging.getLogger("ledgermq.broker.replica")


class Meter(Protocol):
    """Where a broker counts what happens."""

    def produced(self, topic: str, messages: int, size: int, seconds: float) -> None: ...
    def repeated(self) -> None: ...
    def refused(self, code: str) -> None: ...
    def fetched(self, topic: str, messages: int, size: int) -> None: ...
    def throttled(self, kind: str) -> None: ...


class BrokerReplica:
    """Implements `raft.driver.Machine`. `attach` its driver before anything else."""

    driver: Driver

    def __init__(
        self,
        *,
        shard: int,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        keys: KeyIndex,
        membership: Membership,
        max_message_bytes: int,
        meter: Meter,
        fetch_waiters: FetchWaiters | None = None,
        doubt: Callable[[], Suspect | None] = lambda: None,
    ) -> None:
        """`arrivals`: whom to wake, perhaps for several shards (ids of topics are the same in all). `doubt`: why this
        node may have lost what it acknowledged, as its disk remembers it."""
        self.shard = shard
        self.log = commit_log
        self.queues = queues
        self.keys = keys
        self.max_message_bytes = max_message_bytes
        self.state = State()
        self.membership = membership
        self.leader_changes = 0
        self.losses_accepted = 0
        """How often this node was elected by all voters, suspects among them."""
        self._doubt = doubt
        self._meter = meter
        self.fetch_waiters = fetch_waiters or FetchWaiters()
        self.on_change: Callable[[], None] = lambda: None
        """Called when a command was applied, the whole state is another, or this node leads."""
        self._projected: Projected | None = None
        """Not None exactly while this node leads and has applied its no-op."""
        self._pending_batches: dict[int, asyncio.Future[Committed]] = {}
        """By id of the BatchRecord that `_projected` holds: what repeats of it wait for."""
        self._command_results: dict[int, CommandResult] = {}
        """By index: results of commands of this leader, until their proposals take them."""
        self._holds_to_come = 0
        """Holds that were proposed here and are not applied yet."""
        self._told_failure = ""
        self.no_room = ""
        """Why this node takes nothing in though it could write still: its disk is nearly full. Empty: it does."""

    def attach(self, driver: Driver) -> None:
        self.driver = driver

    # -- the state machine: called by the driver

    def apply(self, header: Header, body: memoryview) -> None:
        if self._told_failure:
            log.info("shard %d: this node takes writes again", self.shard)
            self._told_failure = ""
        match header.kind:
            case EntryKind.BATCH:
                self._apply_batch(header, body)
            case EntryKind.COMMAND:
                result = self.state.apply_command(body, header.append_time_ms, index=header.index)
                if isinstance(result, DeletedTopic):
                    self._drop(result.topic)
                if self._projected is not None:
                    self._command_results[header.index] = result
                self.on_change()
            case EntryKind.CONFIGURATION:
                self.membership.applied(header.index, decode_configuration(bytes(body)))
                return
            case _:
                return  # no-ops are the shard's own affair
        if self._projected is not None:
            self._projected.settle(header.index)

    def _apply_batch(self, header: Header, body: memoryview) -> None:
        batch = BatchHeader.parse(body)
        if (hashes := key_hashes(body, batch)) is not None:  # first: it can be repeated where what follows fails
            self.keys.put(header.topic_id, header.position, header.size, header.append_time_ms, hashes)
        self.queues.get(header.topic_id, header.queue).put(
            header.base_offset, header.position, header.size, tag_hashes(body, batch), header.count
        )
        topic = self.state.topics.get(header.topic_id)
        if topic is not None and (consumer_group := consumer_group_of(topic.name)) is not None:
            self._apply_move(consumer_group, body)
        self.state.apply_batch(
            topic_id=header.topic_id,
            queue=header.queue,
            base_offset=header.base_offset,
            count=header.count,
            append_time_ms=header.append_time_ms,
            index=header.index,
            term=header.term,
            producer_id=batch.producer_id,
            epoch=batch.epoch,
            first_sequence=batch.first_sequence,
        )
        self.fetch_waiters.announce(header.topic_id, header.queue)

    def _apply_move(self, consumer_group: str, body: memoryview) -> None:
        """The message is here now, and not where it was."""
        place = place_before(Batch(bytes(body), check_crc=False).headers()[0])
        if place is not None:
            self.state.apply_move(consumer_group, *place)

    def _drop(self, topic: Topic) -> None:
        """Its queues are no more: whoever waits for more of them is to hear of that."""
        self.queues.drop(topic.topic_id)
        for queue in range(topic.queues):
            self.fetch_waiters.announce(topic.topic_id, queue)

    def encoded_state(self) -> bytes:
        return self.state.encode()

    def resume(self, checkpoint: Checkpoint) -> None:
        """Goes on where an earlier run of this node had come to, with its indexes."""
        snapshot = checkpoint.snapshot
        self.state = State.decode(snapshot.state)
        if snapshot.configuration:
            configuration = decode_configuration(snapshot.configuration)
            self.membership.resume(checkpoint.configuration_index, configuration, removed=checkpoint.removed)

    def restore(self, snapshot: Snapshot) -> None:
        self.state = State.decode(snapshot.state)
        if snapshot.configuration:
            self.membership.applied(snapshot.index, decode_configuration(snapshot.configuration))
        self.queues.wipe()
        self.keys.wipe()
        self._drop_before(snapshot.end, self.state)
        self.on_change()

    def log_starts(self, snapshot: Snapshot) -> None:
        """What was appended before is not here any more: no key finds it, and each queue begins with what was next
        there."""
        self._drop_before(snapshot.end, State.decode(snapshot.state))

    def _drop_before(self, position: int, state: State) -> None:
        """`state`: as it was there. What it has of topics that were deleted since is gone already."""
        self.keys.drop_before(position)
        for topic_id, queue, offset in state.ends():
            if self.state.topics.get(topic_id) is not None:
                self.queues.get(topic_id, queue).begin_at(offset)

    def role_changed(self, change: RoleChange) -> None:
        log.info("shard %d: %s in term %d, leader %s", self.shard, change.role.value, change.term, change.leader or "?")
        if change.leader:
            self.leader_changes += 1
        if change.accepts_loss:
            self.losses_accepted += 1
            log.error("shard %d: %s", self.shard, loss_accepted(change.term, self._doubt()))
        if not self.driver.leads:
            self._projected = None
            self._command_results.clear()

    def leading(self, term: int) -> None:
        self._projected = Projected(self.state)
        self.on_change()

    def failed(self, failure: StoreError) -> None:
        if str(failure) != self._told_failure:  # a full disk is tried again and again
            self._told_failure = str(failure)
            log.error("shard %d: no writes on this node: %s", self.shard, failure)

    # -- proposals: called by the services

    def produce(self, batch: bytes) -> asyncio.Future[Committed]:
        """Appends a batch, or finds it appended. The future ends in LedgerError if this node stops leading before the
        commit: the batch may still commit then, and a repeat finds out. Raises LedgerError if the batch was not
        appended by this call."""
        header = ProduceDecisions.read(batch, self.max_message_bytes)
        if isinstance(header, Refuse):
            raise self._refused(header.error())
        obstacle = self._obstacle(len(batch))  # first: it may find that this node leads no longer
        projected = self._projected
        decision = ProduceDecisions.decide(header, self.state, projected, self._pending_batches, obstacle, self.no_room)
        match decision:
            case AppendBatch():
                assert projected is not None, "only a leader that is ready appends"
                return self._append_batch(projected, header, batch)
            case RepeatResult() | AwaitFirst():
                return self._repeated(decision)
            case Refuse():
                raise self._refused(decision.error())
            case Unavailable(obstacle):
                raise self._refused(self.refusal(obstacle)) from obstacle

    def _refused(self, error: LedgerError) -> LedgerError:
        """Counts the refusal of a batch."""
        self._meter.refused(error.code)
        return error

    def append(self, batch: bytes) -> asyncio.Future[Committed]:
        """Appends a batch of the broker's own, of which there is no repeat. Raises LedgerError: surely not appended."""
        return self._append_batch(self.leading_state(len(batch)), BatchHeader.parse(batch), batch)

    def next_offset(self, topic_id: int, queue: int) -> int:
        """The offset that the next message appended to that queue gets. Raises LedgerError where this node does not
        lead."""
        return self.check_leads(0).next_offset(topic_id, queue)

    def _append_batch(self, projected: Projected, header: BatchHeader, batch: bytes) -> asyncio.Future[Committed]:
        record = projected.admit_batch(
            topic_id=header.topic_id,
            queue=header.queue,
            producer_id=header.producer_id,
            epoch=header.epoch,
            first_sequence=header.first_sequence,
            count=header.count,
        )
        draft = EntryDraft(
            EntryKind.BATCH,
            batch,
            topic_id=header.topic_id,
            queue=header.queue,
            base_offset=record.base_offset,
            count=header.count,
        )
        proposal = BatchProposal(draft, record, projected, self._batch_settled)
        self._pending_batches[id(record)] = proposal.future
        self.driver.propose(proposal)
        return proposal.future

    def _repeated(self, repeat: RepeatResult | AwaitFirst) -> asyncio.Future[Committed]:
        """The first result, once that is committed."""
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
        assert topic is not None, "a batch was applied to a topic that is not there"
        self._meter.produced(topic.name, draft.count, len(draft.body), time.perf_counter() - proposal.since)

    def command(self, command: command_pb2.Command) -> asyncio.Future[Any]:
        """Proposes it; the future has what applying it gives, or ends in the LedgerError that it gives. Raises
        LedgerError where this node does not lead, or can take nothing in just now."""
        self.leading_state(command.ByteSize())
        return self.propose_command(command)

    @property
    def is_held(self) -> bool:
        """Whether the log's start must stay where it is. On the leader this says so before the hold is committed, so
        that no move comes between."""
        return len(self.state.holds) > 0 or self._holds_to_come > 0

    def hold_log(self, name: str, ttl_ms: int) -> asyncio.Future[Hold]:
        """Proposes a hold, or that one lasts longer. Raises LedgerError."""
        validate_hold(name, ttl_ms)
        command = command_pb2.Command(hold_log=command_pb2.HoldLog(name=name, ttl_ms=ttl_ms))
        self.check_leads(command.ByteSize())
        self.state.holds.check_room(name)
        self._holds_to_come += 1
        future: asyncio.Future[Hold] = self.propose_command(command)
        future.add_done_callback(self._hold_has_come)
        return future

    def _hold_has_come(self, _: asyncio.Future[Hold]) -> None:
        self._holds_to_come -= 1

    def release_log(self, name: str) -> asyncio.Future[bool]:
        """Proposes it; the future tells whether there was such a hold. Raises LedgerError."""
        return self.propose_checked(command_pb2.Command(release_log=command_pb2.ReleaseLog(name=name)))

    def forget_holds(self) -> asyncio.Future[None]:
        """Proposes an entry, by whose append time holds expire: for when nobody else writes. Raises LedgerError."""
        return self.propose_checked(command_pb2.Command(forget_holds=command_pb2.ForgetHolds()))

    def propose_checked(self, command: command_pb2.Command) -> asyncio.Future[Any]:
        """A command, also where there is no room. Raises LedgerError where this node does not lead."""
        self.check_leads(command.ByteSize())
        return self.propose_command(command)

    def propose_command(self, command: command_pb2.Command) -> asyncio.Future[Any]:
        """For which `check_leads` or `leading_state` has passed in this turn. The future has what applying it gave."""
        body = command.SerializeToString(deterministic=True)
        proposal = CommandProposal(EntryDraft(EntryKind.COMMAND, body), self._command_settled)
        self.driver.propose(proposal)
        return proposal.future

    def _command_settled(self, proposal: CommandProposal, committed: bool) -> None:
        result = self._command_results.pop(proposal.index) if committed else self.not_leading()
        end(proposal.future, result)

    def leading_state(self, size: int) -> Projected:
        """The projected state, where a body of that size can be proposed now; LedgerError otherwise."""
        projected = self.check_leads(size)
        if self.no_room:
            raise DiskFullError(self.no_room)
        return projected

    def check_leads(self, size: int) -> Projected:
        """Raises LedgerError unless this node leads, knows all that earlier leaders committed, and can propose a body
        of that size. What an operator needs to make room is not refused for lack of it."""
        if (obstacle := self._obstacle(size)) is not None:
            raise self.refusal(obstacle) from obstacle
        if self._projected is None:
            raise not_ready()
        return self._projected

    def _obstacle(self, size: int) -> Obstacle | None:
        """Why the driver cannot take a body of that size now, if it cannot."""
        try:
            self.driver.check_room(size)
        except (Refusal, StoreError) as obstacle:
            return obstacle.with_traceback(None)  # with it, a caller that keeps the obstacle would be a cycle
        return None

    # -- reads

    @property
    def knows_the_end(self) -> bool:
        """Whether this node leads and has applied its own no-op, and so all that earlier leaders have answered."""
        return self._projected is not None

    @property
    def leading_term(self) -> int:
        """In which this node leads and knows all that earlier leaders committed; 0 where it does not."""
        return self.driver.raft.term if self._projected is not None else 0

    async def confirm_leadership(self) -> None:
        """Read index: returns once all that was committed at the call is applied here. Raises LedgerError."""
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
        """The same, and this node leads at that moment. Raises LedgerError."""
        await self.confirm_leadership()
        if not self.driver.leads:
            raise self.not_leading()

    # -- members

    def newest_configuration(self) -> ShardConfiguration | None:
        """In the log, committed or not; None before there is one."""
        body = self.driver.configuration()
        return decode_configuration(body) if body else None

    # -- why not

    def refusal(self, trouble: Refusal | StoreError) -> LedgerError:
        """What a client is told of why the driver did not take its request."""
        match trouble:
            case Busy():
                return BusyError(f"{trouble.uncommitted_bytes} bytes wait for a majority: try again shortly")
            case Crowded():
                return BusyError(f"{trouble}: try again shortly")
            case Stalled():
                return BusyError(f"the disk does not keep up ({trouble}): try again shortly")
            case Transferring():
                return BusyError(f"leadership is being handed to node {trouble.to}: try again shortly")
            case ChangeInProgress():
                return ChangeInProgressError("an earlier change is not committed yet: try again shortly")
            case _:
                return self.not_leading()

    def not_leading(self) -> LedgerError:
        """Why this node cannot take what only a leader can, with the leader where it is known."""
        failure = self.driver.failure
        if isinstance(failure, StoreFullError):
            return DiskFullError(f"the disk of this node is full: {failure}")
        if failure is not None:
            return StorageFailedError(f"the disk of this node failed: {failure}")
        leader = self.driver.raft.leader
        if leader == 0 or self.driver.leads:
            return NoLeaderError("no leader is known at the moment: try again shortly")
        address = self.membership.address(leader)
        return NotLeaderError(
            f"this node does not lead: node {leader} at {address or 'an unknown address'} does",
            leader=leader,
            leader_address=address or None,
        )


def loss_accepted(term: int, doubt: Suspect | None) -> str:
    """What an operator must know of an election in which suspects were counted."""
    since = ""
    if doubt is not None:
        at = datetime.fromtimestamp(doubt.since_ms / 1000, UTC).isoformat(timespec="seconds")
        since = f", here since {at}, behind entry {doubt.last_index} ({doubt.reason})"
    return (
        f"this node leads term {term} by the votes of nodes that may have lost what they acknowledged{since}: where no "
        "other node held it, it is lost, and messages that were acknowledged may be missing"
    )
