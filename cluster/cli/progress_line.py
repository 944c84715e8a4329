"""A line of progress on a terminal, which is drawn again while a command works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rich.progress import Progress


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
