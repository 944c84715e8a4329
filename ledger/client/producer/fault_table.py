"""Shards to avoid for a while because they answered late (RocketMQ's latency-fault back-off, MQFaultStrategy). Pure.

A table says how long a shard is avoided after an answer of a given latency. A failure counts as a long latency. The
newest answer replaces earlier ones. Times are passed in, in ms.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from ledger.errors import InvalidArgumentError

# (latency, for how long the shard is passed over from then on), both in ms; the latencies rise.
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
    """Of the producer's setting: False: no shard is ever passed over; True: RocketMQ's table; or a table. Raises
    InvalidArgumentError."""
    if isinstance(setting, bool):
        return ROCKETMQ if setting else ()
    try:
        steps = tuple((float(latency), float(duration)) for latency, duration in setting)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"latency_faults is {setting!r}: it must be False, True, or pairs of milliseconds such as ((550, 2000), "
            "(3000, 6000)): a latency, and for how long a shard that took so long is passed over."
        ) from None
    rises = all(before[0] < after[0] for before, after in pairwise(steps))
    if not rises or len(steps) > _MAX_STEPS or not all(0 <= ms <= _LONGEST_MS for step in steps for ms in step):
        raise InvalidArgumentError(
            f"latency_faults is {setting!r}: its latencies must rise, all times lie within 0 to {_LONGEST_MS} ms, and "
            f"there be no more than {_MAX_STEPS} pairs."
        )
    return steps


class FaultTable:
    """Bounded by the shards there are."""

    def __init__(self, steps: Steps) -> None:
        self._latencies = [latency for latency, _ in steps]
        self._durations = [0.0, *(duration for _, duration in steps)]
        self._until: dict[int, float] = {}

    def answered(self, shard: int, latency_ms: float, now: float) -> None:
        """That shard took so long."""
        if duration := self._duration(latency_ms):
            self._until[shard] = now + duration
        else:
            self._until.pop(shard, None)

    def waits(self, shard: int, latency_ms: float, now: float) -> None:
        """It has not answered for so long, and may do so yet."""
        if self._duration(latency_ms):
            self.answered(shard, latency_ms, now)

    def failed(self, shard: int, now: float) -> None:
        self.answered(shard, FAILURE_MS, now)

    def forget(self, shard: int) -> None:
        """It has another leader: what was measured was of the last one."""
        self._until.pop(shard, None)

    def is_available(self, shard: int, now: float) -> bool:
        return now >= self._until.get(shard, now)

    @property
    def is_empty(self) -> bool:
        """No shard is to be passed over."""
        return not self._until

    def _duration(self, latency_ms: float) -> float:
        return self._durations[bisect_right(self._latencies, latency_ms)]
