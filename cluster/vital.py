"""What must not fail unseen: a node with a broken invariant ends at once, and a task that dies takes the node with it.

After that the next start reads what is on the disk, as after any kill.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from typing import ParamSpec

from store import CorruptRangeError, ForkedError

log = logging.getLogger("cluster.vital")
Arguments = ParamSpec("Arguments")

EXIT_BUG = 70


def vital(work: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """`work`, but a broken invariant in it ends the process."""

    def run(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        try:
            work(*arguments, **named)
        except (CorruptRangeError, ForkedError):
            raise  # bad bytes from a peer: its stream is broken off
        except Exception:
            log.critical("this node ends at once, for it cannot be sure of its state any more", exc_info=True)
            end_now()

    return run


def spawn(work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
    """A task that ends by cancellation or return; an error in it ends the process."""

    def tell_end(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("%s failed: this node ends at once", name, exc_info=error)
            end_now()

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(tell_end)
    return task


def end_now() -> None:
    logging.shutdown()
    os._exit(EXIT_BUG)
