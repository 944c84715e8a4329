"""Checks which member of a consumer group owns each queue, in the applied state of a coordinator. A queue never has
two owners. A queue gets a new owner only after the old owner has released the queue, has left or was removed.

    A ──(A releases, leaves, or is removed)──> B          under a new epoch, which is unique

After each entry, the check compares the owners of queues before the entry with the owners after the entry. An entry is
allowed to change the owner of a queue only if its command concerns this queue.
"""

from __future__ import annotations

from collections.abc import Callable

from ledger.state import ConsumerGroup
from ledger.state.consumer_group_table import ConsumerGroupTable, QueueShare, TopicQueueId
from ledger.v1 import command_pb2

Fail = Callable[[str, str], None]
Shares = dict[TopicQueueId, QueueShare]
_CHANGES = ("join_consumer_group", "leave_consumer_group", "assign_queues", "release_queues", "renew_queues")
# These remove all members, because another shard coordinates the group.
_MOVES = ("place_coordinator", "host_group", "close_group")


class SharesSeen:
    """Records the owners of queues in all consumer groups that one shard coordinates."""

    def __init__(self, fail: Fail) -> None:
        self.rebalances = 0
        # (consumer group, queue, epoch) -> the member that got the queue.
        self.issued: dict[tuple[str, TopicQueueId, int], str] = {}
        # The same key -> kind of the command that ended this ownership.
        self.ended: dict[tuple[str, TopicQueueId, int], str] = {}
        self._fail = fail
        self._shares: dict[str, Shares] = {}

    def applied(self, command: command_pb2.Command, index: int, groups: ConsumerGroupTable) -> str:
        """Check the effect of an applied command on the owners of queues. Return the command's consumer group, or
        "" if the command cannot change members or owners."""
        kind = command.WhichOneof("command")
        if kind not in (*_CHANGES, *_MOVES):
            return ""
        name = str(getattr(command, kind).consumer_group)
        before, after = self._shares.get(name, {}), _copy(groups.get(name))
        for queue in [*before, *(queue for queue in after if queue not in before)]:
            was, now = before.get(queue, QueueShare("", 0, "")), after.get(queue, QueueShare("", 0, ""))
            if (was.owner, was.epoch) != (now.owner, now.epoch):
                if was.owner:
                    self.ended[name, queue, was.epoch] = kind
                self._changed(f"queue {queue.queue} of topic {queue.topic_id} for {name}", command, queue, was, now)
            if now.owner:
                self._given(name, queue, now)
        self.rebalances += kind == "assign_queues"
        self._shares[name] = after
        return name

    def _changed(
        self, what: str, command: command_pb2.Command, queue: TopicQueueId, was: QueueShare, now: QueueShare
    ) -> None:
        renewed = command.WhichOneof("command") == "renew_queues" and now.owner == was.owner
        if was.owner and not renewed and not _lets_go(command, queue, was):
            self._fail("one owner", f"{what} goes from {was.owner}, who has not released it, to {now.owner!r}")
        if now.owner and now.epoch <= was.epoch:
            self._fail("epochs never go back", f"{what} has epoch {now.epoch} after epoch {was.epoch}")

    def _given(self, name: str, queue: TopicQueueId, share: QueueShare) -> None:
        first = self.issued.setdefault((name, queue, share.epoch), share.owner)
        if first != share.owner:
            self._fail("one owner", f"{queue} of {name} belongs to {first} and {share.owner} under epoch {share.epoch}")


def _lets_go(command: command_pb2.Command, queue: TopicQueueId, share: QueueShare) -> bool:
    """Return True if this command releases the queue, or removes the queue's owner from the consumer group."""
    if command.WhichOneof("command") in _MOVES:
        return True
    released, left = command.release_queues, command.leave_consumer_group
    queues = [(each.topic_id, each.queue, each.epoch) for each in released.queues]
    gives = released.member == share.owner and (*queue, share.epoch) in queues
    return gives or share.owner in left.members


def _copy(group: ConsumerGroup | None) -> Shares:
    if group is None:
        return {}
    return {queue: QueueShare(share.owner, share.epoch, share.target) for queue, share in group.shares.items()}
