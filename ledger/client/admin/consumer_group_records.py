"""The immutable values that the admin client returns about consumer groups."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.client.records import TopicQueue


@dataclass(frozen=True, slots=True)
class ConsumerGroupSummary:
    """The main figures of one consumer group, or of one consumer of a broadcast.

    Fields:

        name          the consumer group's name; for a consumer of a broadcast, the group's name, "@" and the instance
        members       the number of members; always 0 for a broadcast, because its consumers do not join
        strategy      the assignment strategy; empty if the group has no members, "broadcast" for a broadcast
        queues        the number of queues that the group has consumed
        lag           the messages in its topics that the group has not consumed
        lag_s         the age of the oldest of these messages in seconds
        retries       the messages in the retry topic that the group has not consumed
        dead_letters  the messages in the group's dead-letter topic
        mode          "shared" for a shared group, whose members lease messages; else "queue"
    """

    name: str
    members: int
    strategy: str
    queues: int
    lag: int
    lag_s: float
    retries: int
    dead_letters: int
    mode: str = "queue"


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """One member of a consumer group, and the queues that it owns at the moment."""

    member: str
    client_id: str
    room: str
    session_timeout_ms: int
    queues: tuple[TopicQueue, ...]


@dataclass(frozen=True, slots=True)
class QueueConsumption:
    """The progress of a consumer group in one queue.

        owner         the member that owns the queue; empty if no member does
        epoch         the consumer epoch of the owner; 0 if the queue has no owner
        next_owner    the member that is to own the queue; differs from `owner` while the queue moves to another member
        offset        the offset of the first message that is not consumed
        settled       the number of messages after `offset` that were moved to the retry topic or to the dead letters
        first_offset  the queue's first kept offset
        end_offset    the offset that the queue's next message gets
        lag           the messages that the group has not consumed
        lag_s         the age of the oldest of these messages in seconds

        leased        of a shared group: the messages whose leases have not ended
        waiting       of a shared group: the messages that were handed out before or passed over, and are not leased now
        window        of a shared group: the offsets from `offset` to the last message that was handed out
        lease_left_s  of a shared group: the seconds until the first of these leases ends; 0 if there is none
        attempts      of a shared group: how often the message was handed out that was handed out most often

    If the group has not begun to consume the queue, `offset` and all fields after it are None. The fields of shared
    groups are None for other groups.
    """

    topic: str
    queue: int
    owner: str = ""
    epoch: int = 0
    next_owner: str = ""
    offset: int | None = None
    settled: int | None = None
    first_offset: int | None = None
    end_offset: int | None = None
    lag: int | None = None
    lag_s: float | None = None
    leased: int | None = None
    waiting: int | None = None
    window: int | None = None
    lease_left_s: float | None = None
    attempts: int | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """The members of a consumer group and its progress in each queue.

    `rebalancing` is True if members have joined or left, and the queues have not been assigned again yet. `queues` is
    sorted by topic and queue, and includes the queues of the retry topic.

    `mode` is "shared" for a shared group, else "queue". A shared group has no members that own queues: `consumers` is
    the number of its consumers that are connected. `order` is "key" if it hands out messages with one key one after
    another. A message that was handed out `max_attempts` times goes to the dead letters. `coordinator` is the shard
    that coordinates the group.
    """

    name: str
    strategy: str
    rebalancing: bool
    members: tuple[ConsumerGroupMember, ...]
    queues: tuple[QueueConsumption, ...]
    mode: str = "queue"
    order: str = ""
    max_attempts: int | None = None
    consumers: int | None = None
    coordinator: int = 0


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The offset of a consumer group in one queue before and after a reset. `before` is None if the group had not begun
    to consume the queue.
    """

    topic: str
    queue: int
    before: int | None
    after: int
