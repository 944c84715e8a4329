"""The topics that exist, by id and by name.

The one idea: ids count up from 1 and are never used twice, so whatever bears the id of a topic can never be taken for a
later topic of the same name. It must not know what lies in the queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ledger.errors import TopicExistsError, UnknownQueueError, UnknownTopicError


@dataclass(frozen=True, slots=True)
class Topic:
    """A named stream of so many queues."""

    topic_id: int
    name: str
    queues: int
    created_ms: int


class TopicTable:
    """Every topic, in the order of creation."""

    def __init__(self, topics: Iterable[Topic] = (), next_id: int = 1) -> None:
        self._next_id = next_id
        self._by_id = {topic.topic_id: topic for topic in topics}  # each id < next_id
        self._by_name = {topic.name: topic for topic in self._by_id.values()}  # the same topics

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_id.values())

    @property
    def next_id(self) -> int:
        """The id of the next topic: larger than any that was ever used."""
        return self._next_id

    def get(self, topic_id: int) -> Topic | None:
        """The topic of this id."""
        return self._by_id.get(topic_id)

    def named(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self._by_name.get(name)

    def require(self, topic_id: int, queue: int) -> Topic:
        """The topic of this id, which has this queue; or UnknownTopicError, UnknownQueueError."""
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicError(f"There is no topic with id {topic_id}: ask for the route again.")
        if not 0 <= queue < topic.queues:
            raise UnknownQueueError(f"Topic {topic.name!r} has no queue {queue}: its last one is {topic.queues - 1}.")
        return topic

    def create(self, name: str, queues: int, created_ms: int) -> Topic:
        """A new topic, or TopicExistsError."""
        self.check_free(name)
        topic = Topic(self._next_id, name, queues, created_ms)
        self._next_id += 1
        self._by_id[topic.topic_id] = self._by_name[name] = topic
        return topic

    def check_free(self, name: str) -> None:
        """Raise TopicExistsError if there is a topic of this name."""
        if name in self._by_name:
            raise TopicExistsError(f"Topic {name!r} exists already: use it, or choose another name.")
