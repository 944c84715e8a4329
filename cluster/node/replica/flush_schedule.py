"""The flush schedule: decides when a log is flushed if no request waits for a flush. The schedule uses the same rules
as RocketMQ.

    every `interval_ms`   flush if at least `pages` pages were written since the last flush began
    after `thorough_ms`   flush any written bytes, if the last flush began so long ago

With the default settings a busy log is flushed twice a second. A log with few messages is flushed every 10 s, so the
disk can sleep. With `flush = "async"`, a power loss can lose the writes of at most the time that this schedule sets.
"""

from __future__ import annotations

from dataclasses import dataclass

PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class FlushSchedule:
    """The values of the settings `flush_interval_ms`, `flush_pages` and `flush_thorough_ms`, which decide when a
    log is flushed."""

    interval_ms: int
    pages: int
    thorough_ms: int
    # How often staged appends are written to the files.
    write_out_ms: int

    def is_due(self, dirty_bytes: int, since_ms: float) -> bool:
        """Return True if the log should be flushed now. The log has `dirty_bytes` unflushed bytes, more than 0, and
        its last flush began `since_ms` ago."""
        return dirty_bytes >= self.pages * PAGE_BYTES or since_ms >= self.thorough_ms
