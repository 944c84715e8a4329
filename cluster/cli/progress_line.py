"""What a command tells while it works: a line on a terminal, which is drawn again, or a new line now and then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rich.progress import Progress, TextColumn

from cluster.cli.output import note_console, printable, say

_REFRESH_S = 0.5
# Between two lines, if standard error is no terminal.
_LINE_S = 30.0


@asynccontextmanager
async def drawn_again(bar: Progress, update: Callable[[], None], every_s: float) -> AsyncIterator[None]:
    """Show `bar` while the body runs. Every `every_s` seconds, call `update`, which changes the bar, and draw it."""

    async def refresh() -> None:
        while True:
            update()
            bar.refresh()
            await asyncio.sleep(every_s)

    with bar:
        refreshing = asyncio.create_task(refresh())
        try:
            yield
        finally:
            refreshing.cancel()
            await asyncio.gather(refreshing, return_exceptions=True)


@asynccontextmanager
async def progress_told(so_far: Callable[[], str]) -> AsyncIterator[None]:
    """While the body runs, show the text that `so_far` returns: on a terminal in one line, and otherwise as a new line
    every 30 s."""
    console = note_console()
    if not console.is_terminal:
        telling = asyncio.create_task(_tell(so_far))
        try:
            yield
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        return
    bar = Progress(TextColumn("{task.description}"), console=console, transient=True, auto_refresh=False)
    task = bar.add_task("", total=None)

    def update() -> None:
        bar.update(task, description=printable(so_far(), kept=""))

    async with drawn_again(bar, update, _REFRESH_S):
        yield


async def _tell(so_far: Callable[[], str]) -> None:
    while True:
        await asyncio.sleep(_LINE_S)
        say(so_far())
