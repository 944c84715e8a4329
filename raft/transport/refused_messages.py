"""Counts the messages of other nodes that this node refused, and logs some of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from raft.core import InvalidMessage

log = logging.getLogger("ledgermq.raft.transport")

# A hostile node can send refused messages without end, so the log gets at most one line in this time.
LOG_INTERVAL_S = 60.0


class RefusedMessages:
    """Counts and logs the refused messages of all shards of one node."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        # The number of messages that were refused since the start of the node.
        self.count = 0
        self._monotonic_s = monotonic_s
        self._logged_at_s = float("-inf")
        # The number of messages that were refused after the last logged one.
        self._not_logged = 0

    def add(self, reason: InvalidMessage | str, stream: str) -> None:
        """Count a message that came on `stream`. Log the reason, unless another one was logged less than a minute
        ago."""
        self.count += 1
        now = self._monotonic_s()
        if now - self._logged_at_s < LOG_INTERVAL_S:
            self._not_logged += 1
            return
        others = f"; {self._not_logged} other messages were refused since the last such line" * bool(self._not_logged)
        log.warning("closed the %s: %s%s", stream, reason, others)
        self._logged_at_s, self._not_logged = now, 0
