"""How many queues the topics of a consumer group have, as its members report them.

Members can know different numbers of queues of a topic; the largest counts. A change of one member costs little,
however many members there are: all replicas apply it, and a user with the right on one group can change members all the
time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

# (topic id, number of queues). Each topic id occurs once.
Subscriptions = Iterable[tuple[int, int]]


@dataclass(slots=True)
class SubscribedQueues:
    """The topics of a group. `most` has the number of queues of each, by topic id, and `total` is their sum."""

    most: dict[int, int] = field(default_factory=dict)
    total: int = 0
    # By topic id: how many members report each number of queues. Never empty, and never 0.
    _reports: dict[int, Counter[int]] = field(default_factory=dict)

    def add(self, subscriptions: Subscriptions) -> None:
        """Count the subscriptions of a member."""
        for topic_id, queues in subscriptions:
            self._reports.setdefault(topic_id, Counter())[queues] += 1
            self._set(topic_id, max(self.most.get(topic_id, 0), queues))

    def remove(self, subscriptions: Subscriptions) -> None:
        """Count the subscriptions of a member no more."""
        for topic_id, queues in subscriptions:
            reports = self._reports[topic_id]
            reports[queues] -= 1
            if reports[queues]:
                continue
            del reports[queues]
            if not reports:
                self.forget(topic_id)
            elif queues == self.most[topic_id]:
                self._set(topic_id, max(reports))

    def forget(self, topic_id: int) -> None:
        """Remove a topic."""
        if self._reports.pop(topic_id, None) is not None:
            self.total -= self.most.pop(topic_id)

    def total_with(self, new: Subscriptions, old: Subscriptions = ()) -> int:
        """Return what `total` would be if a member had the subscriptions `new` in place of `old`."""
        wanted, had, total = dict(new), dict(old), self.total
        for topic_id in {**wanted, **had}:
            others = self.most.get(topic_id, 0)
            if had.get(topic_id) == others and self._reports[topic_id][others] == 1:
                others = max((each for each in self._reports[topic_id] if each != others), default=0)
            total += max(others, wanted.get(topic_id, 0)) - self.most.get(topic_id, 0)
        return total

    def _set(self, topic_id: int, queues: int) -> None:
        self.total += queues - self.most.get(topic_id, 0)
        self.most[topic_id] = queues
