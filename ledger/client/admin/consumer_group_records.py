"""What the admin client returns about consumer groups: immutable values without protobuf types."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.client.records import TopicQueue


@dataclass(frozen=True, slots=True)
class ConsumerGroupSummary:
    """A consumer group in a few figures.

    `lag`: messages in its topics that it has not consumed, and the oldest of them was appended `lag_s` seconds ago.
    `retries`: messages that wait to be consumed again, or are due and not consumed yet. `dead_letters`: those that were
    given up and are kept. `strategy` is empty where it has no members, and "broadcast" where this is one consumer of a
    broadcast, called `consumer group@instance`, of which it is not known whether it runs."""

    name: str
    members: int
    strategy: str
    queues: int
    lag: int
    lag_s: float
    retries: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """One member, and the queues that are its own at the moment."""

    member: str
    client_id: str
    room: str
    session_timeout_ms: int
    queues: tuple[TopicQueue, ...]


@dataclass(frozen=True, slots=True)
class QueueConsumption:
    """One queue of a consumer group.

    owner, epoch   the member that consumes it, and the number by which it got it; empty and 0: nobody does
    next_owner     who is to have it; another one than `owner` while the queue moves
    offset         the first message that is not consumed; None, as are all below: it has not begun with this queue
    settled        so many behind that one are somewhere else by now: in the retry topic, or with the dead letters
    lag, lag_s     messages that are not consumed, and how many seconds ago the first of them was appended
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


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """`rebalancing`: members have changed, and the queues are not assigned anew yet."""

    name: str
    strategy: str
    rebalancing: bool
    members: tuple[ConsumerGroupMember, ...]
    # By topic and queue, those of the retry topic among them.
    queues: tuple[QueueConsumption, ...]


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """Where a consumer group was with a queue (None: it had not begun), and where it goes on."""

    topic: str
    queue: int
    before: int | None
    after: int
