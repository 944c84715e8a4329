"""Follows the newest messages of a topic, with a bounded number of messages, queues and requests in each turn.

    offsets of all queues ──> which queues have grown ──> the last messages of some of them ──> lines, and a count of
                                                                                                what was left out

A tail has no consumer group and no position that outlives it. It never falls behind: what does not fit in a turn is
left out, and counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.console.reading import MessageLine, TopicReader, line_of
from ledger.client.connection.route_table import RoutedTopic

LINES_A_TURN = 20
QUEUES_A_TURN = 8
# After this many turns, the tail looks whether the topic has more queues.
TURNS_A_TOPIC = 20


@dataclass(frozen=True, slots=True)
class TailTurn:
    """The news of one turn: messages, the newest first, and how many others there were."""

    lines: list[MessageLine]
    left_out: int


class Tail:
    """Follows one topic. The first turn has the last messages that the topic has already."""

    def __init__(self, reader: TopicReader, name: str, line_bytes: int) -> None:
        self._reader = reader
        self._name = name
        self._line_bytes = line_bytes
        self._topic: RoutedTopic | None = None
        # The end of each queue at the last turn.
        self._ends: dict[int, int] = {}
        self._turns = 0

    @property
    def shards(self) -> int:
        """How many shards each turn asks; 0 before the first turn."""
        return 0 if self._topic is None else len(set(self._topic.shards))

    async def turn(self) -> TailTurn:
        """Return the news since the last turn. Raises LedgerError; the next turn goes on where this one began."""
        if self._topic is None or self._turns % TURNS_A_TOPIC == 0:
            await self._look_up()
        topic = self._topic
        assert topic is not None, "the topic was looked up"
        self._turns += 1
        is_first = not self._ends
        offsets = await self._reader.offsets(topic)
        ends = {one.queue: one.end_offset for one in offsets}
        # A queue that was not there before is new, and is shown from its first message on.
        begins = {one.queue: one.first_offset if is_first else self._ends.get(one.queue, 0) for one in offsets}
        begins = {one.queue: max(one.first_offset, begins[one.queue]) for one in offsets}
        grown = [queue for queue in ends if ends[queue] > begins[queue]]
        lines: list[MessageLine] = []
        for queue in self._chosen(grown):
            share = max(1, LINES_A_TURN // min(len(grown), QUEUES_A_TURN))
            begin = max(begins[queue], ends[queue] - share)
            messages = await self._reader.newest(topic, queue, begin, ends[queue])
            lines += [line_of(message, self._line_bytes) for message in messages]
        left_out = 0 if is_first else sum(ends[queue] - begins[queue] for queue in grown) - len(lines)
        self._ends = ends
        lines.sort(key=lambda one: (one.append_time_ms, one.offset), reverse=True)
        return TailTurn(lines, left_out)

    def _chosen(self, grown: list[int]) -> list[int]:
        """Return the queues of this turn. If too many have grown, they take turns."""
        if len(grown) <= QUEUES_A_TURN:
            return grown
        start = self._turns * QUEUES_A_TURN % len(grown)
        return (grown[start:] + grown[:start])[:QUEUES_A_TURN]

    async def _look_up(self) -> None:
        topic = await self._reader.topic(self._name)
        if self._topic is not None and topic.topic_id != self._topic.topic_id:
            self._ends = {}  # the topic was deleted and created again
        self._topic = topic
