"""Compares the copies of a mirror with the messages that they were made from.

The mirror copies topics of the simulated cluster to other topics of the same cluster. The numbers of a copied batch
name the offsets of its messages at the source. So each committed copy tells which messages it must have:

    source  t0       0 1 2 3 4 5 6 7          committed messages, from the history of the load
    target  copy-t0  0 1 2 3 4                each once, in order, none left out but those that the source had trimmed
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chaos.sim.stack.workload_history import COPY, LoadHistory, MessagePlace, name_of
from ledger.batch import Batch, BatchHeader
from ledger.broker.broker_replica import BrokerReplica
from ledger.mirror.numbering import CopyNumbering
from store import Header


class MirrorTruth:
    """The copies of one run. `fail(invariant, what)` records a violation."""

    def __init__(self, history: LoadHistory, fail: Callable[[str, str], None]) -> None:
        # Whether a mirror has run.
        self.is_wanted = False
        # Committed copies of all queues.
        self.copied = 0
        self._history = history
        self._fail = fail
        # Topic id of a copy -> the name of its source.
        self._sources: dict[int, str] = {}
        # Source queue -> the offset at the source behind its last copy.
        self._ends: dict[tuple[str, int], int] = {}

    def applied(self, replica: BrokerReplica) -> None:
        """Learn the topics that are copies from a replica of shard 0 that has applied an entry."""
        if self.is_wanted:
            for topic in replica.state.topics:
                if topic.name.startswith(COPY):
                    self._sources[topic.topic_id] = topic.name.removeprefix(COPY)

    def is_copy(self, topic_id: int) -> bool:
        return topic_id in self._sources

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
        """Yield a phrase for each queue whose messages are not all copied."""
        for (topic, queue), end in self._history.ends().items() if self.is_wanted else ():
            copied = self._ends.get((topic, queue), 0)
            if copied < end and self._history.first_offset(topic, queue) < end:
                yield f"the mirror has copied {copied} of {end} of {topic}/{queue}"
