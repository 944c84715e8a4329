"""Calculates how long a client waits after it has asked the nodes for routes, before it asks them again. No I/O.

    trouble begins ── 3 s: short waits ── then each wait doubles, up to the ceiling of the backoff
          ^                                                   │
          └─────────── a new term of a shard ─────────────────┘

The client asks again because calls fail. The nodes may go on to name a leader that does not answer: they do so until an
election begins, or while the leader hands over or cannot write. Such an answer leaves no leader in doubt, but the next
call fails again. In the first seconds the client asks often, so that it hears of a new leader soon after an election. A
new term begins such seconds again. After them, asking often would only load a cluster that has no leader.
"""

from __future__ import annotations

from collections.abc import Mapping

from ledger.client.connection.backoff import Backoff

# How long the waits stay short, in seconds: longer than an election takes after the death of a leader.
OFTEN_S = 3.0
# If the client does not ask for routes for this long, in seconds, the trouble is over. Calls try again at least once a
# second.
QUIET_S = 2.0


class RefreshPace:
    """The pace of one client. Times are in seconds of the client's monotonic clock."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        # When the trouble began, or the newest term of a shard was heard of.
        self._since = 0.0
        # When the last wait was over.
        self._ready = float("-inf")
        self._terms: dict[int, int] = {}
        # Refreshes in a row after which a leader was in doubt, and after which the waits were no longer short.
        self._in_doubt = 0
        self._long = 0

    def begin(self, now: float) -> None:
        """Note that routes are asked for at this time."""
        if now - self._ready > QUIET_S:
            self._restart(now)

    def wait_ms(self, now: float, terms: Mapping[int, int], *, in_doubt: bool) -> float:
        """Return the milliseconds to wait after a refresh that ended now. `terms` has the newest known term of each
        shard. `in_doubt` is True if no leader of a shard is known that answers."""
        if terms != self._terms:
            self._terms = dict(terms)
            self._restart(now)
        self._in_doubt = self._in_doubt + 1 if in_doubt else 0
        self._long = self._long + 1 if now - self._since >= OFTEN_S else 0
        wait = self._backoff.wait_ms(max(self._in_doubt, self._long + 1))
        self._ready = now + wait / 1000
        return wait

    def _restart(self, now: float) -> None:
        self._since, self._long = now, 0
