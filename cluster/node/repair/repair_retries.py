"""Decides how long a repair waits between two attempts, and when the repair writes a log line. The number of attempts
has no limit.

Each wait is twice the previous wait, from 0.2 s up to 10 s. The same log line is repeated at most once a minute.
"""

from __future__ import annotations

FIRST_S = 0.2
LONGEST_S = 10.0
TELL_EVERY_S = 60.0


class RepairRetries:
    """`RepairRetries` counts the attempts of one repair."""

    def __init__(self) -> None:
        self._next_s = FIRST_S
        self._since_logged_s = 0.0
        self._logged = ""

    def next_s(self) -> float:
        """Return the seconds to wait before the next attempt."""
        seconds, self._next_s = self._next_s, min(2 * self._next_s, LONGEST_S)
        self._since_logged_s += seconds
        return seconds

    def begin_again(self) -> None:
        """Start again with the shortest wait, because the last attempt made progress."""
        self._next_s = FIRST_S

    def should_log(self, text: str) -> bool:
        """Return True if `text` should be logged: `text` differs from the last logged text, or the last log line is
        at least a minute old."""
        is_due = text != self._logged or self._since_logged_s >= TELL_EVERY_S
        if is_due:
            self._logged, self._since_logged_s = text, 0.0
        return is_due
