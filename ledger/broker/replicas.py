"""The groups that this node has a replica of, by number, and which of them a queue lives in.

The one idea: group 0 is on every node and has all topics, so it says where a queue lives, and that a topic was deleted;
while this node has not heard of a topic there, a group that the topic was opened in says so too.

It must not know how a replica comes to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ledger.broker.replica import Replica
from ledger.errors import InvalidArgumentError, NotLeaderError, UnavailableError, UnknownTopicError
from ledger.state import Topic
from ledger.topics import TOPICS_GROUP


class Replicas:
    """Of groups that have started here. They only ever come."""

    def __init__(self, why_not: Callable[[int], str] = lambda _: "") -> None:
        """`why_not(group)`: what that group waits for on this node; empty where it is not here."""
        self._why_not = why_not
        self._by_group: dict[int, Replica] = {}

    def add(self, replica: Replica) -> None:
        self._by_group[replica.group] = replica
        self._by_group = dict(sorted(self._by_group.items()))

    def __iter__(self) -> Iterator[Replica]:
        """By number of the group."""
        return iter(self._by_group.values())

    def get(self, group: int) -> Replica | None:
        return self._by_group.get(group)

    @property
    def first(self) -> Replica | None:
        """Of group 0, which has the topics, and whose members are the cluster's nodes."""
        return self._by_group.get(TOPICS_GROUP)

    @property
    def topics(self) -> Replica:
        """The same. Raises UnavailableError before it has started."""
        if (replica := self.first) is None:
            reason = self._why_not(TOPICS_GROUP) or "it waits for the others' first start"
            raise UnavailableError(f"this node does not serve yet: {reason}")
        return replica

    def require(self, group: int) -> Replica:
        """Raises UnavailableError where this node, or that group here, has not started, InvalidArgumentError where
        there is no such group, NotLeaderError where it is on other nodes."""
        if (replica := self._by_group.get(group)) is not None:
            return replica
        groups = self.topics.state.groups
        if group not in groups:
            raise InvalidArgumentError(f"there is no group {group}: the last one is {groups.numbers[-1]}")
        if reason := self._why_not(group):
            raise UnavailableError(f"this node does not serve group {group} yet: {reason}")
        if self.topics.membership.node in groups.nodes(group):
            raise UnavailableError(f"group {group} has not started on this node yet: try again shortly")
        raise NotLeaderError(f"this node has no replica of group {group}: ask one that has")

    def topic(self, topic_id: int) -> Topic | None:
        """As group 0 has it here, or a group that it was opened in; None where group 0 knows that it was deleted."""
        topics = self.topics.state.topics
        found = topics.get(topic_id)
        if found is None and not topics.was_deleted(topic_id):
            found = next((topic for each in self if (topic := each.state.topics.get(topic_id)) is not None), None)
        return found

    def of_queue(self, topic_id: int, queue: int) -> Replica:
        """Where that queue lives; group 0 where nobody here knows such a queue: it says so. Raises as `require`, and
        UnknownTopicError where the topic was deleted, whoever leads."""
        topic = self.topic(topic_id)
        if topic is None and self.topics.state.topics.was_deleted(topic_id):
            raise UnknownTopicError(f"topic {topic_id} was deleted")
        return self.require(topic.groups[queue]) if topic is not None and queue < topic.queues else self.topics
