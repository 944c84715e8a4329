"""The members of shared consumer groups that have an open stream to this node, and their receives that wait.

Members are not replicated: a message is leased to a receive, and a receive that is sent again after a failover names
the attempt id of the first one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from ledger.broker.shared.group_lookup import GroupLookup
from ledger.broker.shared.leased_batches import LeasedBatch
from ledger.errors import ConsumerFencedError, GroupConflictError, GroupFullError, LedgerError
from ledger.filters.parse import MessageFilter
from ledger.state import TopicQueueId
from ledger.state.group_modes import GroupMode
from ledger.state.lease_table import LeaseChange

# Members of one group with a stream to one node.
MAX_SHARED_MEMBERS = 10_000
# Requests of one member that wait for their answers.
MAX_REQUESTS = 64
MAX_TAGS = 256


@dataclass(frozen=True, slots=True)
class SharedTopic:
    """A topic that a member reads. `tag_hashes` has the wanted tags; None: all tags, and messages without one. Of these
    messages the member wants those that match the filter. A group that is new in a queue begins at `start_offset`,
    which may be AT_THE_FIRST or BEHIND_THE_LAST."""

    topic_id: int
    tag_hashes: frozenset[int] | None
    start_offset: int
    filter: MessageFilter | None = None


@dataclass(slots=True)
class Receive:
    """A member waits for messages."""

    number: int
    max_messages: int
    max_bytes: int
    lease_ms: int
    # When it arrived, and when it ends without messages, by the clock of the event loop.
    arrived_s: float
    deadline_s: float
    attempt_id: int
    # The member sends this receive again, because it has not heard whether the first one got messages.
    is_repeated: bool
    # The member does not want messages any more.
    is_cancelled: bool = False
    # A turn has looked for messages for this receive. A receive that does not wait ends after that.
    was_served: bool = False


@dataclass(slots=True)
class Answer:
    """What a member gets for a request: how many messages each change changed, and the messages of a receive."""

    number: int
    changed: list[int] | None = None
    # For each change how many of its messages are consumed now, by this change or before.
    settled: Sequence[int] = ()
    received: Sequence[LeasedBatch] | None = None
    # How long the leases of `received` still last, in ms.
    lease_left_ms: int = 0
    # How long the receive has waited at this node, in ms, rounded down.
    waited_ms: int = 0
    error: LedgerError | None = None

    @property
    def size(self) -> int:
        """The bytes of all batches."""
        return sum(len(batch.body) for batch in self.received or ())


# Behind this answer, the stream has no other.
END = Answer(0)


@dataclass(eq=False)
class SharedMember:
    """One stream of a member. The stream sends the answers of `outbox`, and ends after an error."""

    consumer_group: str
    name: str
    topics: dict[int, SharedTopic]
    lookup: GroupLookup
    # The stream receives nothing, and is no member of the group.
    only_changes: bool = False
    outbox: deque[Answer] = field(default_factory=deque)
    has_answers: asyncio.Event = field(default_factory=asyncio.Event)
    # Set while the member has fewer than MAX_REQUESTS requests without an answer.
    has_room: asyncio.Event = field(default_factory=asyncio.Event)
    # Requests that have no answer yet.
    requests: int = 0
    # Bytes of answers that are not sent.
    unsent_bytes: int = 0

    def __post_init__(self) -> None:
        self.has_room.set()

    @property
    def mode(self) -> GroupMode | None:
        """The mode of the group, or None if it was deleted."""
        return self.lookup.mode(self.consumer_group)

    def wants_otherwise(self, other: SharedMember) -> bool:
        """Return True if the other member wants other messages of a topic that both read."""
        return any(
            (topic.tag_hashes, topic.filter) != (mine.tag_hashes, mine.filter)
            for topic_id, topic in other.topics.items()
            if (mine := self.topics.get(topic_id)) is not None
        )

    def asked(self) -> None:
        """Count a request."""
        self.requests += 1
        if self.requests >= MAX_REQUESTS:
            self.has_room.clear()

    def answer(self, answer: Answer) -> None:
        """Give an answer to the stream."""
        self.outbox.append(answer)
        self.unsent_bytes += answer.size
        self.has_answers.set()

    def next_answer(self) -> Answer:
        """Return the next answer that the stream sends. Raises IndexError."""
        answer = self.outbox.popleft()
        self.requests -= 1
        if self.requests < MAX_REQUESTS:
            self.has_room.set()
        return answer

    def sent(self, answer: Answer) -> None:
        self.unsent_bytes -= answer.size


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """Changes that a member wants, in their order. `in_time` has the places of those that count only while their leases
    last."""

    member: SharedMember
    number: int
    changes: Sequence[tuple[TopicQueueId, LeaseChange]]
    in_time: Collection[int] = ()


class GroupMembers:
    """The members of one group on this node, and their receives that wait, in the order of their arrival."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[SharedMember, None] = {}
        self.waiting: dict[tuple[SharedMember, int], Receive] = {}
        # Whether the group has begun in the queues of its members. A new member may bring new topics.
        self.has_begun = False
        # How many receives were served, so that each begins with another queue.
        self.turn = 0
        # The first queue for which the entry of the last turn had no room.
        self.left_out: TopicQueueId | None = None

    def add(self, member: SharedMember) -> list[SharedMember]:
        """Add a member. Return the earlier streams of the same member that want other messages of a topic: the member
        has changed its mind, so they are removed. Raises GroupFullError, and GroupConflictError if another member wants
        other messages of a topic."""
        if len(self.members) >= MAX_SHARED_MEMBERS:
            raise GroupFullError(
                f"Consumer group {self.name!r} has {len(self.members)} members on this node already, which is the "
                "limit."
            )
        receivers = [each for each in self.members if not each.only_changes and not member.only_changes]
        replaced = [each for each in receivers if each.name == member.name and each.wants_otherwise(member)]
        receivers = [each for each in receivers if each not in replaced]
        for topic_id, topic in member.topics.items():
            known = next((each.topics[topic_id] for each in receivers if topic_id in each.topics), None)
            if known is not None and known.tag_hashes != topic.tag_hashes:
                raise GroupConflictError(
                    f"Another member of the shared group {self.name!r} reads topic {topic_id} with other tags: all "
                    "members of a shared group must want the same tags, because each message is handed out once."
                )
            if known is not None and known.filter != topic.filter:
                raise GroupConflictError(
                    f"Another member of the shared group {self.name!r} reads topic {topic_id} with another filter: all "
                    "members of a shared group must have the same filter, because each message is handed out once. To "
                    "change the filter, stop all members first."
                )
            if known is not None:  # all members share one set and one filter
                member.topics[topic_id] = replace(topic, tag_hashes=known.tag_hashes, filter=known.filter)
        for each in replaced:
            self._replace(each)
        self.members[member] = None
        self.has_begun = False
        return replaced

    def _replace(self, member: SharedMember) -> None:
        """End the stream of a member that has joined again and wants other messages. Its receives end without
        messages."""
        for owner, number in self.waiting:
            if owner is member:
                member.answer(Answer(number, received=()))
        again = f"This member has joined the shared group {self.name!r} again, and wants other messages now."
        member.answer(Answer(0, error=ConsumerFencedError(again)))
        self.remove(member)

    def remove(self, member: SharedMember) -> None:
        self.members.pop(member, None)
        self.waiting = {key: receive for key, receive in self.waiting.items() if key[0] is not member}

    def topics(self) -> dict[int, SharedTopic]:
        """Return all topics that members read."""
        receivers = (member for member in self.members if not member.only_changes)
        return {topic_id: topic for member in receivers for topic_id, topic in member.topics.items()}

    def count(self) -> int:
        """Return the number of members."""
        return sum(not member.only_changes for member in self.members)

    def unsent_bytes(self) -> int:
        """Return how many bytes of answers are not sent to the members yet."""
        return sum(member.unsent_bytes for member in self.members)

    def put_last(self, member: SharedMember, receive: Receive) -> None:
        self.waiting[member, receive.number] = receive
