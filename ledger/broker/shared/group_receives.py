"""The receives of one shared group in one turn of the leader: which messages each of them gets.

Receives are served in the order of their arrival. If there are fewer messages than all of them want, each gets about
the same number, so the members share evenly. A receive takes from all queues of its topics, and begins with another
queue than the receive before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.consumed_offsets import start_offset
from ledger.broker.shared.filter_matches import KnownMatches
from ledger.broker.shared.key_order import MAX_SKIPS, KeyedChoice, KeyHashes
from ledger.broker.shared.lease_clock import are_free, next_free_s
from ledger.broker.shared.lease_entry import LeaseEntry, Ticket, changed_by
from ledger.broker.shared.leased_batches import LeasedMessages
from ledger.broker.shared.members import Answer, GroupMembers, Receive, SharedMember, SharedTopic
from ledger.broker.shared.queue_choice import ByteBudget, Choice, ChoiceFacts, Chosen, GroupRoom, QueueChoice
from ledger.errors import LedgerError
from ledger.state import TopicQueueId
from ledger.state.group_modes import GroupMode
from ledger.state.lease_table import MAX_OPEN_OFFSETS_OF_GROUP, ChangeKind, LeaseChange, LeaseResults
from ledger.state.lease_window import LeaseWindow
from ledger.topics import HIDDEN_TOPICS
from store import StoreError

log = logging.getLogger("ledgermq.broker.shared")

# Messages and receives of one group in one turn.
MAX_TURN_MESSAGES = 4_096
MAX_TURN_RECEIVES = 1_024
# About how many bytes one group gets in one turn.
MAX_TURN_BYTES = 16 << 20
# A group whose members do not read their answers is looked at again after this time, and one with messages that cannot
# be moved to the dead letters too.
HELD_UP_S = 0.1

OnFull = Callable[[str, Iterable[TopicQueueId]], None]


@dataclass(slots=True)
class Grant:
    """The messages that a receive got."""

    member: SharedMember
    receive: Receive
    messages: list[LeasedMessages]
    # The lease time at which the first of the leases ends.
    end_ms: int

    @property
    def size(self) -> int:
        return sum(len(each.offsets) for each in self.messages)


@dataclass(slots=True)
class _Part:
    """Messages of one queue that a receive shall get, if their lease is granted."""

    queue: TopicQueueId
    chosen: Chosen
    ticket: Ticket


@dataclass(slots=True)
class _Plan:
    member: SharedMember
    receive: Receive
    parts: list[_Part] = field(default_factory=list)


class GroupReceives:
    """Chooses messages for the receives of a group. Make a new object for each turn."""

    def __init__(
        self,
        replica: BrokerReplica,
        group: GroupMembers,
        mode: GroupMode,
        now_ms: int,
        keys: dict[tuple[str, TopicQueueId], KeyHashes],
        matches: KnownMatches,
    ) -> None:
        """`now_ms` is the lease time of the turn. `keys` has the known hashes of keys, by consumer group and queue, and
        `matches` the results of filters."""
        self.name = group.name
        # True: the members have too many answers that they have not read.
        self.is_held_up = False
        # In how many queues `choose` has looked for messages.
        self.looked_at = 0
        self._replica = replica
        self._group = group
        self._mode = mode
        self._now_ms = now_ms
        self._keys = keys
        self._matches = matches
        self._choices: dict[TopicQueueId, Choice] = {}
        # By queue: how many skips of its choice are in the entry.
        self._added: dict[TopicQueueId, int] = {}
        self._windows: dict[TopicQueueId, LeaseWindow] = {}
        leased = replica.state.shared.leases.get(group.name)
        self._room = GroupRoom(MAX_OPEN_OFFSETS_OF_GROUP - (0 if leased is None else leased.open_offsets()))
        self._plans: list[_Plan] = []

    def repeated(self) -> list[Grant]:
        """Return the messages of receives that are sent again and had got some before."""
        grants = []
        for (member, number), receive in list(self._group.waiting.items()):
            if receive.is_repeated and (grant := self._had_before(member, receive)) is not None:
                grants.append(grant)
                del self._group.waiting[member, number]
            receive.is_repeated = False
        return grants

    def end_receives(self) -> None:
        """Answer the receives that are over, and that get no messages in this turn."""
        now_s = asyncio.get_running_loop().time()
        planned = {(plan.member, plan.receive.number) for plan in self._plans}
        for (member, number), receive in list(self._group.waiting.items()):
            is_over = receive.was_served and receive.deadline_s <= now_s
            if (is_over or receive.is_cancelled) and (member, number) not in planned:
                del self._group.waiting[member, number]
                member.answer(Answer(number, received=()))

    def choose(self, entry: LeaseEntry, on_full: OnFull) -> None:
        """Add to the entry what the receives shall get, as far as it has room. Let the group begin in queues that are
        new to it."""
        if not self._group.waiting and self._group.has_begun:
            return
        wanted = sum(receive.max_messages for receive in self._group.waiting.values())
        is_serving = bool(self._group.waiting) and not self.is_held_up
        is_new = False
        left = deque(queues_of(self._replica, self._group.topics()))
        if self._group.left_out is not None:
            left.rotate(-next((at for at, (queue, _) in enumerate(left) if queue == self._group.left_out), 0))
        while left and entry.room:
            queue, topic = left.popleft()
            self.looked_at += 1
            is_new |= self._open(entry, queue, topic, min(wanted, MAX_TURN_MESSAGES))
            if is_serving:
                self._add_skips(entry, queue)
        self._group.left_out = left[0][0] if left else None
        self._group.has_begun = not left
        for receive in self._group.waiting.values():
            receive.was_served = not is_new and not left
        if not is_serving:
            return
        self._share_out(entry)
        on_full(self.name, [queue for queue, choice in self._choices.items() if choice.is_full])

    def dead(self, most: int) -> Iterator[tuple[TopicQueueId, int, int]]:
        """Yield queue, offset and attempts of messages that were handed out too often, at most `most`."""
        for queue, choice in self._choices.items():
            for offset in choice.dead[: max(0, most)]:
                slot = self._windows[queue].slot(offset)
                yield queue, offset, self._mode.max_attempts if slot is None else int(slot["attempts"])
                most -= 1

    def granted(self, results: LeaseResults) -> list[Grant]:
        """Return what the receives got. A receive that got nothing goes on waiting."""
        grants = []
        for plan in self._plans:
            parts = [part for part in plan.parts if changed_by(results, part.ticket)]
            if not parts or self._group.waiting.pop((plan.member, plan.receive.number), None) is None:
                continue
            end_ms = results.time_ms + plan.receive.lease_ms
            messages = [self._messages(queue, some, results.index) for queue, some in by_queue(parts).items()]
            grants.append(Grant(plan.member, plan.receive, messages, end_ms))
        return grants

    def next_look_s(self) -> float | None:
        """Return the seconds until a receive can get messages without news, or is over. None: never."""
        if not self._group.waiting:
            return None
        now_s = asyncio.get_running_loop().time()
        times = [receive.deadline_s - now_s for receive in self._group.waiting.values()]
        frees_s = (next_free_s(window.slots, self._now_ms) for window in self._windows.values())
        times += (free_s for free_s in frees_s if free_s is not None)
        if self.is_held_up or any(choice.dead or choice.available for choice in self._choices.values()):
            times.append(HELD_UP_S)
        return max(0.0, min(times))

    # -- choosing

    def _open(self, entry: LeaseEntry, queue: TopicQueueId, topic: SharedTopic, wanted: int) -> bool:
        """Prepare the choice in one queue, or let the group begin there. Return True if it begins."""
        leases = self._replica.state.shared.leases
        group = leases.get(self.name)
        window = None if group is None or group.created != self._mode.created else group.windows.get(queue)
        try:
            if window is None:
                entry.open(self._mode, queue, start_offset(self._replica, *queue, topic.start_offset))
                return True
            first = self._replica.queues.get(*queue).first_offset
            matches = self._matches.of(self.name, queue, topic.filter, max(window.end, first))
            facts = ChoiceFacts(self._replica, queue, self._mode, topic, window, self._now_ms, self._room, matches)
            self._windows[queue] = window
            if self._mode.by_key:
                hashes = self._keys.setdefault((self.name, queue), KeyHashes(self._replica, queue))
                self._choices[queue] = KeyedChoice(facts, hashes, wanted, min(MAX_SKIPS, entry.room))
            else:
                self._choices[queue] = QueueChoice(facts)
        except (LedgerError, StoreError) as error:
            log.warning(
                "shard %d: consumer group %s gets no messages of queue %d of topic %d now: %s",
                self._replica.shard,
                self.name,
                queue.queue,
                queue.topic_id,
                error,
            )
        return False

    def _add_skips(self, entry: LeaseEntry, queue: TopicQueueId) -> None:
        """Add the new skips of the choice in this queue to the entry."""
        if (choice := self._choices.get(queue)) is None:
            return
        for first, size in choice.skips[self._added.get(queue, 0) :]:
            entry.add(self._mode, queue, LeaseChange(ChangeKind.SKIP, first, size))
        self._added[queue] = len(choice.skips)

    def _share_out(self, entry: LeaseEntry) -> None:
        waiting = [each for each in self._group.waiting.items() if not each[1].is_cancelled][:MAX_TURN_RECEIVES]
        if not waiting:
            return
        available = min(MAX_TURN_MESSAGES, sum(choice.available for choice in self._choices.values()))
        share = max(1, -(-available // len(waiting)))
        left_bytes: float = MAX_TURN_BYTES
        for (member, _), receive in waiting:
            if available <= 0 or left_bytes <= 0 or not entry.room:
                return
            budget = ByteBudget(min(receive.max_bytes, left_bytes))
            left_bytes -= budget.left
            plan = self._plan(entry, member, receive, min(share, available), budget)
            left_bytes += budget.left
            available -= sum(part.chosen.size for part in plan.parts)
            self._group.turn += 1
            if plan.parts:
                self._plans.append(plan)

    def _plan(self, entry: LeaseEntry, member: SharedMember, receive: Receive, share: int, budget: ByteBudget) -> _Plan:
        plan = _Plan(member, receive)
        most = min(receive.max_messages, share)
        queues = [queue for queue in self._choices if queue.topic_id in member.topics]
        begin = self._group.turn % len(queues) if queues else 0
        for queue in queues[begin:] + queues[:begin]:
            for chosen in self._take(queue, most, budget):
                change = LeaseChange(
                    ChangeKind.LEASE,
                    chosen.first,
                    chosen.size,
                    duration_ms=receive.lease_ms,
                    receipt=receive.attempt_id,
                )
                plan.parts.append(_Part(queue, chosen, entry.add(self._mode, queue, change)))
                most -= chosen.size
            self._add_skips(entry, queue)
            if most <= 0 or not entry.room:
                break
        return plan

    def _take(self, queue: TopicQueueId, most: int, budget: ByteBudget) -> list[Chosen]:
        try:
            return self._choices[queue].take(most, budget)
        except (LedgerError, StoreError) as error:
            log.error("shard %d: queue %d cannot be read on this node: %s", self._replica.shard, queue.queue, error)
            return []

    # -- grants

    def _messages(self, queue: TopicQueueId, parts: list[_Part], lease: int) -> LeasedMessages:
        parts.sort(key=lambda part: part.chosen.first)
        offsets = [
            offset for part in parts for offset in range(part.chosen.first, part.chosen.first + part.chosen.size)
        ]
        attempts = [count + 1 for part in parts for count in part.chosen.attempts]
        return LeasedMessages(queue, offsets, attempts, lease, self._windows[queue].resets)

    def _had_before(self, member: SharedMember, receive: Receive) -> Grant | None:
        """Return the messages that the same receive got before and still has, or None if it has none."""
        group = self._replica.state.shared.leases.get(self.name)
        if group is None or group.created != self._mode.created:
            return None
        messages, ends_ms = [], []
        for queue, window in group.windows.items():
            slots = window.slots
            is_held = (slots["receipt"] == receive.attempt_id) & (slots["lease"] > 0) & ~are_free(slots, self._now_ms)
            places = np.flatnonzero(is_held & (slots["is_settled"] == 0))
            if queue.topic_id not in member.topics or not len(places):
                continue
            held = slots[places]
            for lease in np.unique(held["lease"]).tolist():
                some = held["lease"] == lease
                offsets = (places[some] + window.begin).tolist()
                messages.append(LeasedMessages(queue, offsets, held["attempts"][some].tolist(), lease, window.resets))
            ends_ms.append(int(held["free_ms"].min()))
        return Grant(member, receive, messages, min(ends_ms)) if messages else None


def by_queue(parts: Iterable[_Part]) -> dict[TopicQueueId, list[_Part]]:
    found: dict[TopicQueueId, list[_Part]] = {}
    for part in parts:
        found.setdefault(part.queue, []).append(part)
    return found


def queues_of(replica: BrokerReplica, topics: dict[int, SharedTopic]) -> Iterator[tuple[TopicQueueId, SharedTopic]]:
    """Yield the queues of these topics that are in the replica's shard, without topics that no client reads."""
    for topic_id, shared in topics.items():
        topic = replica.state.topics.get(topic_id)
        if topic is None or topic.name in HIDDEN_TOPICS:
            continue
        for queue, shard in enumerate(topic.shards):
            if shard == replica.shard:
                yield TopicQueueId(topic_id, queue), shared
