"""Decides when a producer logs that messages wait long for their acknowledgement.

A producer repeats failed attempts until `delivery_timeout_ms` has passed, by default two minutes. The warning tells
earlier that nothing is acknowledged, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ledger.client.producer.producer_batch import because
from ledger.errors import LedgerError

# The first warning comes when a batch has waited so long, and further warnings in this interval.
WARN_AFTER_MS = 5_000
WARN_AGAIN_MS = 30_000


@dataclass(frozen=True, slots=True)
class Wait:
    """How long the oldest batch for one shard waits for its acknowledgement, and the last error since the last
    acknowledgement, or None."""

    waited_ms: float
    trouble: LedgerError | None


class WaitWarnings:
    """Returns the warnings of one producer, at most one in `WARN_AGAIN_MS` for each shard."""

    def __init__(self) -> None:
        # By shard: the time of the last warning, while the shard has batches that wait long.
        self._warned_at: dict[int, float] = {}

    def look(self, waits: Mapping[int, Wait], now: float) -> list[str]:
        """Return the warnings that are due at the time `now`, in ms. `waits` has the shards with unfinished batches."""
        late = {shard: wait for shard, wait in waits.items() if wait.waited_ms >= WARN_AFTER_MS}
        self._warned_at = {shard: at for shard, at in self._warned_at.items() if shard in late}
        due = [shard for shard in late if now - self._warned_at.get(shard, float("-inf")) >= WARN_AGAIN_MS]
        self._warned_at.update(dict.fromkeys(due, now))
        return [_warning(shard, late[shard]) for shard in due]


def _warning(shard: int, wait: Wait) -> str:
    return (
        f"Messages for shard {shard} have waited {wait.waited_ms / 1000:.0f} s for an acknowledgement, and are sent "
        f"again{because(wait.trouble)}."
    )
