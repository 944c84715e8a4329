"""Messages and bytes a second of each topic, from the counters of the nodes, with their history for charts.

A node counts from its start, so a restart begins again at 0. A rate is the growth of all counters between two looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

# The history has ten minutes: a point every two seconds.
MAX_POINTS = 300
KEEP_EVERY_S = 2.0
# Of each point, the history has only the topics with the most traffic.
MAX_TOPICS_OF_POINT = 200
FIELDS = ("messages_in", "bytes_in", "messages_out", "bytes_out")


class CountedTopic(Protocol):
    """The counters of one node for one topic."""

    @property
    def topic(self) -> str: ...
    @property
    def messages_in(self) -> int: ...
    @property
    def bytes_in(self) -> int: ...
    @property
    def messages_out(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TopicRate:
    """Messages and bytes a second."""

    messages_in: float = 0.0
    bytes_in: float = 0.0
    messages_out: float = 0.0
    bytes_out: float = 0.0


@dataclass(slots=True)
class _Counter:
    """What one node has counted for one topic in one run of the node."""

    run: int
    values: tuple[int, ...] = (0, 0, 0, 0)


@dataclass(slots=True)
class _Growth:
    """The growth of one topic since the last point of the history."""

    values: list[int] = field(default_factory=lambda: [0, 0, 0, 0])


class Rates:
    """The rates of all topics. `total` is the sum over all topics."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicRate] = {}
        self.total = TopicRate()
        # The sums over all topics, a point every `KEEP_EVERY_S`. `points` counts all points that there ever were.
        self.history: deque[TopicRate] = deque(maxlen=MAX_POINTS)
        self.points = 0
        # The topics of each point of `history` that had traffic.
        self._of_topics: deque[dict[str, TopicRate]] = deque(maxlen=MAX_POINTS)
        self._counters: dict[tuple[int, str], _Counter] = {}
        self._growth: dict[str, _Growth] = {}
        self._since_s: float | None = None
        self._began = False

    def count(self, node: int, run: int, topics: Iterable[CountedTopic]) -> None:
        """Take the counters of a node. What a node counted before the first look is no growth."""
        for topic in topics:
            values = (topic.messages_in, topic.bytes_in, topic.messages_out, topic.bytes_out)
            known = self._counters.get((node, topic.topic))
            before = known.values if known is not None and known.run == run else (0, 0, 0, 0)
            self._counters[node, topic.topic] = _Counter(run, values)
            if known is None and not self._began:
                continue
            growth = self._growth.setdefault(topic.topic, _Growth()).values
            for place, (new, old) in enumerate(zip(values, before, strict=True)):
                growth[place] += max(0, new - old)

    def looked(self, now_s: float) -> None:
        """All nodes have been asked at `now_s`. Compute the rates if the last ones are old enough."""
        if self._since_s is None:
            self._since_s, self._began = now_s, True
            return
        seconds = now_s - self._since_s
        if seconds < KEEP_EVERY_S:
            return
        self.topics = {
            topic: TopicRate(*(value / seconds for value in growth.values)) for topic, growth in self._growth.items()
        }
        self.total = TopicRate(*(sum(getattr(rate, name) for rate in self.topics.values()) for name in FIELDS))
        self.history.append(self.total)
        self._of_topics.append(_busiest(self.topics))
        self.points += 1
        self._growth.clear()
        self._since_s = now_s

    def history_of(self, topic: str) -> list[TopicRate]:
        """Return the history of one topic, with as many points as `history`."""
        return [point.get(topic, _NOTHING) for point in self._of_topics]


_NOTHING = TopicRate()


def _busiest(topics: Mapping[str, TopicRate]) -> dict[str, TopicRate]:
    """Return the topics with traffic, and not more than `MAX_TOPICS_OF_POINT` of them."""
    busy = {topic: rate for topic, rate in topics.items() if rate != _NOTHING}
    if len(busy) <= MAX_TOPICS_OF_POINT:
        return busy
    order = sorted(busy, key=lambda topic: busy[topic].bytes_in + busy[topic].bytes_out, reverse=True)
    return {topic: busy[topic] for topic in order[:MAX_TOPICS_OF_POINT]}
