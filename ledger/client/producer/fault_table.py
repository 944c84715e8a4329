"""Records which shards a producer avoids for a while, because they answered late or failed. The module does no I/O and
reads no clock. A table of steps says for how long a shard is avoided after an answer with a given latency. A failed
attempt counts as a latency of 10 s. Only the newest answer of a shard counts. Callers pass the current time, in ms.
The rule is RocketMQ's latency-fault back-off (MQFaultStrategy).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from ledger.errors import InvalidArgumentError

# Pairs (latency, how long the shard is avoided), both in ms, with rising latencies.
Steps = Sequence[tuple[float, float]]

ROCKETMQ: Steps = (
    (50, 0),
    (100, 0),
    (550, 2_000),
    (1_800, 5_000),
    (3_000, 6_000),
    (5_000, 10_000),
    (15_000, 30_000),
)
# The latency that a failure counts as.
FAILURE_MS = 10_000
_MAX_STEPS = 64
_LONGEST_MS = 86_400_000


def checked_steps(setting: bool | Steps) -> Steps:
    """Return the steps for the setting `latency_faults` of a producer. False means no steps, so no shard is avoided.
    True means RocketMQ's steps: latencies, and how long each latency makes the producer avoid a shard. A value other
    than True and False must be a table of steps. Raises InvalidArgumentError.
    """
    if isinstance(setting, bool):
        return ROCKETMQ if setting else ()
    try:
        steps = tuple((float(latency), float(duration)) for latency, duration in setting)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"latency_faults is {setting!r}: it must be False, True, or pairs of milliseconds such as ((550, 2000), "
            "(3000, 6000)): a latency, and how long a shard with this latency is avoided."
        ) from None
    rises = all(before[0] < after[0] for before, after in pairwise(steps))
    if not rises or len(steps) > _MAX_STEPS or not all(0 <= ms <= _LONGEST_MS for step in steps for ms in step):
        raise InvalidArgumentError(
            f"latency_faults is {setting!r}: its latencies must rise, all times must be 0 to {_LONGEST_MS} ms, and "
            f"there must be at most {_MAX_STEPS} pairs."
        )
    return steps


class FaultTable:
    """Stores, for each shard that is avoided, the time until which it is avoided. The table has at most one entry
    for each shard."""

    def __init__(self, steps: Steps) -> None:
        self._latencies = [latency for latency, _ in steps]
        self._durations = [0.0, *(duration for _, duration in steps)]
        self._until: dict[int, float] = {}

    def answered(self, shard: int, latency_ms: float, now: float) -> None:
        """Record that the shard answered an attempt after `latency_ms` milliseconds."""
        if duration := self._duration(latency_ms):
            self._until[shard] = now + duration
        else:
            self._until.pop(shard, None)

    def waits(self, shard: int, latency_ms: float, now: float) -> None:
        """Record that a request to the shard has had no answer for `latency_ms` milliseconds."""
        if self._duration(latency_ms):
            self.answered(shard, latency_ms, now)

    def failed(self, shard: int, now: float) -> None:
        self.answered(shard, FAILURE_MS, now)

    def forget(self, shard: int) -> None:
        """Forget the latency of the shard, so that the shard is not avoided. Call `forget` when the shard has a new
        leader, because the latency was measured at the old leader."""
        self._until.pop(shard, None)

    def is_available(self, shard: int, now: float) -> bool:
        return now >= self._until.get(shard, now)

    @property
    def is_empty(self) -> bool:
        """True if the table has no entry, so that no shard is avoided."""
        return not self._until

    def _duration(self, latency_ms: float) -> float:
        return self._durations[bisect_right(self._latencies, latency_ms)]
