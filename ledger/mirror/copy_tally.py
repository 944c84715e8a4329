"""What a mirror has copied so far, for its operator."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class SkippedRange(NamedTuple):
    """Messages of a source queue, from `first` to before `end`, that the source no longer had when the mirror came."""

    topic: str
    queue: int
    first: int
    end: int


@dataclass(slots=True)
class CopyTally:
    """Counts what this process has copied. Times are in ms since 1970."""

    # Messages that the target has acknowledged, by the topic at the source.
    messages: Counter[str] = field(default_factory=Counter)
    # Bytes of the copied batches, as the target stores them.
    sent_bytes: int = 0
    skipped: set[SkippedRange] = field(default_factory=set)
    # Messages of each source queue (topic, queue) that are not copied yet, as of the last look.
    lags: dict[tuple[str, int], int] = field(default_factory=dict)
    # By source queue: when the source appended the newest message that was copied.
    newest_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    # Consumer groups: queues whose offsets were moved, by group, and why other groups are not moved.
    moved: Counter[str] = field(default_factory=Counter)
    kept_back: dict[str, str] = field(default_factory=dict)
    # The last thing that went wrong and was tried again, and how often that happened.
    trouble: str = ""
    troubles: int = 0

    @property
    def total(self) -> int:
        return self.messages.total()

    @property
    def skipped_messages(self) -> int:
        return sum(each.end - each.first for each in self.skipped)

    @property
    def lag(self) -> int:
        """Messages that are not copied yet, as of the last look."""
        return sum(self.lags.values())

    def behind_s(self, now_ms: int) -> float:
        """Return the age of the newest copied message in the queue that is furthest behind, in seconds; 0 if no queue
        is behind. It is right as far as the clocks of the source and of this machine agree."""
        behind = [place for place, lag in self.lags.items() if lag and place in self.newest_ms]
        return max((max(0, now_ms - self.newest_ms[place]) / 1000 for place in behind), default=0.0)

    def note_trouble(self, text: str) -> None:
        self.trouble = text
        self.troubles += 1
