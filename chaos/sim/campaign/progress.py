"""Shows the progress of a campaign: the finished seeds, the simulated hours per second, and the faults that had an
effect.

On a terminal the progress is shown as a live progress bar. If the output is not a terminal, the progress is printed as
one line every 30 seconds.
"""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from chaos.sim.campaign.campaign import Totals
from cluster.cli.output import note_console

LINE_EVERY_S = 30.0


class CampaignProgress:
    """The live display of one campaign, used as a context manager."""

    def __init__(self, seeds: int, totals: Totals) -> None:
        self._totals = totals
        self._seeds = seeds
        self._console = note_console()
        self._bar = Bar(BarColumn(), MofNCompleteColumn(), TextColumn("seeds"), TimeRemainingColumn())
        self._task = self._bar.add_task("", total=seeds)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._began = self._told = time.monotonic()
        self._hours_before = totals.hours

    def __enter__(self) -> CampaignProgress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._console.is_terminal:
            self._live.stop()
        self._console.print(self._line(), soft_wrap=True)

    def update(self) -> None:
        """Show the totals of the campaign after a new report was added to them."""
        if self._console.is_terminal:
            self._bar.update(self._task, completed=self._totals.seeds)
            self._live.update(Group(self._bar, Text(self._line()), Text(self._faults())), refresh=True)
        elif time.monotonic() - self._told > LINE_EVERY_S:
            self._told = time.monotonic()
            self._console.print(self._line(), soft_wrap=True)

    def _line(self) -> str:
        totals, seconds = self._totals, max(time.monotonic() - self._began, 1e-9)
        speed = (totals.hours - self._hours_before) / seconds
        figures = totals.figures
        return (
            f"{totals.seeds:,} of {self._seeds:,} seeds, {totals.hours:,.1f} simulated hours ({speed:.2f} a second), "
            f"{figures['acknowledged']:,} messages acknowledged, {figures['leaders']:,} leaders, "
            f"{sum(totals.happened.values()):,} faults, {len(totals.failures)} failures"
        )

    def _faults(self) -> str:
        return "  ".join(f"{name} {count:,}" for name, count in sorted(self._totals.happened.items()))
