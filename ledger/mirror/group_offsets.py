"""Moves the offsets of consumer groups to the target, so that a group can go on there.

At the target, a group gets the offset of the first message that it has not consumed at the source, or of an earlier
message, but never one behind what is copied. So a group that goes on there may get messages again, and misses none:

    source   c c c c c c c o o o o      c: consumed, o: not consumed
    target     c c c c c o o            not all is copied yet; the group begins at the first o, or at an earlier c

A shared group consumes messages one by one. Its offset is that of the first message that it has not consumed, so it may
get later messages again too. The mirror creates a shared group at the target.

A group is left alone while it has members at the target, and its offsets there never go back. While messages of a group
wait in its retry topic at the source, its offsets stay, because these messages are not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

from ledger.client.admin.consumer_group_records import ConsumerGroupDescription
from ledger.client.admin.consumer_groups_admin import ConsumerGroupsAdmin
from ledger.client.admin.offsets import list_offsets
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.records import TopicQueue
from ledger.consumer_groups import is_broadcast
from ledger.errors import GroupConflictError, LedgerError, UnknownGroupError, UnknownTopicError
from ledger.mirror.copy_tally import CopyTally
from ledger.mirror.queue_copier import QueueCopier
from ledger.retries import retry_topic

# Returns the copier of a queue of the source, or None if the queue is not copied.
CopierOf = Callable[[TopicQueue], QueueCopier | None]


class GroupOffsets:
    """Moves the offsets of the groups whose names match one of `patterns`."""

    def __init__(
        self,
        source: ClusterClient,
        target: ClusterClient,
        patterns: Iterable[str],
        copier_of: CopierOf,
        tally: CopyTally,
    ) -> None:
        self._patterns = tuple(patterns)
        self._source, self._target = source, target
        self._source_groups, self._target_groups = ConsumerGroupsAdmin(source), ConsumerGroupsAdmin(target)
        self._copier_of = copier_of
        self._tally = tally
        # By group: the offsets at the source that the target has, as of the last move.
        self._moved: dict[str, dict[TopicQueue, int]] = {}

    async def move(self) -> None:
        """Move the offsets of all groups once. Raises LedgerError if a cluster does not answer."""
        kept_back = {}
        for each in await self._source_groups.list_all():
            if is_broadcast(each.name) or not any(fnmatchcase(each.name, pattern) for pattern in self._patterns):
                continue
            try:
                reason = await self._move_group(each.name)
            except UnknownGroupError:  # deleted meanwhile
                continue
            if reason:
                kept_back[each.name] = reason
        self._tally.kept_back = kept_back

    async def _move_group(self, name: str) -> str:
        """Move the offsets of one group. Return why they stay, or ""."""
        there = await self._source_groups.describe(name)
        copied = [each for each in there.queues if self._copier_of(TopicQueue(each.topic, each.queue)) is not None]
        if not copied:
            return ""
        if await self._has_retries(there):
            return "messages wait in its retry topic at the source"
        wanted = {TopicQueue(each.topic, each.queue): each.offset for each in copied if each.offset is not None}
        if self._moved.get(name) == wanted:
            return ""
        before = await self._offsets_at_target(name)
        if before is None:
            return "it has members at the target"
        after: dict[TopicQueue, int] = {}
        moved: dict[TopicQueue, int] = {}
        for at_source, consumed in wanted.items():
            copier = self._copier_of(at_source)
            if copier is None or copier.copied is None:
                continue
            moved[at_source] = min(consumed, copier.copied)
            offset = await _translated(copier, moved[at_source])
            place = TopicQueue(copier.target.topic.name, at_source.queue)
            if offset is not None and offset > before.get(place, -1):
                after[place] = offset
        if after:
            try:
                await self._set_offsets(there, after)
            except GroupConflictError:
                return "the target has a group with this name and another mode"
            self._tally.moved[name] += len(after)
        self._moved[name] = moved
        return ""

    async def _set_offsets(self, there: ConsumerGroupDescription, after: Mapping[TopicQueue, int]) -> None:
        """Set offsets of the group at the target. Raises GroupConflictError if it has another mode there."""
        is_shared = there.mode == "shared"
        if is_shared:
            await self._target_groups.create(there.name, "shared", there.order or None, there.max_attempts or 0)
        await self._target_groups.set_offsets(there.name, await self._kept(after), shared=is_shared)

    async def _kept(self, offsets: Mapping[TopicQueue, int]) -> dict[TopicQueue, int]:
        """Return the offsets, or the first ones that the target still has."""
        kept: dict[TopicQueue, int] = {}
        for name in {place.topic for place in offsets}:
            queues = [place.queue for place in offsets if place.topic == name]
            there = await list_offsets(self._target, await self._target.topic(name), queues)
            kept |= {
                TopicQueue(name, queue): max(offsets[TopicQueue(name, queue)], there[queue].first_offset)
                for queue in queues
            }
        return kept

    async def _has_retries(self, described: ConsumerGroupDescription) -> bool:
        """Return True if the retry topic of the group has messages that it has not consumed."""
        try:
            topic = await self._source.topic(retry_topic(described.name))
        except UnknownTopicError:
            return False
        known = {queue.queue: queue for queue in described.queues if queue.topic == topic.name}
        if any(queue.lag for queue in known.values()):
            return True
        others = [queue for queue in range(len(topic.shards)) if queue not in known or known[queue].offset is None]
        ends = await list_offsets(self._source, topic, others) if others else {}
        return any(each.first_offset < each.end_offset for each in ends.values())

    async def _offsets_at_target(self, name: str) -> Mapping[TopicQueue, int] | None:
        """Return the offsets of the group at the target, or None if it has members there."""
        try:
            described = await self._target_groups.describe(name)
        except UnknownGroupError:
            return {}
        if described.members or described.consumers:
            return None
        return {TopicQueue(each.topic, each.queue): each.offset for each in described.queues if each.offset is not None}


async def _translated(copier: QueueCopier, offset: int) -> int | None:
    """Return the offset at the target for an offset at the source. The messages before it are copied. Return None if it
    cannot be told."""
    last = copier.offsets.last
    known = copier.offsets.target_of(offset)
    if known is not None:
        return known
    guess = 0 if last is None else last.target + offset - last.source
    try:
        return await copier.target.target_of(offset, guess)
    except LedgerError as error:
        if error.retriable:
            raise
        return None
