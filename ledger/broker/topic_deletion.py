"""A topic is deleted in group 0, and then nothing is left of it in any other group.

    DeleteTopic in 0 ──every node hears of it──> the leader of each other group has the same entry there

The one idea: group 0 is on every node, so the leader of any group sees in its own node's replica of it which topics
were deleted; whatever is left of one in its group, from before or by an opening that came late, it deletes there. So
nobody need remember what is under way, and a failover anywhere changes nothing.

It must not know how another node is asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from ledger.broker.replica import Replica
from ledger.broker.replicas import Replicas
from ledger.broker.topic_commands import delete_topic
from ledger.errors import BusyError, LedgerError, ReplicaBehindError, UnknownTopicError
from ledger.topics import TOPICS_GROUP

log = logging.getLogger("ledger.topics")

LOOK_S = 1.0
"""Between looks at what is left."""
PATIENCE_S = 4.0
"""How long a client's request waits for the other groups before it is told to come again; they go on by themselves."""


class OtherLeaders(Protocol):
    """The leaders of groups, wherever they are."""

    async def drop_topic(self, group: int, topic_id: int) -> None:
        """Returns once nothing is left there of a topic that was deleted. Raises LedgerError."""


class TopicDeletion:
    """`run` it as long as the node runs."""

    def __init__(self, replicas: Replicas, leaders: OtherLeaders) -> None:
        self._replicas = replicas
        self._leaders = leaders
        self._seen: dict[int, tuple[int, int, int]] = {}
        """By group, as of what the last look found nothing left there."""

    async def delete(self, topic_id: int) -> None:
        """Returns when nothing of the topic is left anywhere; to ask once more is no error. Raises LedgerError:
        UnknownTopicError where there never was such a topic, BusyError where it is deleted and other groups take
        long."""
        replica = self._replicas.topics
        replica.check_leads(0)
        topics = replica.state.topics
        topic = topics.get(topic_id)
        if topic is None and not topics.was_deleted(topic_id):
            raise UnknownTopicError(f"there is no topic with id {topic_id}")
        groups: Sequence[int] = replica.state.groups.numbers
        if topic is not None:
            groups = sorted(set(topic.groups))
            await asyncio.shield(delete_topic(replica, topic_id))
            log.info("topic %s (%d) is deleted", topic.name, topic_id)
        await self._everywhere(topic_id, [group for group in groups if group != TOPICS_GROUP])

    async def drop(self, replica: Replica, topic_id: int) -> None:
        """Of a topic that was deleted: returns when nothing is left in that group. Raises ReplicaBehindError where this
        node has not heard of that, or another LedgerError."""
        replica.check_leads(0)
        if not self._replicas.topics.state.topics.was_deleted(topic_id):
            raise ReplicaBehindError(f"that topic {topic_id} was deleted has not come to this node yet: try again")
        if replica.state.topics.get(topic_id) is not None:
            await asyncio.shield(delete_topic(replica, topic_id))

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for replica in self._replicas:
                if replica.group != TOPICS_GROUP:
                    await self._look(replica)

    async def _everywhere(self, topic_id: int, groups: Sequence[int]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*(self._drop_in(group, topic_id) for group in groups))
        except (LedgerError, TimeoutError) as trouble:
            why = trouble if isinstance(trouble, LedgerError) else "it takes long"
            raise BusyError(f"topic {topic_id} is deleted, but not gone everywhere yet ({why}): it goes on") from None

    async def _drop_in(self, group: int, topic_id: int) -> None:
        replica = self._replicas.get(group)
        if replica is not None and replica.knows_the_end:
            await self.drop(replica, topic_id)
        else:
            await self._leaders.drop_topic(group, topic_id)

    async def _look(self, replica: Replica) -> None:
        """Deletes what is left there of topics that were deleted, if this node leads that group."""
        if self._replicas.first is None or not replica.leading_term:
            return
        first = self._replicas.first.state.topics
        now = (first.changed_at, replica.state.topics.changed_at, replica.leading_term)
        if self._seen.get(replica.group) == now:
            return
        left = [topic.topic_id for topic in replica.state.topics if first.was_deleted(topic.topic_id)]
        try:
            for topic_id in left:
                await self.drop(replica, topic_id)
        except LedgerError as trouble:
            log.info("group %d: deleted topics are still to go: %s", replica.group, trouble)
            return
        if not left:
            self._seen[replica.group] = now
