"""Holds the log starts of all shards while a backup reads, and defines the point in time of the backup.

A hold is an entry of the log. The entries by which a backup takes its holds are the last entries that it copies: their
indexes come from the leaders, so everything that was acknowledged before is at a smaller index. The hold of shard 0 is
taken last. So shard 0 is never cut before another shard, which depends on the topic ids and epochs of shard 0. If the
log of shard 0 then has a shard without a hold, that shard gets one, and shard 0 gets a later one: a restored shard 0
must not have shards that are not in the backup.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from ledger.client.records import LogHold
from ledger.errors import LedgerError
from ledger.topics import TOPICS_SHARD

log = logging.getLogger("ledgermq.backup")

TTL_MS = 30 * 60_000
# How often the holds are taken again, so that they do not expire while the backup runs.
_RENEW_S = 5 * 60.0


class LogHolder(Protocol):
    """The methods of `Admin` that take holds."""

    def hold_log(self, name: str, *, ttl_ms: int, shard: int | None) -> LogHold: ...
    def release_log(self, name: str, *, shard: int | None) -> bool: ...


class BackupHold:
    def __init__(self, admin: LogHolder, name: str, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        """`name` must be new, because a hold that exists keeps its index."""
        self._admin = admin
        self._name = name
        self._monotonic_s = monotonic_s
        self._renewed_s = monotonic_s()
        # By shard: the entry of the hold.
        self._taken: dict[int, LogHold] = {}

    def take(self, shards: Iterable[int]) -> dict[int, LogHold]:
        """Take a hold of each of these shards, and then of shard 0, also if it has one already. Return all holds by
        shard. Raises LedgerError."""
        for shard in sorted({*shards, TOPICS_SHARD}, reverse=True):
            if shard in self._taken:  # a hold that exists keeps its index
                self._admin.release_log(self._name, shard=shard)
            self._taken[shard] = self._admin.hold_log(self._name, ttl_ms=TTL_MS, shard=shard)
        return dict(self._taken)

    def renew(self) -> None:
        """Take the holds again, if the last time was long ago. Raises LedgerError."""
        if self._monotonic_s() - self._renewed_s < _RENEW_S:
            return
        self._renewed_s = self._monotonic_s()
        for shard in self._taken:
            self._admin.hold_log(self._name, ttl_ms=TTL_MS, shard=shard)

    def release(self) -> None:
        """Release the holds. A hold that cannot be released expires."""
        for shard in self._taken:
            try:
                self._admin.release_log(self._name, shard=shard)
            except LedgerError as error:
                log.warning("the hold %s of shard %d ends in %d min: %s", self._name, shard, TTL_MS // 60_000, error)
