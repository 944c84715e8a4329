"""The leader moves the log's start: where it may begin, what would go by that, and the entry that says so.

An operator and retention move it the same way, on the leader, whose log and holds are the newest there are: what
holds the log is applied here, or on its way from here. All replicas follow when that entry is applied.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.produce.proposals import StartProposal
from ledger.broker.retention.retention import Candidate, newest_before
from ledger.errors import LogHeldError, StorageFailedError, UnknownTopicError, out_of_range
from ledger.state import State
from raft.log_start import log_start_draft
from store import Snapshot


@dataclass(frozen=True, slots=True)
class Cut:
    """What goes where the log begins with `first_index`. `newest_ms`: append time of the newest entry that goes, in ms
    since 1970. `bytes_kept` is what stays."""

    first_index: int
    entries: int
    size: int
    messages: int
    newest_ms: int
    bytes_kept: int


class LogTrim:
    """Of one shard, on a node that may lead it."""

    def __init__(self, replica: BrokerReplica) -> None:
        self._replica = replica

    def candidates(self) -> list[Candidate]:
        """Where the log may begin, ascending: a base is kept there, and what follows is applied."""
        replica, log = self._replica, self._replica.log
        log_start = replica.driver.log_start
        kept = log_start.candidates() if log_start is not None else []
        here = [index for index in kept if log.first_index <= index < replica.driver.applied]
        return [Candidate(index, log.reading.position(index + 1)) for index in here]

    # -- what is to stay

    def keeping_since(self, time_ms: int) -> Candidate | None:
        """The entries that were appended at that time or later stay."""
        log, candidates = self._replica.log, self.candidates()
        older = bisect_left(candidates, time_ms, key=lambda each: log.reading.header(each.index).append_time_ms)
        return candidates[older - 1] if older else None

    def keeping_bytes(self, size: int) -> Candidate | None:
        return newest_before(self.candidates(), self._replica.log.end - size)

    def keeping_from(self, topic_name: str, queue: int, offset: int) -> Candidate | None:
        """The messages of that queue from that offset on stay. Raises UnknownTopicError, UnknownQueueError,
        OffsetBeyondEndError."""
        state, log = self._replica.state, self._replica.log
        topic = state.topics.named(topic_name)
        if topic is None:
            raise UnknownTopicError(f"there is no topic {topic_name!r}: check the name")
        state.topics.require(topic.topic_id, queue)
        units, end = self._replica.queues.get(topic.topic_id, queue), state.next_offset(topic.topic_id, queue)
        if offset > end:
            sentence = f"offset {offset} lies beyond the end of queue {queue} of topic {topic_name!r}"
            raise out_of_range(sentence, offset, units.first_offset, end)
        if offset < units.first_offset:
            return None
        found = units.read(offset, 1)
        return newest_before(self.candidates(), int(found["position"][0]) if len(found) else log.end)

    # -- the move

    def cut(self, to: Candidate | None) -> Cut:
        """What would go by it; with None nothing does."""
        log = self._replica.log
        if to is None:
            return Cut(0, 0, 0, 0, 0, log.end - log.start)
        header = log.reading.header(to.index)
        return Cut(
            first_index=to.index + 1,
            entries=to.index + 1 - log.first_index,
            size=header.end - log.start,
            messages=self._messages_before(to.index),
            newest_ms=header.append_time_ms,
            bytes_kept=log.end - to.position,
        )

    def held_by(self) -> Sequence[str]:
        """The names of all holds."""
        return [hold.name for hold in self._replica.state.holds]

    def move(self, to: Candidate) -> StartProposal:
        """Proposes it; done when it is applied here. Raises LedgerError: LogHeldError where somebody holds the log,
        StorageFailedError where the base that was kept there is damaged."""
        if self._replica.is_held:
            names = ", ".join(self.held_by()) or "a hold that is being taken"
            raise LogHeldError(
                f"nothing of the log goes while it is held by {names}: wait, or release it with `ledgermq cluster "
                "release NAME`"
            )
        if self._snapshot(to.index) is None:  # nothing would move here, and it would be proposed again and again
            raise StorageFailedError(
                f"the log cannot begin behind entry {to.index}: the base that was kept there is damaged; it can at "
                "another place, with the next segment"
            )
        draft = log_start_draft(to.index)
        self._replica.check_leads(len(draft.body))
        proposal = StartProposal(draft, self._replica.not_leading)
        self._replica.driver.propose(proposal)
        return proposal

    def _messages_before(self, index: int) -> int:
        """How many messages of all queues go, as the base that is kept there tells."""
        if (snapshot := self._snapshot(index)) is None:
            return 0
        queues = self._replica.queues
        ends, topics = State.decode(snapshot.state).ends(), self._replica.state.topics
        kept = (end for end in ends if topics.get(end[0]) is not None)  # the others were deleted since
        return sum(max(0, offset - queues.get(topic_id, queue).first_offset) for topic_id, queue, offset in kept)

    def _snapshot(self, index: int) -> Snapshot | None:
        log_start = self._replica.driver.log_start
        return log_start.candidate(index) if log_start is not None else None
