"""Evaluates the filters of shared groups ahead of the turns of the leader.

A filter needs the headers of messages, which are in the log and in no index. So the leader evaluates filters before a
turn, while other requests get their turns, and the turn takes what is known by then. The leader evaluates each message
once for a group, and work of at most `MAX_TURN_COST` before one turn. Groups and queues share this work evenly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.shared.filter_matches import FilterMatches, KnownMatches
from ledger.broker.shared.group_receives import MAX_TURN_MESSAGES, queues_of
from ledger.broker.shared.members import GroupMembers, SharedTopic
from ledger.broker.shared.queue_choice import has_tags, reach_of
from ledger.broker.shared.stored_batches import StoredBatch, StoredBatches
from ledger.broker.turn_budget import TurnBudget
from ledger.errors import LedgerError
from ledger.filters.batches import properties_of
from ledger.filters.parse import MessageFilter
from ledger.state import TopicQueueId
from ledger.state.lease_window import MAX_WINDOW
from raft.transport.rare_log import RareLog
from store import StoreError
from store.index.consume_queue import Units

log = logging.getLogger("ledgermq.broker.shared")

# The work before one turn. One message costs one for each comparison of the filter and for each of its headers, and
# four more. A cost of 256 takes about 50 us, which is a step of a turn of the event loop.
MAX_TURN_COST = 65_536
_STEP_COST = 256
# What is evaluated without a pause.
_PART_COST = 2_048
# Bytes of headers, keys and tags that double the cost of a comparison.
_TEXT_BYTES = 2_048
_UNITS_AT_ONCE = 4_096


@dataclass(slots=True)
class _Work:
    """Messages of one queue that shall be evaluated: up to the offset `end`, or until `wanted` messages match."""

    queue: TopicQueueId
    topic: SharedTopic
    matches: FilterMatches
    end: int
    wanted: int
    # What it may still cost before this turn.
    cost: int = 0

    @property
    def is_done(self) -> bool:
        return self.matches.end >= self.end or self.matches.count >= self.wanted


class FilterLookAhead:
    """Evaluates the filters of the groups of one shard."""

    def __init__(
        self,
        replica: BrokerReplica,
        known: KnownMatches,
        stored: StoredBatches,
        budget: TurnBudget,
        steady_s: Callable[[], float],
    ) -> None:
        self._replica = replica
        self._known = known
        self._stored = stored
        self._budget = budget
        self._rare_log = RareLog(log, steady_s)
        self._next = 0

    async def run(self, groups: Iterable[GroupMembers]) -> bool:
        """Evaluate filters for the receives of these groups that wait. Return False if there is more to evaluate."""
        works = [work for group in groups if group.waiting for work in self._works(group)]
        left = MAX_TURN_COST
        for number in range(len(works)):
            work = works[self._next % len(works)]
            self._next += 1  # so the next turn goes on with the works that this one does not reach
            share = work.cost = max(_PART_COST, left // (len(works) - number))
            await self._evaluate(work)
            left -= share - work.cost
            if left <= 0:
                return False
        return all(work.cost > 0 for work in works)

    def _works(self, group: GroupMembers) -> Iterator[_Work]:
        topics = {topic_id: topic for topic_id, topic in group.topics().items() if topic.filter is not None}
        mode = next(iter(group.members)).mode if topics else None
        leases = None if mode is None else self._replica.state.shared.leases.get(group.name)
        if mode is None or leases is None or leases.created != mode.created:
            return
        wanted = min(MAX_TURN_MESSAGES, sum(receive.max_messages for receive in group.waiting.values()))
        for queue, topic in queues_of(self._replica, topics):
            if (window := leases.windows.get(queue)) is None:
                continue
            first = self._replica.queues.get(*queue).first_offset
            matches = self._known.of(group.name, queue, topic.filter, max(window.end, first))
            assert matches is not None, "these topics have a filter"
            end = min(self._replica.state.next_offset(*queue), reach_of(self._replica, window, first))
            # With order by key, matches may have to wait for others, so that more than `wanted` are needed.
            work = _Work(queue, topic, matches, end, MAX_WINDOW if mode.by_key else wanted)
            if not work.is_done:
                yield work

    async def _evaluate(self, work: _Work) -> None:
        """Evaluate messages until the work is done or has cost enough. If they cannot be read, a later turn tries it
        again."""
        try:
            while not work.is_done and work.cost > 0:
                units = self._replica.queues.get(*work.queue).read(
                    work.matches.end, min(_UNITS_AT_ONCE, work.end - work.matches.end)
                )
                if not len(units):
                    return
                await self._batch(work, units[: _neighbours(units)])
        except (LedgerError, StoreError) as error:
            self._rare_log.warning(
                "shard %d: the filter of a shared group cannot read queue %d of topic %d now: %s",
                self._replica.shard,
                work.queue.queue,
                work.queue.topic_id,
                error,
            )

    async def _batch(self, work: _Work, units: Units) -> None:
        """Evaluate messages of one batch."""
        hashes, wanted = work.topic.tag_hashes, work.matches.filter
        tagged = np.ones(len(units), np.bool_) if hashes is None else has_tags(units, hashes)
        place = work.matches.end
        stored = self._read(units, place) if tagged.any() else None
        if stored is None:
            work.matches.append(tagged)
            work.cost -= _STEP_COST
            return
        await self._budget.spend(1)  # it waits if the batch was decoded, and was large
        cost = _cost_of_a_message(stored, wanted)
        part = max(1, _PART_COST // cost)
        for begin in range(0, len(units), part):
            if work.is_done or work.cost <= 0:
                return
            results = tagged[begin : begin + part].copy()
            some = np.flatnonzero(results)
            places = (some + (place + begin - stored.base_offset)).tolist()
            if places:
                results[some] = wanted.matches(properties_of(stored.batch, places, wanted.names))
            work.matches.append(results)
            work.cost -= cost * len(results)
            await self._budget.spend(1 + cost * len(results) // _STEP_COST)

    def _read(self, units: Units, offset: int) -> StoredBatch | None:
        """Return the batch of these messages, which begin at `offset`. Return None if it cannot be decoded: then the
        messages match, so that the same becomes of them as without a filter. Raises StoreError."""
        try:
            stored = self._stored.at(int(units["position"][0]), int(units["size"][0]))
        except LedgerError as error:
            self._rare_log.warning("shard %d: a filter cannot read a batch: %s", self._replica.shard, error)
            return None
        is_whole = 0 <= offset - stored.base_offset <= len(stored.batch) - len(units)
        return stored if is_whole else None


def _neighbours(units: Units) -> int:
    """Return how many of the first units are of one batch."""
    others = np.flatnonzero(units["position"] != units["position"][0])
    return int(others[0]) if len(others) else len(units)


def _cost_of_a_message(stored: StoredBatch, wanted: MessageFilter) -> int:
    """Return about what it costs to evaluate the filter for one message of the batch. Each term may compare all bytes
    that a condition can name: those of headers, keys and tags."""
    columns, count, terms = stored.batch.columns, len(stored.batch), wanted.condition.terms
    headers, look_up = columns.headers, columns.look_up_keys
    texts = (columns.keys, columns.tags, headers and headers.values, look_up and look_up.keys)
    text_bytes = sum(int(each.offsets[-1]) for each in texts if each is not None) // count
    pairs = 0 if headers is None else int(headers.offsets[-1]) // count
    return 4 + pairs + terms * (1 + text_bytes // _TEXT_BYTES)
