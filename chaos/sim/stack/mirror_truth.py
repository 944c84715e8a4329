"""Compares the copies of a mirror with the messages that they were made from.

The mirror copies topics of the simulated cluster to other topics of the same cluster. The numbers of a copied batch
name the offsets of its messages at the source. So each committed copy tells which messages it must have:

    source  t0       0 1 2 3 4 5 6 7          committed messages, from the history of the load
    target  copy-t0  0 1 2 3 4                each once, in order, none left out but those that the source had trimmed

At the end of a run, everything is copied. Only a batch with look-up keys may hold a queue up: it must wait while the
shard of the copy has a lower feature level, because a node keeps an older program or has lost its disk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from chaos.sim.stack.roster import Rosters
from chaos.sim.stack.workload_history import COPY, LoadHistory, MessagePlace, name_of
from ledger.batch import Batch, BatchHeader
from ledger.batch.header import LOOK_UP_KEYS
from ledger.broker.broker_replica import BrokerReplica
from ledger.mirror.numbering import CopyNumbering
from ledger.state import feature_levels
from ledger.topics import TOPICS_SHARD
from store import Header


class MirrorTruth:
    """The copies of one run. `fail(invariant, what)` records a violation."""

    def __init__(self, history: LoadHistory, rosters: Rosters, fail: Callable[[str, str], None]) -> None:
        # Whether a mirror has run.
        self.is_wanted = False
        # Committed copies of all queues.
        self.copied = 0
        self._history = history
        self._rosters = rosters
        self._fail = fail
        # Topic id of a copy -> the name of its source.
        self._sources: dict[int, str] = {}
        # Source queue -> the offset at the source behind its last copy.
        self._ends: dict[tuple[str, int], int] = {}
        # Topic id and queue of a source -> the offsets of the messages in batches with look-up keys.
        self._with_keys: dict[tuple[int, int], set[int]] = defaultdict(set)

    def applied(self, replica: BrokerReplica) -> None:
        """Learn the topics that are copies from a replica of shard 0 that has applied an entry."""
        if self.is_wanted:
            for topic in replica.state.topics:
                if topic.name.startswith(COPY):
                    self._sources[topic.topic_id] = topic.name.removeprefix(COPY)

    def is_copy(self, topic_id: int) -> bool:
        return topic_id in self._sources

    def at_source(self, header: Header, batch: BatchHeader) -> None:
        """Learn the next committed batch of a topic that a mirror may copy."""
        if batch.columns & LOOK_UP_KEYS:
            offsets = range(header.base_offset, header.base_offset + batch.count)
            self._with_keys[header.topic_id, header.queue].update(offsets)

    def committed(self, header: Header, body: bytes) -> None:
        """Check the next committed batch of a copy."""
        batch = BatchHeader.parse(body)
        copied = CopyNumbering(batch.producer_id >> 16).copied(batch)
        topic, queue = self._sources[header.topic_id], header.queue
        if copied is None:
            self._fail("a copy has only copies", f"another producer wrote to {COPY}{topic}/{queue}")
            return
        end = self._ends.get((topic, queue), 0)
        if copied.first < end:
            told = f"messages {copied.first} to {copied.end - 1} of {topic}/{queue} are copied after message {end - 1}"
            self._fail("a mirror copies each message once, in order", told)
        if copied.first > max(end, self._history.first_offset(topic, queue)):
            told = f"messages {end} to {copied.first - 1} of {topic}/{queue} are not copied, and were not trimmed"
            self._fail("a mirror leaves out nothing that the source has", told)
        self._ends[topic, queue] = copied.end
        self.copied += batch.count
        for offset, value in enumerate(Batch(body).values(), copied.first):
            sent = self._history.at(MessagePlace(topic, queue, offset))
            if sent is None or sent.name != name_of(value):
                told = f"{value[:40]!r} is the copy of {topic}/{queue} at {offset}, which is {sent or 'not committed'}"
                self._fail("a copy is the message of the source", told)

    def unsettled(self) -> Iterator[str]:
        """Yield a phrase for each queue whose messages are not all copied, though the target can take the next one."""
        for (topic, queue), end in self._history.ends().items() if self.is_wanted else ():
            copied = self._ends.get((topic, queue), 0)
            following = max(copied, self._history.first_offset(topic, queue))
            if following < end and not self._must_wait(topic, queue, following):
                yield f"the mirror has copied {copied} of {end} of {topic}/{queue}"

    def _must_wait(self, name: str, queue: int, offset: int) -> bool:
        """Return True if the shard of the copy does not allow the batch of this message."""
        first = self._rosters.leading(TOPICS_SHARD)
        topics = None if first is None else first.state.topics
        source, copy = (None, None) if topics is None else (topics.named(name), topics.named(COPY + name))
        if source is None or copy is None or queue >= copy.queues:
            return False
        if offset not in self._with_keys[source.topic_id, queue]:
            return False
        replica = self._rosters.leading(copy.shards[queue])
        return replica is not None and replica.state.feature_level < feature_levels.LOOK_UP_KEYS
