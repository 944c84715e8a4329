"""Which topics are copied, and under which names. No I/O."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ledger.topics import is_system_topic, validate_topic_name

_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class TopicPatterns:
    """`wanted` are names or patterns such as "orders-*". Topics that match `excluded` are not copied, and neither are
    the cluster's own topics. `prefix` begins the names at the target."""

    wanted: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    prefix: str = ""

    @property
    def names(self) -> list[str]:
        """The wanted topics that are given by name."""
        return [each for each in self.wanted if not _WILD & set(each)]

    def target(self, topic: str) -> str:
        """Return the name at the target. Raises InvalidTopicNameError if it is too long."""
        name = self.prefix + topic
        validate_topic_name(name)
        return name

    def takes(self, topic: str, copies: Collection[str] = ()) -> bool:
        """Return True if the topic is to be copied. `copies` are topics that are copies themselves: a pattern does not
        take them, and neither does it take a topic whose name begins with the prefix."""
        if is_system_topic(topic) or any(fnmatchcase(topic, each) for each in self.excluded):
            return False
        if topic in self.wanted:
            return True
        if topic in copies or (self.prefix and topic.startswith(self.prefix)):
            return False
        return any(fnmatchcase(topic, each) for each in self.wanted)
