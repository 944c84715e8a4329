"""Moves the log start, on the leader. `LogTrim` finds the possible log starts, computes what a move would remove, and
proposes the entry that moves the log start.

`LogTrim` moves the log start for operators and for retention. The leader knows every hold, because it has applied
or proposed the entry of each hold. Each replica moves its log start when it applies the entry."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.produce.proposals import StartProposal
from ledger.broker.retention.retention import TrimPoint, newest_before
from ledger.broker.timed.copying import WaitingCopies
from ledger.broker.transactions.copying import HalfCopies
from ledger.errors import BusyError, LogHeldError, StorageFailedError, UnknownTopicError, out_of_range
from ledger.state import State
from raft.log_start import log_start_draft
from store import Snapshot


@dataclass(frozen=True, slots=True)
class TrimEffect:
    """The entries, messages and bytes that are lost if the log begins at entry `first_index`. `newest_ms` is the
    append time of the newest lost entry, in ms since 1970. `size` is the number of removed bytes, and `bytes_kept`
    the number of bytes that stay."""

    first_index: int
    entries: int
    size: int
    messages: int
    newest_ms: int
    bytes_kept: int


class LogTrim:
    """Finds and proposes a new log start for one shard, on the shard's leader."""

    def __init__(self, replica: BrokerReplica) -> None:
        self._replica = replica
        self._copies = WaitingCopies(replica)
        self._half_copies = HalfCopies(replica)

    def candidates(self) -> list[TrimPoint]:
        """Return the possible log starts in ascending order. A possible log start has a stored snapshot and lies
        before the last applied entry."""
        replica, log = self._replica, self._replica.log
        log_start = replica.driver.log_start
        kept = log_start.candidates() if log_start is not None else []
        here = [index for index in kept if log.first_index <= index < replica.driver.applied]
        return [TrimPoint(index, log.reading.position(index + 1)) for index in here]

    # -- the latest log start that keeps something

    def keeping_since(self, time_ms: int) -> TrimPoint | None:
        """Return the latest log start that keeps the entries which were appended at this time (ms since 1970) or
        later."""
        log, candidates = self._replica.log, self.candidates()
        older = bisect_left(candidates, time_ms, key=lambda each: log.reading.header(each.index).append_time_ms)
        return candidates[older - 1] if older else None

    def keeping_bytes(self, size: int) -> TrimPoint | None:
        """Return the latest log start that keeps at least the last `size` bytes of the log."""
        return newest_before(self.candidates(), self._replica.log.end - size)

    def keeping_from(self, topic_name: str, queue: int, offset: int) -> TrimPoint | None:
        """Return the latest log start that keeps the messages of this queue from this offset on. Raises
        UnknownTopicError, UnknownQueueError, OffsetBeyondEndError."""
        state, log = self._replica.state, self._replica.log
        topic = state.topics.named(topic_name)
        if topic is None:
            raise UnknownTopicError(f"there is no topic {topic_name!r}: check the name")
        state.topics.require(topic.topic_id, queue)
        units, end = self._replica.queues.get(topic.topic_id, queue), state.next_offset(topic.topic_id, queue)
        if offset > end:
            sentence = f"offset {offset} is after the end of queue {queue} of topic {topic_name!r}"
            raise out_of_range(sentence, offset, units.first_offset, end)
        if offset < units.first_offset:
            return None
        found = units.read(offset, 1)
        return newest_before(self.candidates(), int(found["position"][0]) if len(found) else log.end)

    # -- the move

    def effect(self, to: TrimPoint | None) -> TrimEffect:
        """Compute what a move of the log start to `to` would remove. If `to` is None, the log start stays and the
        result has no removed entries."""
        log = self._replica.log
        if to is None:
            return TrimEffect(0, 0, 0, 0, 0, log.end - log.start)
        header = log.reading.header(to.index)
        return TrimEffect(
            first_index=to.index + 1,
            entries=to.index + 1 - log.first_index,
            size=header.end - log.start,
            messages=self._messages_before(to.index),
            newest_ms=header.append_time_ms,
            bytes_kept=log.end - to.position,
        )

    def held_by(self) -> Sequence[str]:
        """Return the names of all holds of this log."""
        return [hold.name for hold in self._replica.state.holds]

    async def copy_and_move(self, to: TrimPoint) -> None:
        """Copy the waiting messages and half batches before the new log start to the end of the log, then move the log
        start. Return when this node has applied the move. Raises LedgerError as `move` does."""
        self._check_holds()
        await self._copies.make(to.position)
        await self._half_copies.make(to.position)
        await asyncio.shield(self.move(to).future)

    def move(self, to: TrimPoint) -> StartProposal:
        """Propose the new log start. The future of the returned proposal ends when this node has applied the entry.
        Raises LedgerError, for example LogHeldError if the log has a hold, BusyError if messages wait before the new
        log start, and StorageFailedError if the stored snapshot of the new log start is damaged."""
        self._check_holds()
        if not (self._copies.is_clear(to.position) and self._half_copies.is_clear(to.position)):
            raise BusyError("messages wait before the new log start, and are not copied yet: try again shortly")
        if self._snapshot(to.index) is None:  # this replica could not follow the entry
            raise StorageFailedError(
                f"the log cannot begin after entry {to.index}, because the snapshot for that place is "
                f"damaged: try again "
                "after the next segment"
            )
        draft = log_start_draft(to.index)
        self._replica.check_leads(len(draft.body))
        proposal = StartProposal(draft, self._replica.not_leading)
        self._replica.driver.propose(proposal)
        return proposal

    def _check_holds(self) -> None:
        """Raise LogHeldError if the log has a hold."""
        if self._replica.log_holds.is_held:
            names = ", ".join(self.held_by()) or "a hold that is not committed yet"
            raise LogHeldError(
                f"the log start cannot move while the log is held by {names}: wait, or release the hold with `ledgermq "
                "cluster release NAME`"
            )

    def _messages_before(self, index: int) -> int:
        """Return how many messages of all queues are removed if the log begins after entry `index`. The numbers
        come from the snapshot that is stored for this log start. If the snapshot is damaged, return 0."""
        if (snapshot := self._snapshot(index)) is None:
            return 0
        queues = self._replica.queues
        ends, topics = State.decode(snapshot.state).ends(), self._replica.state.topics
        kept = (end for end in ends if topics.get(end[0]) is not None)  # the other topics were deleted since
        return sum(max(0, offset - queues.get(topic_id, queue).first_offset) for topic_id, queue, offset in kept)

    def _snapshot(self, index: int) -> Snapshot | None:
        log_start = self._replica.driver.log_start
        return log_start.candidate(index) if log_start is not None else None
