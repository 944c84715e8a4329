"""The turns in which the leader of a shard leases messages to the members of shared groups.

    changes that members want ┐
    receives that wait        ├──> one entry ──> committed ──> answers ──> next turn
    messages handed out       ┘
    too often                 ──> one entry for each, in the same turn

All requests that arrive while an entry is on its way are in the next entry. So there is never more than one, and the
leader decides with the applied state. If the node stops leading, the streams of all members end with an error, and the
members go on at the next leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.moved_batch import MessageMove
from ledger.broker.produce.proposals import Committed
from ledger.broker.shared.dead_letters import MAX_MOVES, DeadLetters
from ledger.broker.shared.filter_look_ahead import FilterLookAhead
from ledger.broker.shared.filter_matches import KnownMatches
from ledger.broker.shared.filter_parser import FilterParser
from ledger.broker.shared.group_receives import Grant, GroupReceives, queues_of
from ledger.broker.shared.key_order import KeyHashes
from ledger.broker.shared.lease_clock import TIME_ENTRY_MS
from ledger.broker.shared.lease_entry import LeaseEntry, Ticket, changed_by
from ledger.broker.shared.leased_batches import LeasedBatch, LeasedBatches, LeasedMessages
from ledger.broker.shared.members import Answer, ChangeRequest, GroupMembers, Receive, SharedMember
from ledger.broker.shared.stored_batches import StoredBatches
from ledger.broker.turn_budget import TurnBudget
from ledger.errors import (
    BusyError,
    ConsumerFencedError,
    GroupNotEmptyError,
    InvalidArgumentError,
    LedgerError,
    UnknownQueueError,
    UnknownTopicError,
)
from ledger.state import TopicQueueId
from ledger.state.commands import ChangeLeases
from ledger.state.feature_levels import SHARED_GROUPS
from ledger.state.group_modes import GroupMode
from ledger.state.lease_table import ChangeKind, LeaseChange, LeaseResults
from raft.transport.rare_log import RareLog
from store import StoreError

log = logging.getLogger("ledgermq.broker.shared")

# Changes of one entry, and changes of requests that may wait for it.
MAX_CHANGES = 8_192
MAX_WAITING_CHANGES = 65_536
# Bytes of answers that the members of one group, and of all groups, have not read. From this number on, the group, or
# every group, gets no messages.
MAX_UNSENT_BYTES_OF_A_GROUP = 16 << 20
MAX_UNSENT_BYTES = 64 << 20
# A turn that failed, for example because the disk is full, is tried again after this time.
RETRY_S = 0.25
# If too many fetches wait on this node, new messages are noticed after this time.
BUSY_S = 0.05
# The longest sleep. Other commands, such as a reset, can free messages while a leader sleeps.
LONGEST_SLEEP_S = 1.0
# The shortest sleep before leases are looked at again.
SHORTEST_SLEEP_S = 0.005
# Batches that are read and cut before other requests get their turn.
MAX_TURN_STEPS = 64
# Queues in which messages are chosen before other requests get their turn. A queue takes 25 to 100 us.
MAX_QUEUES_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Changes of one request, and their places in the entry. None: the change cannot count."""

    request: ChangeRequest
    tickets: list[Ticket | None]


