"""What a mirror has copied so far."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

# Sentences about messages that were left out. More are only counted.
MOST_SENTENCES = 10


@dataclass(slots=True)
class MirrorTally:
    """Counts messages. Each message that was received is in one of `copied`, `left_out` and `unfinished`."""

    # Messages that the cluster has and that were acknowledged at the servers, by the topic of the servers.
    copied: Counter[str] = field(default_factory=Counter)
    copied_bytes: int = 0
    # Of the copied messages, those that the cluster had already, by their message ids.
    repeated: int = 0
    # Messages that the cluster cannot store. They are in the dead letters of the group at the servers.
    left_out: int = 0
    left_out_sentences: list[str] = field(default_factory=list)
    # Messages that were not stored or not acknowledged in time. The servers hand them out again.
    unfinished: int = 0
    # The last thing that went wrong and was tried again.
    trouble: str = ""
    # By copier: when the servers stored the newest message that it received, in ms since 1970; None if there is no
    # message for it now.
    _newest_ms: dict[str, int | None] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.copied.total()

    def received(self, copier: str, stored_ms: int) -> None:
        self._newest_ms[copier] = max(stored_ms, self._newest_ms.get(copier) or 0)

    def is_empty(self, copier: str) -> None:
        """There is no message for this copier now."""
        self._newest_ms[copier] = None

    def leave_out(self, sentence: str) -> None:
        self.left_out += 1
        if len(self.left_out_sentences) < MOST_SENTENCES:
            self.left_out_sentences.append(sentence)

    def behind_s(self, now_ms: int) -> float | None:
        """Return how old the newest messages are that were received, for the copier that is furthest behind; None if
        nothing came yet. It is right as far as the clocks of both sides agree."""
        if not self._newest_ms:
            return None
        return max(0.0 if each is None else max(0.0, (now_ms - each) / 1000) for each in self._newest_ms.values())
