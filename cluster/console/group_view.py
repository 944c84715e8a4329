"""What the pages of consumer groups show, computed from what the admin client tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.client.admin.consumer_group_records import (
    ConsumerGroupDescription,
    ConsumerGroupMember,
    ConsumerGroupSummary,
    OffsetReset,
    QueueConsumption,
)
from ledger.retries import RETRY
from ledger.topics import is_system_topic
from ledger.words import counted

# So many ranges of queues of a member are written out.
MAX_RANGES = 24

# The orders of the list of groups: name of the order -> what is compared, and whether the largest comes first.
GROUP_ORDERS: dict[str, tuple[Callable[[ConsumerGroupSummary], Any], bool]] = {
    "name": (lambda group: group.name, False),
    "lag": (lambda group: group.lag, True),
    "behind": (lambda group: group.lag_s if group.lag else 0.0, True),
    "members": (lambda group: group.members, True),
    "dead letters": (lambda group: group.dead_letters, True),
}


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """The sums over the queues of one group. The fields after `retries` are only for shared groups. `next_end_s` is the
    time until the first lease ends, or None without leases."""

    lag: int
    lag_s: float
    retries: int
    leased: int
    waiting: int
    next_end_s: float | None
    attempts: int


@dataclass(frozen=True, slots=True)
class PlannedReset:
    """What a reset does to one queue: how many messages are skipped, or are delivered again. `before` is None if the
    group has not begun to consume the queue."""

    topic: str
    queue: int
    before: int | None
    after: int
    skipped: int
    again: int


def chosen_groups(groups: Iterable[ConsumerGroupSummary], text: str, order: str) -> list[ConsumerGroupSummary]:
    """Return the groups whose names contain the text, in the order with this name."""
    compared, is_largest_first = GROUP_ORDERS.get(order, GROUP_ORDERS["name"])
    wanted = text.strip().lower()
    return sorted((group for group in groups if wanted in group.name.lower()), key=compared, reverse=is_largest_first)


def chosen_queues(queues: Iterable[QueueConsumption], text: str, order: str) -> list[QueueConsumption]:
    """Return the queues that the page shows: those of topics whose names contain the text, without retry queues that
    have nothing to deliver. With the order "lag", the queues with the largest lag come first."""
    wanted = text.strip().lower()
    found = [
        queue
        for queue in queues
        if wanted in queue.topic.lower() and (queue.lag or queue.leased or not is_system_topic(queue.topic))
    ]
    return sorted(found, key=lambda queue: queue.lag or 0, reverse=True) if order == "lag" else found


def figures_of(found: ConsumerGroupDescription) -> GroupFigures:
    ours = [queue for queue in found.queues if not is_system_topic(queue.topic)]
    retries = [queue for queue in found.queues if queue.topic.startswith(RETRY)]
    ends = [queue.lease_left_s or 0.0 for queue in found.queues if queue.leased]
    return GroupFigures(
        lag=sum(queue.lag or 0 for queue in ours),
        lag_s=max((queue.lag_s or 0.0 for queue in ours if queue.lag), default=0.0),
        retries=sum(queue.lag or 0 for queue in retries),
        leased=sum(queue.leased or 0 for queue in found.queues),
        waiting=sum(queue.waiting or 0 for queue in found.queues),
        next_end_s=min(ends, default=None),
        attempts=max((queue.attempts or 0 for queue in found.queues), default=0),
    )


def state_of(found: ConsumerGroupDescription) -> str:
    """Return the state of the group as one sentence."""
    if found.strategy == "broadcast":
        return "One consumer of a broadcast. It receives all messages. Whether it runs is unknown."
    if found.mode == "shared":
        return f"{counted(found.consumers or 0, 'consumer')} connected."
    if found.rebalancing:
        return "Members have joined or left: the queues are being assigned again."
    if not found.members:
        return "The group has no members at the moment."
    return f"{counted(len(found.members), 'member')}. Queues are assigned by {found.strategy}."


def mode_of(found: ConsumerGroupDescription) -> str:
    if found.mode != "shared":
        return "queue: each queue belongs to one member at a time"
    order = ", messages with one key one after another" if found.order else ""
    return f"shared: each message is leased by itself{order}; dead letter after {found.max_attempts} attempts"


def has_members(found: ConsumerGroupDescription) -> bool:
    return bool(found.members or found.consumers)


def owners_of(found: ConsumerGroupDescription) -> dict[str, ConsumerGroupMember]:
    """Return the members by their names."""
    return {member.member: member for member in found.members}


def owned_by(member: ConsumerGroupMember) -> str:
    """Return the queues of a member as text, such as `orders 0-3, 7; refunds 1`."""
    by_topic: dict[str, list[int]] = {}
    for place in member.queues:
        by_topic.setdefault(place.topic, []).append(place.queue)
    shown = [f"{topic} {ranges(numbers)}" for topic, numbers in list(by_topic.items())[:MAX_RANGES]]
    return "; ".join(shown) + (f"; and {len(by_topic) - MAX_RANGES} more topics" if len(by_topic) > MAX_RANGES else "")


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as text, such as `0-3, 7`. After `MAX_RANGES` ranges the text ends with `…`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in found[:MAX_RANGES]]
    return ", ".join(texts) + (", …" if len(found) > MAX_RANGES else "")


def planned(resets: Sequence[OffsetReset]) -> list[PlannedReset]:
    """Return what the resets do. Queues that do not change are left out."""
    return [
        PlannedReset(
            reset.topic,
            reset.queue,
            reset.before,
            reset.after,
            max(0, reset.after - reset.before) if reset.before is not None else 0,
            max(0, reset.before - reset.after) if reset.before is not None else 0,
        )
        for reset in resets
        if reset.before != reset.after
    ]


def topics_of(found: ConsumerGroupDescription) -> list[str]:
    """Return the topics that the group consumes."""
    return sorted({queue.topic for queue in found.queues if not is_system_topic(queue.topic)})
