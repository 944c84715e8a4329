"""What `ledgermq mirror` tells the user: its progress, and an account at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.cli.output import print_json, say
from ledger.mirror.copy_tally import CopyTally
from ledger.words import counted

# Sentences about skipped messages and groups. More are only counted.
_MOST_SENTENCES = 10


@dataclass(slots=True)
class CopyReport:
    """`began_s` is the time of the start by `monotonic_s`, a clock in seconds. `now_ms` is the time of day, in ms since
    1970."""

    tally: CopyTally
    began_s: float
    monotonic_s: Callable[[], float]
    now_ms: Callable[[], int]

    def so_far(self) -> str:
        tally = self.tally
        parts = [f"{counted(tally.total, 'message')} copied, {tally.total / self._seconds():,.0f}/s"]
        parts.append(f"{tally.lag:,} to copy, {tally.behind_s(self.now_ms()):,.1f} s behind")
        if tally.skipped:
            parts.append(f"{tally.skipped_messages:,} skipped")
        if tally.kept_back:
            parts.append(f"{counted(len(tally.kept_back), 'group')} not moved")
        if tally.trouble:
            parts.append(f"last trouble: {tally.trouble}")
        return "; ".join(parts)

    def show(self, output: str) -> None:
        """Print the account, with `output` "json" also as JSON."""
        tally = self.tally
        if output == "json":
            print_json(
                {
                    "copied": tally.total,
                    "topics": dict(sorted(tally.messages.items())),
                    "bytes": tally.sent_bytes,
                    "lag": tally.lag,
                    "skipped": tally.skipped_messages,
                    "groups": dict(sorted(tally.moved.items())),
                    "groups_not_moved": dict(sorted(tally.kept_back.items())),
                    "troubles": tally.troubles,
                    "last_trouble": tally.trouble,
                    "seconds": round(self._seconds(), 3),
                }
            )
        for lost in sorted(tally.skipped)[:_MOST_SENTENCES]:
            say(
                f"skipped: {lost.end - lost.first:,} messages of queue {lost.queue} of topic {lost.topic} (offsets "
                f"{lost.first} to {lost.end - 1}), which the source no longer had"
            )
        for group, reason in sorted(tally.kept_back.items())[:_MOST_SENTENCES]:
            say(f"group {group} was not moved: {reason}")
        if tally.trouble:
            say(f"last trouble: {tally.trouble}")
        seconds = self._seconds()
        rates = f"{tally.total / seconds:,.0f}/s, {tally.sent_bytes / seconds / 1e6:,.1f} MB/s"
        say(f"{counted(tally.total, 'message')} copied in {seconds:.2f} s ({rates}); {tally.lag:,} to copy")

    def _seconds(self) -> float:
        return max(0.001, self.monotonic_s() - self.began_s)
