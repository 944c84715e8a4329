"""The flush schedule: when what was written goes to the disk though nobody waits for it, as RocketMQ has it.

    every interval    if so many pages were written since the last flush began
    thorough          whatever was written, once the last flush is so long ago

A busy log is flushed twice a second, and one that gets a message now and then does not keep the disk awake. What a
power loss takes under `flush = async` follows from these numbers. Pure; it must not know the log.
"""

from __future__ import annotations

from dataclasses import dataclass

PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class FlushSchedule:
    interval_ms: int
    pages: int
    thorough_ms: int
    write_out_ms: int
    """How often what is staged in memory is written to the files."""

    def is_due(self, dirty_bytes: int, since_ms: float) -> bool:
        """Of a log that has something to flush. `since_ms`: how long ago the last flush began."""
        return dirty_bytes >= self.pages * PAGE_BYTES or since_ms >= self.thorough_ms
