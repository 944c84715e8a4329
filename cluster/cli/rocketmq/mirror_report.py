"""What `ledgermq rocketmq mirror` tells the user: its progress, and an account at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cluster.cli.output import print_json, say
from ledger.rocketmq.mirror.mirror_tally import MirrorTally
from ledger.words import counted


@dataclass(slots=True)
class MirrorReport:
    """`began_s` is the time of the start by `time.monotonic`."""

    tally: MirrorTally
    began_s: float

    def show(self, output: str) -> None:
        """Print the account, with `output` "json" also as JSON."""
        tally, seconds = self.tally, time.monotonic() - self.began_s
        if output == "json":
            print_json(
                {
                    "copied": tally.total,
                    "topics": dict(sorted(tally.copied.items())),
                    "bytes": tally.copied_bytes,
                    "repeated": tally.repeated,
                    "left_out": tally.left_out,
                    "unfinished": tally.unfinished,
                    "seconds": round(seconds, 3),
                }
            )
        for sentence in tally.left_out_sentences:
            say(f"left out: {sentence}")
        say(self._summary(seconds))

    def so_far(self) -> str:
        tally = self.tally
        seconds = max(0.001, time.monotonic() - self.began_s)
        parts = [f"{counted(tally.total, 'message')} copied, {tally.total / seconds:,.0f}/s"]
        behind_s = tally.behind_s(round(time.time() * 1000))
        if behind_s is not None:
            parts.append(f"{behind_s:,.1f} s behind")
        if tally.left_out:
            parts.append(f"{tally.left_out:,} left out")
        if tally.unfinished:
            parts.append(f"{tally.unfinished:,} to come again")
        if tally.trouble:
            parts.append(f"last trouble: {tally.trouble}")
        return "; ".join(parts)

    def _summary(self, seconds: float) -> str:
        tally = self.tally
        rate = f"{tally.total / max(0.001, seconds):,.0f}/s, {tally.copied_bytes / max(0.001, seconds) / 1e6:,.1f} MB/s"
        parts = [f"{counted(tally.total, 'message')} copied in {seconds:.2f} s ({rate})"]
        if tally.repeated:
            parts.append(f"{tally.repeated:,} of them were in the cluster already")
        if tally.left_out:
            parts.append(f"{tally.left_out:,} left out: they are in the dead letters of the group at the servers")
        if tally.unfinished:
            parts.append(
                f"{counted(tally.unfinished, 'time')} a message was not finished: the servers hand it out again"
            )
        return "; ".join(parts)
