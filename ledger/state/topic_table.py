"""The topics by id and by name, and the shard of each of their queues.

Topic ids count up from 1 and are never reused, so data with a topic's id cannot belong to a later topic with the same
name. Shard 0 creates and deletes topics and stores all of them. Every other shard stores only the topics that have
queues in this shard. Queues are never removed from a topic; new queues are added at the end. Only shard 0 knows the
types of topics: a leader of another shard asks its node's replica of shard 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ledger.errors import TopicExistsError, UnknownQueueError, UnknownTopicError
from ledger.topics import TopicType, is_system_topic


@dataclass(frozen=True, slots=True)
class Topic:
    """A named set of queues. Queue i is in shard `shards[i]`. The first `opened` queues are open for writing."""

    topic_id: int
    name: str
    shards: tuple[int, ...]
    created_ms: int
    opened: int
    # What producers may send to it. Only shard 0 knows it.
    type: TopicType = TopicType.MIXED

    @property
    def queues(self) -> int:
        return len(self.shards)

    @property
    def is_open(self) -> bool:
        """True if all queues of the topic are open."""
        return self.opened == len(self.shards)


class TopicTable:
    """All topics, in the order in which they were added."""

    def __init__(self, topics: Iterable[Topic] = (), next_id: int = 1, changed_at: int = 0) -> None:
        self._next_id = next_id
        # Index of the last entry that changed topics. Of two tables of one shard, the table with the larger index is
        # newer.
        self.changed_at = changed_at
        self._by_id = {topic.topic_id: topic for topic in topics}  # each id < next_id
        # In any shard but 0 two topics may have one name until the earlier topic is deleted here. The later topic is
        # listed.
        self._by_name = {topic.name: topic for _, topic in sorted(self._by_id.items())}
        # The topics of the broker itself, such as retry topics, and the queues of all others.
        self._system = self._queues = 0
        for topic in self._by_id.values():
            self._count(topic, 1)
        # Ids of topics with queues that are not open yet (a dict, because a set has no order).
        self._opening = {topic.topic_id: None for topic in self._by_id.values() if not topic.is_open}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_id.values())

    @property
    def system_count(self) -> int:
        """The number of topics of the broker itself, such as retry topics."""
        return self._system

    @property
    def queue_count(self) -> int:
        """The queues of all topics of users."""
        return self._queues

    @property
    def next_id(self) -> int:
        """The id of the next topic. The next id is larger than every id that was ever used."""
        return self._next_id

    def get(self, topic_id: int) -> Topic | None:
        """Return the topic with this id, or None."""
        return self._by_id.get(topic_id)

    def named(self, name: str) -> Topic | None:
        """Return the topic with this name, or None."""
        return self._by_name.get(name)

    def opening(self) -> list[Topic]:
        """Return the topics with queues that are not open yet."""
        return [self._by_id[topic_id] for topic_id in self._opening]

    def require(self, topic_id: int, queue: int) -> Topic:
        """Return the topic with this id. Raises UnknownTopicError, or UnknownQueueError if the topic does not have
        this queue."""
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicError(f"There is no topic with id {topic_id}: fetch the route again.")
        if not 0 <= queue < topic.queues:
            raise UnknownQueueError(f"Topic {topic.name!r} has no queue {queue}: its last queue is {topic.queues - 1}.")
        return topic

    def delete(self, topic_id: int) -> Topic | None:
        """Remove a topic. Return the removed topic, or None if no topic has this id."""
        topic = self._by_id.pop(topic_id, None)
        self._opening.pop(topic_id, None)
        if topic is not None:
            self._count(topic, -1)
        if topic is not None and self._by_name[topic.name] is topic:
            del self._by_name[topic.name]
            for other in self._by_id.values():
                if other.name == topic.name:
                    self._list(other)
        return topic

    def _list(self, topic: Topic) -> None:
        """List the topic under its name, unless a later topic has the name. So the listed topic depends only on the
        topics that exist, and not on the order in which they were opened and deleted."""
        listed = self._by_name.get(topic.name)
        if listed is None or listed.topic_id <= topic.topic_id:
            self._by_name[topic.name] = topic

    # -- shard 0

    def was_deleted(self, topic_id: int) -> bool:
        """Return True if this topic existed and was deleted. Only the table of shard 0 can answer, because other
        shards do not store all topics."""
        return 0 < topic_id < self._next_id and topic_id not in self._by_id

    def create(
        self, name: str, shards: Sequence[int], created_ms: int, topic_type: TopicType = TopicType.MIXED
    ) -> Topic:
        """Create a topic. If all its queues are in shard 0, the topic is open at once. Raises TopicExistsError."""
        self.check_free(name)
        opened = 0 if any(shards) else len(shards)
        return self._put(Topic(self._next_id, name, tuple(shards), created_ms, opened, topic_type))

    def retype(self, topic_id: int, topic_type: TopicType) -> Topic:
        """Give a topic this type, and return the changed topic. Raises UnknownTopicError."""
        return self._put(replace(self.require(topic_id, 0), type=topic_type))

    def extend(self, topic_id: int, shards: Sequence[int]) -> Topic:
        """Add queues to a topic, and return the changed topic. `shards` must begin with the shards of the existing
        queues; otherwise the topic stays unchanged. Raises UnknownTopicError."""
        topic = self.require(topic_id, 0)
        has_more = len(shards) > topic.queues and tuple(shards[: topic.queues]) == topic.shards
        return self._put(replace(topic, shards=tuple(shards))) if has_more else topic

    def opened(self, topic_id: int, queues: int) -> Topic:
        """Record that the first `queues` queues are open, and return the topic. Raises UnknownTopicError,
        UnknownQueueError."""
        topic = self.require(topic_id, queues - 1)
        return self._put(replace(topic, opened=max(topic.opened, queues)))

    def check_free(self, name: str) -> None:
        """Raise TopicExistsError if a topic has this name."""
        if name in self._by_name:
            raise TopicExistsError(f"Topic {name!r} exists already: use it, or choose another name.")

    # -- any other shard

    def open(self, topic_id: int, name: str, shards: Sequence[int], created_ms: int) -> Topic:
        """Store in this shard a topic that shard 0 has created. If this shard already stores the topic with at
        least as many queues, change nothing. Returns the stored topic."""
        known = self._by_id.get(topic_id)
        if known is not None and known.queues >= len(shards):
            return known
        return self._put(Topic(topic_id, name, tuple(shards), created_ms, len(shards)))

    def _put(self, topic: Topic) -> Topic:
        self._next_id = max(self._next_id, topic.topic_id + 1)
        if (before := self._by_id.get(topic.topic_id)) is not None:
            self._count(before, -1)
        self._count(topic, 1)
        self._by_id[topic.topic_id] = topic
        self._list(topic)
        self._opening.pop(topic.topic_id, None)
        if not topic.is_open:
            self._opening[topic.topic_id] = None
        return topic

    def _count(self, topic: Topic, by: int) -> None:
        if is_system_topic(topic.name):
            self._system += by
        else:
            self._queues += by * topic.queues
