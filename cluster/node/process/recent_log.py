"""The newest log lines of a node, in memory, for a support bundle (`ledgermq debug bundle`)."""

from __future__ import annotations

import logging
from collections import deque

MAX_LINES = 2_000
MAX_LINE_CHARACTERS = 1_000


class RecentLog(logging.Handler):
    """Keeps the newest `MAX_LINES` lines of this process."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=MAX_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(self.format(record)[:MAX_LINE_CHARACTERS])
        except Exception:
            self.handleError(record)

    def lines(self) -> list[str]:
        """Return the lines, the oldest first."""
        return list(self._lines)
