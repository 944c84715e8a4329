"""The limits of messages with delivery times: how far ahead they may be, and how many bytes may wait in a shard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ledger.timed import MAX_DELAY_DAYS

# Without a setting, waiting messages may take this part of the room that messages have.
_PART = 4


class TimedRoom(NamedTuple):
    """What the leader of a shard may still take. Delivery times are at most `max_days` ahead. `waiting_bytes` wait in
    the shard or are on their way, and `limit_bytes` may; 0 sets no limit."""

    max_days: float = MAX_DELAY_DAYS
    limit_bytes: int = 0
    waiting_bytes: int = 0


# The room of a shard without settings.
DEFAULT_ROOM = TimedRoom()


@dataclass(frozen=True, slots=True)
class TimedLimits:
    """The settings `timed_max_days`, `timed_waiting_bytes`, `retention_bytes` and `shards` of a node."""

    max_days: float = MAX_DELAY_DAYS
    waiting_bytes: int = 0
    retention_bytes: int = 0
    shards: int = 1

    def room(self, disk_bytes: int, waiting_bytes: int) -> TimedRoom:
        """Return the room of a shard. `disk_bytes` is the size of the log's disk, and 0 if it is not known.

        If `timed_waiting_bytes` is 0, the limit is a quarter of `retention_bytes`. If that is 0 too, the limit is a
        quarter of this shard's part of the disk, because waiting messages are kept when others expire."""
        limit = self.waiting_bytes or self.retention_bytes // _PART or disk_bytes // (_PART * self.shards)
        return TimedRoom(self.max_days, limit, waiting_bytes)
