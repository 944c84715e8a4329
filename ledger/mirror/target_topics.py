"""Creates the topics of the target, and gives them more queues when the source has more."""

from __future__ import annotations

from ledger.client.connection.route_table import RoutedTopic
from ledger.errors import UnknownTopicError
from ledger.mirror.cluster_access import ClusterAccess
from ledger.mirror.mirror_errors import MirrorRefusedError

# Topics of these types take no plain messages, and copies are plain messages.
_OF_WAITING_MESSAGES = ("delay", "transaction")


class TargetTopics:
    """The topics of the target that one mirror writes. Each has as many queues as its source, or more."""

    def __init__(self, access: ClusterAccess, *, creates: bool) -> None:
        self._access = access
        self._creates = creates

    async def prepare(self, source: RoutedTopic, name: str) -> RoutedTopic:
        """Return the topic `name` of the target, with at least the queues of `source`. Raises MirrorRefusedError if it
        is missing and may not be created, or takes no copies."""
        client, queues = self._access.client, len(source.shards)
        try:
            topic = await client.topic(name, newest=True)
        except UnknownTopicError:
            if not self._creates:
                raise MirrorRefusedError(
                    f"The target has no topic {name!r}: create it with `ledgermq topic create {name} --queues "
                    f"{queues}`, or leave out --no-create."
                ) from None
            kind = "mixed" if source.type in _OF_WAITING_MESSAGES else source.type
            await self._access.admin.create_topic(name, queues, exist_ok=True, type=kind)
            topic = await client.topic(name, newest=True)
        if topic.type in _OF_WAITING_MESSAGES:
            raise MirrorRefusedError(
                f"Topic {name!r} at the target has the type {topic.type}, which takes no copies: change it while the "
                f"mirror runs (`ledgermq topic alter {name} --type mixed`)."
            )
        if len(topic.shards) < queues:
            if not self._creates:
                raise MirrorRefusedError(
                    f"Topic {name!r} at the target has {len(topic.shards)} queues, and {queues} at the source: run "
                    f"`ledgermq topic alter {name} --queues {queues}`, or leave out --no-create."
                )
            await self._access.admin.alter_topic(name, queues)
            topic = await client.topic(name, newest=True)
        return topic