class LeaseTurns:
    """Leases the messages of one shard. Run the method `run` as a task as long as the node runs."""

    def __init__(self, replica: BrokerReplica, monotonic_ms: Callable[[], float]) -> None:
        self._replica = replica
        replica.on_role_change = self._wake
        self._turns = TurnBudget(MAX_TURN_STEPS)
        self._stored = StoredBatches(replica.log, self._turns)
        self._batches = LeasedBatches(replica.shard, self._stored)
        self._dead_letters = DeadLetters(replica, lambda: monotonic_ms() / 1000)
        self._full_log = RareLog(log, lambda: monotonic_ms() / 1000)
        self._refused_log = RareLog(log, lambda: monotonic_ms() / 1000)
        self._news = asyncio.Event()
        self._term = 0
        self._groups: dict[str, GroupMembers] = {}
        self._requests: deque[ChangeRequest] = deque()
        self._waiting_changes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._keys: dict[tuple[str, TopicQueueId], KeyHashes] = {}
        self._matches = KnownMatches()
        self._look_ahead = FilterLookAhead(
            replica, self._matches, self._stored, self._turns, lambda: monotonic_ms() / 1000
        )
        self.filters = FilterParser(self._turns)
        # By consumer group: the queues whose windows have no room.
        self.full_windows: dict[str, int] = {}
        # By consumer group: its deletions that are on their way. Never 0.
        self._being_deleted = Counter[str]()
        # How many deletions have begun.
        self._deletions = 0
        # What this leader has done: entries, messages leased, and messages acknowledged.
        self.entries = self.leased = self.acknowledged = 0

    @property
    def moved(self) -> dict[str, int]:
        """By consumer group: how many messages were moved to the dead letters."""
        return self._dead_letters.moved

    # -- members

    async def wait_for_level(self) -> None:
        """Return when the shard has shared groups, but after about a second at the latest: a cluster that has just
        started gets its feature level in this time."""
        await self._replica.feature_level.reach(SHARED_GROUPS)

    def join(self, member: SharedMember) -> None:
        """Add a member. Raises LedgerError if this node does not lead, or the group cannot have this member."""
        self._replica.check_leads(0)
        self._replica.state.require_shared_groups()
        group = self._groups.get(member.consumer_group) or GroupMembers(member.consumer_group)
        if group.add(member):
            self._matches.forget(member.consumer_group)
        self._groups[member.consumer_group] = group
        self._news.set()

    def leave(self, member: SharedMember) -> None:
        """Remove a member. Its leases end in their time."""
        group = self._groups.get(member.consumer_group)
        if group is None:
            return
        group.remove(member)
        if not group.members:
            self._forget(member.consumer_group)

    def _forget(self, consumer_group: str) -> None:
        """Forget what this leader knows of a group without members."""
        self._groups.pop(consumer_group, None)
        self.full_windows.pop(consumer_group, None)
        for key in [key for key in self._keys if key[0] == consumer_group]:
            del self._keys[key]
        self._matches.forget(consumer_group)

    def members(self, consumer_group: str) -> int:
        """Return the number of members with a stream to this shard's leader."""
        group = self._groups.get(consumer_group)
        return 0 if group is None else group.count()

    def members_by_group(self) -> dict[str, int]:
        """Return the number of members with a stream, by consumer group."""
        return {name: group.count() for name, group in self._groups.items()}

    def check_has_no_members(self, consumer_group: str) -> None:
        """Raise GroupNotEmptyError if a member of the group has a stream to this shard's leader."""
        if members := self.members(consumer_group):
            raise GroupNotEmptyError(
                f"Consumer group {consumer_group!r} has members ({members}): stop its consumers first."
            )

    def await_deletion(self, consumer_group: str, deletion: asyncio.Future[int]) -> None:
        """Let the group neither change nor begin leases before its deletion ends: an entry behind the deletion would
        bring the group back. Call it in the same turn of the event loop in which the deletion is proposed."""

        def is_over(_: asyncio.Future[int]) -> None:
            self._being_deleted[consumer_group] -= 1
            if not self._being_deleted[consumer_group]:
                del self._being_deleted[consumer_group]
            self._news.set()

        self._deletions += 1
        self._being_deleted[consumer_group] += 1
        deletion.add_done_callback(is_over)

    def change(self, request: ChangeRequest) -> None:
        """Take changes that a member wants. The member gets one answer. Raises InvalidArgumentError, and LedgerError if
        this node does not lead any more. A shard that is busy takes changes, which wait for a later turn."""
        if not self._replica.knows_the_end:
            raise self._replica.not_leading()
        for queue, _ in request.changes:
            if queue.topic_id not in request.member.topics:
                raise InvalidArgumentError(f"This member does not read topic {queue.topic_id}.")
            if self._is_elsewhere(queue):
                raise InvalidArgumentError(
                    f"Queue {queue.queue} of topic {queue.topic_id} is not in shard {self._replica.shard}: send the "
                    "changes to the shard that handed the messages out."
                )
        self._requests.append(request)
        self._count_changes(len(request.changes))
        self._news.set()

    def _is_elsewhere(self, queue: TopicQueueId) -> bool:
        """Return True if the topic exists, and this shard does not have its queue."""
        topic = self._replica.state.topics.get(queue.topic_id)
        return topic is not None and topic.shards[queue.queue : queue.queue + 1] != (self._replica.shard,)

    def give_up(self, wanted: MessageMove, lease: int) -> asyncio.Future[Committed] | None:
        """Move a message that a member has leased to the dead letters of the group. Return a future that ends with the
        commit, or None if the message is settled already. Raises LedgerError if the lease has ended."""
        self._replica.check_leads(0)
        if not wanted.give_up:
            raise InvalidArgumentError("A message of a shared group can be moved to the dead letters only.")
        queue = TopicQueueId(wanted.topic_id, wanted.queue)
        window = self._replica.state.shared.leases.window(wanted.consumer_group, queue)
        if window is not None and window.settled(wanted.offset, 1, wanted.resets):
            return None
        slot = None if window is None else window.slot(wanted.offset)
        if window is None or slot is None or window.resets != wanted.resets or int(slot["lease"]) != lease:
            raise ConsumerFencedError("The lease of this message has ended, or another member has the message.")
        moved = self._dead_letters.move(wanted.consumer_group, queue, wanted.offset, int(slot["attempts"]))
        if moved is None:
            raise BusyError("The message cannot be moved to the dead letters now: try again.")
        return moved

    async def wait_for_room(self) -> None:
        """Wait while too many changes wait."""
        while not self._room.is_set():
            await self._room.wait()

    def _count_changes(self, difference: int) -> None:
        self._waiting_changes += difference
        if self._waiting_changes < MAX_WAITING_CHANGES:
            self._room.set()
        else:
            self._room.clear()

    def receive(self, member: SharedMember, receive: Receive) -> None:
        """Let a member wait for messages. The member gets one answer."""
        if (group := self._groups.get(member.consumer_group)) is not None:
            group.put_last(member, receive)
            self._news.set()

    def cancel(self, member: SharedMember, number: int) -> None:
        """End a receive that waits, in the next turn. If it is about to get messages, it gets them."""
        group = self._groups.get(member.consumer_group)
        if group is not None and (receive := group.waiting.get((member, number))) is not None:
            receive.is_cancelled = True
            self._news.set()

    def _wake(self) -> None:
        self._news.set()

    # -- turns

    async def run(self) -> None:
        """Take turns until the task is cancelled."""
        while True:
            self._news.clear()
            try:
                pause_s = await self._turn()
            except (LedgerError, StoreError) as error:
                self._refused_log.warning("shard %d: no messages can be leased now: %s", self._replica.shard, error)
                pause_s = RETRY_S
            await self._sleep(pause_s)

    async def _turn(self) -> float | None:
        """Take one turn. Return the seconds until the next one, and None if only news can bring work."""
        replica = self._replica
        # Other requests get their turns meanwhile, so it comes before everything that must not change in a turn.
        is_known = not replica.knows_the_end or await self._look_ahead.run(self._groups.values())
        if not replica.knows_the_end:
            if self._term or self._groups or self._requests:  # members can come and a term can end between two turns
                self._end_of_term()
            return None
        self._begin_term()
        entry = LeaseEntry(replica.lease_time_ms)
        wanted = self._take_changes(entry)
        unsent_bytes = {group.name: group.unsent_bytes() for group in self._groups.values()}
        are_held_up = sum(unsent_bytes.values()) >= MAX_UNSENT_BYTES
        receives: list[GroupReceives] = []
        moves: list[asyncio.Future[Committed]] = []
        had_before: list[Grant] = []
        deletions, applied, queues = self._deletions, replica.driver.applied, 0
        try:
            for group in self._groups_in_turn():
                if queues >= MAX_QUEUES_AT_ONCE:
                    await asyncio.sleep(0)
                    queues = 0
                if (each := self._receives(group, entry.now_ms)) is None:
                    continue
                receives.append(each)
                each.is_held_up = are_held_up or unsent_bytes[each.name] >= MAX_UNSENT_BYTES_OF_A_GROUP
                had_before += each.repeated()
                each.choose(entry, self._window_is_full)
                each.end_receives()
                moves += self._move_dead(each, MAX_MOVES - len(moves))
                queues += each.looked_at
            if self._term != replica.leading_term or self._deletions != deletions:
                # An entry of an earlier term, or behind a deletion that has begun meanwhile, must not be proposed.
                self._put_back(wanted)
                await asyncio.gather(*moves, return_exceptions=True)
                return 0.0
            if (command := entry.command() or self._time_entry(entry.now_ms)) is not None:
                await self._commit(command, wanted, receives)
            else:  # none of the changes can count
                self._answer_changes(LeaseResults((), 0, entry.now_ms), wanted)
            await asyncio.gather(*moves)
        except (LedgerError, StoreError):
            await asyncio.gather(*moves, return_exceptions=True)  # the next turn looks at the messages again
            raise
        finally:
            # An earlier entry has leased these messages, so their members get them whatever becomes of this entry.
            for grant in had_before:
                await self._send(grant)
        if command is not None or moves or had_before or not is_known:
            return 0.0
        looks_s = [left_s for each in receives if (left_s := each.next_look_s()) is not None]
        if replica.driver.applied != applied:  # while the turn waited, messages may have come for its first groups
            looks_s.append(SHORTEST_SLEEP_S)
        if replica.state.shared.leases.has_running_leases:
            looks_s.append(self._time_entry_left_ms(entry.now_ms) / 1000)
        return max(SHORTEST_SLEEP_S, min(looks_s)) if looks_s else None

    def _time_entry(self, now_ms: int) -> ChangeLeases | None:
        """Return a command that only moves the lease time, if leases run and the state is far behind."""
        is_due = self._replica.state.shared.leases.has_running_leases and self._time_entry_left_ms(now_ms) <= 0
        return ChangeLeases((), now_ms) if is_due else None

    def _time_entry_left_ms(self, now_ms: int) -> int:
        if self._replica.no_room:
            return TIME_ENTRY_MS  # no entry of leases is possible, and this one is of no use without others
        return self._replica.state.shared.leases.time_ms + TIME_ENTRY_MS - now_ms

    def _begin_term(self) -> None:
        if self._term != self._replica.leading_term:
            if self._term:
                self._end_of_term()
            self._term = self._replica.leading_term

    def _end_of_term(self) -> None:
        """End the streams of all members, because this node does not lead any more."""
        self._term = 0
        self._stored.clear()
        self._dead_letters.clear()
        self._requests.clear()
        self._count_changes(-self._waiting_changes)
        self._dismiss_all(self._replica.not_leading())

    def _dismiss(self, group: GroupMembers, error: LedgerError) -> None:
        for member in group.members:
            member.answer(Answer(0, error=error))
        self._forget(group.name)

    def _dismiss_all(self, error: LedgerError) -> None:
        self._keys.clear()
        self._matches.clear()
        self.full_windows.clear()
        for group in list(self._groups.values()):
            self._dismiss(group, error)

    def _take_changes(self, entry: LeaseEntry) -> list[_Wanted]:
        """Move the changes that wait into the entry."""
        taken: list[_Wanted] = []
        while self._requests and entry.size < MAX_CHANGES and entry.room:
            request = self._requests.popleft()
            self._count_changes(-len(request.changes))
            mode = request.member.mode
            tickets = [
                entry.add(mode, queue, change)
                if mode is not None
                and self._has_begun(mode, queue)
                and (place not in request.in_time or self._lasts(mode, queue, change))
                else None
                for place, (queue, change) in enumerate(request.changes)
            ]
            taken.append(_Wanted(request, tickets))
        return taken

    def _lasts(self, mode: GroupMode, queue: TopicQueueId, change: LeaseChange) -> bool:
        """Return True if the lease of the first message that a change names has not ended."""
        window = self._replica.state.shared.leases.window(mode.consumer_group, queue)
        slot = None if window is None else window.slot(change.first)
        return slot is not None and int(slot["free_ms"]) > self._replica.lease_time_ms

    def _groups_in_turn(self) -> list[GroupMembers]:
        """Return all groups. Each turn begins with another one, because one group may fill the entry of a turn."""
        groups = list(self._groups.values())
        first = self.entries % len(groups) if groups else 0
        return groups[first:] + groups[:first]

    def _has_begun(self, mode: GroupMode, queue: TopicQueueId) -> bool:
        """Return True if the group has begun in the queue. A group that was deleted and created again has not, and
        must begin at the start offset of its members, not with a change of a lease that it had before. Nor has a group
        whose deletion is on its way."""
        if mode.consumer_group in self._being_deleted:
            return False
        group = self._replica.state.shared.leases.get(mode.consumer_group)
        return group is not None and group.created == mode.created and queue in group.windows

    def _receives(self, group: GroupMembers, now_ms: int) -> GroupReceives | None:
        """Return the receives of a group, or None if it has none. A group that was deleted loses its members."""
        if group.name in self._being_deleted or not group.members:
            return None
        mode = next(iter(group.members)).mode
        if mode is None:
            self._dismiss(group, ConsumerFencedError(f"Consumer group {group.name!r} was deleted."))
            return None
        return GroupReceives(self._replica, group, mode, now_ms, self._keys, self._matches)

    def _window_is_full(self, consumer_group: str, queues: Iterable[TopicQueueId]) -> None:
        full = list(queues)
        if not full:
            self.full_windows.pop(consumer_group, None)
            return
        self.full_windows[consumer_group] = len(full)
        self._full_log.warning(
            "shard %d: consumer group %s gets no new messages of queue %d of topic %d: its window, or all windows of "
            "the group together, are full of messages that are leased, put off, or wait for others with their key",
            self._replica.shard,
            consumer_group,
            full[0].queue,
            full[0].topic_id,
        )

    def _move_dead(self, receives: GroupReceives, most: int) -> list[asyncio.Future[Committed]]:
        moves: list[asyncio.Future[Committed]] = []
        for queue, offset, attempts in receives.dead(most):
            moved = self._dead_letters.move(receives.name, queue, offset, attempts)
            if moved is not None:
                moves.append(moved)
        return moves

    async def _commit(self, command: ChangeLeases, wanted: list[_Wanted], receives: list[GroupReceives]) -> None:
        """Propose the entry of this turn, and answer the members when it is committed. Raises LedgerError."""
        try:
            proposed = self._replica.command(command)
        except BusyError:
            self._put_back(wanted)
            raise
        except LedgerError as refusal:
            self._dismiss_all(refusal)
            raise
        try:
            results = await proposed
        except LedgerError as refusal:
            self._dismiss_all(refusal)
            raise
        self.entries += 1
        self._answer_changes(results, wanted)
        self._tell_refusals(command, results)
        for each in receives:
            for grant in each.granted(results):
                self.leased += grant.size
                await self._send(grant)

    def _put_back(self, wanted: list[_Wanted]) -> None:
        """Keep the changes of an entry that could not be proposed for the next turn."""
        for each in reversed(wanted):
            self._requests.appendleft(each.request)
            self._count_changes(len(each.request.changes))

    def _answer_changes(self, results: LeaseResults, wanted: list[_Wanted]) -> None:
        for each in wanted:
            changed = [0 if ticket is None else changed_by(results, ticket) for ticket in each.tickets]
            self.acknowledged += sum(changed)
            settled = [self._settled(each.request.member, *change) for change in each.request.changes]
            each.request.member.answer(Answer(each.request.number, changed=changed, settled=settled))

    def _settled(self, member: SharedMember, queue: TopicQueueId, change: LeaseChange) -> int:
        """Return how many of the messages that a member has acknowledged are consumed, 0 for other changes."""
        if change.kind is not ChangeKind.ACKNOWLEDGE:
            return 0
        window = self._replica.state.shared.leases.window(member.consumer_group, queue)
        return 0 if window is None else window.settled(change.first, change.size, change.resets)

    def _tell_refusals(self, command: ChangeLeases, results: LeaseResults) -> None:
        """End the streams of groups that the state refuses, such as one that has progress as a queue group."""
        for queue, result in zip(command.queues, results.queues, strict=True):
            if not isinstance(result, LedgerError) or isinstance(result, UnknownTopicError | UnknownQueueError):
                continue
            if (group := self._groups.get(queue.consumer_group)) is not None:
                self._dismiss(group, result)

    async def _send(self, grant: Grant) -> None:
        """Read the messages of a receive, and give them to the member. A node that does not lead any more does not
        know how long a lease still lasts: the member gets the error of `_end_of_term`, and asks the next leader."""
        batches: list[LeasedBatch] = []
        for messages in grant.messages:
            await self._turns.spend(1 + len(messages.offsets) // 256)
            for batch in self._read(messages):
                batches.append(batch)
                await self._turns.spend(1)
        if self._term != self._replica.leading_term:
            return
        waited_ms = int((asyncio.get_running_loop().time() - grant.receive.arrived_s) * 1000)
        left_ms = max(0, grant.end_ms - self._replica.lease_time_ms)
        grant.member.answer(Answer(grant.receive.number, received=batches, lease_left_ms=left_ms, waited_ms=waited_ms))

    def _read(self, messages: LeasedMessages) -> Iterator[LeasedBatch]:
        """Yield the batches of the messages, without those that this node cannot read."""
        try:
            yield from self._batches.read(self._replica.queues.get(*messages.queue), messages)
        except (LedgerError, StoreError) as error:
            log.error("shard %d: leased messages cannot be read on this node: %s", self._replica.shard, error)

    async def _sleep(self, pause_s: float | None) -> None:
        """Sleep for `pause_s` seconds, or until news or a new message of a queue that members wait for."""
        if pause_s is not None and pause_s <= 0:
            await asyncio.sleep(0)
            return
        queues = [queue for group in self._groups.values() if group.waiting for queue in self._queues(group)]
        waiters: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._news.wait())]
        try:
            waiters.append(self._replica.fetch_waiters.wait_for(queues))
        except BusyError:
            pause_s = BUSY_S if pause_s is None else min(pause_s, BUSY_S)
        try:
            timeout_s = None if pause_s is None else min(pause_s, LONGEST_SLEEP_S)
            await asyncio.wait(waiters, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()

    def _queues(self, group: GroupMembers) -> list[TopicQueueId]:
        return [queue for queue, _ in queues_of(self._replica, group.topics())]
