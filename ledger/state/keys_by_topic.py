"""An index of a table's keys by topic, so that the deletion of a topic does not look at the keys of other topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar


class TopicKey(Protocol):
    """A key that names a queue of a topic. It can be a key of a dict."""

    @property
    def topic_id(self) -> int: ...


K = TypeVar("K", bound=TopicKey)


class KeysByTopic(Generic[K]):
    """The keys of one table. Their order is no part of the state."""

    def __init__(self, keys: Iterable[K] = ()) -> None:
        # By topic id. No topic is here without a key. The inner ones are dicts, because a set has no order.
        self._keys: dict[int, dict[K, None]] = {}
        for key in keys:
            self.add(key)

    def add(self, key: K) -> None:
        self._keys.setdefault(key.topic_id, {})[key] = None

    def remove(self, key: K) -> None:
        """Remove a key that is there."""
        of_topic = self._keys[key.topic_id]
        del of_topic[key]
        if not of_topic:
            del self._keys[key.topic_id]

    def of(self, topic_id: int) -> list[K]:
        """Return the keys of a topic."""
        return list(self._keys.get(topic_id, ()))
