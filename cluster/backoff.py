"""How long to wait between attempts that may go on for ever, and when to speak of them.

Each wait is twice the one before, up to a bound, so that trying costs nothing and the log is not flooded.
"""

from __future__ import annotations

FIRST_S = 0.2
LONGEST_S = 10.0
TELL_EVERY_S = 60.0


class Backoff:
    def __init__(self) -> None:
        self._next_s = FIRST_S
        self._since_told_s = 0.0
        self._told = ""

    def next_s(self) -> float:
        """How long to wait now."""
        seconds, self._next_s = self._next_s, min(2 * self._next_s, LONGEST_S)
        self._since_told_s += seconds
        return seconds

    def begin_anew(self) -> None:
        """Something came of the last attempt."""
        self._next_s = FIRST_S

    def has_news(self, text: str) -> bool:
        """Whether to say this: it is another text than the one before, or that is long ago."""
        is_news = text != self._told or self._since_told_s >= TELL_EVERY_S
        if is_news:
            self._told, self._since_told_s = text, 0.0
        return is_news
