"""What `ledgermq rocketmq mirror` tells the user: its progress, and an account at the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rich.progress import Progress, TextColumn

from cluster.cli.output import note_console, print_json, printable, say
from cluster.cli.progress_line import drawn_again
from ledger.rocketmq.mirror.mirror_tally import MirrorTally
from ledger.words import counted

_REFRESH_S = 0.5
# Between two lines, if standard error is no terminal.
_LINE_S = 30.0


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


@asynccontextmanager
async def mirror_progress(report: MirrorReport) -> AsyncIterator[None]:
    """While the body runs, show the progress: on a terminal in one line, and otherwise as a new line now and then."""
    console = note_console()
    if not console.is_terminal:
        telling = asyncio.create_task(_tell(report))
        try:
            yield
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        return
    bar = Progress(TextColumn("{task.description}"), console=console, transient=True, auto_refresh=False)
    task = bar.add_task("", total=None)

    def update() -> None:
        bar.update(task, description=printable(report.so_far(), kept=""))

    async with drawn_again(bar, update, _REFRESH_S):
        yield


async def _tell(report: MirrorReport) -> None:
    while True:
        await asyncio.sleep(_LINE_S)
        say(report.so_far())
