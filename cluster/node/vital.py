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

log = logging.getLogger("ledgermq.node.vital")
Arguments = ParamSpec("Arguments")

EXIT_BUG = 70


class Vital:
    """Runs what must not fail. `end` is told of the error where it does, and ends the node: by default the process."""

    def __init__(self, end: Callable[[BaseException], None] | None = None) -> None:
        self._end = end or end_now

    def event(self, work: Callable[Arguments, None]) -> Callable[Arguments, None]:
        """`work`, but a broken invariant in it ends the node."""

        def run(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
            try:
                work(*arguments, **named)
            except (CorruptRangeError, ForkedError):
                raise  # bad bytes from a peer: its stream is broken off
            except Exception as error:
                log.critical("this node ends at once, for it cannot be sure of its state any more", exc_info=True)
                self._end(error)

        return run

    def spawn(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        """A task that ends by cancellation or return; an error in it ends the node."""

        def tell_end(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.critical("%s failed: this node ends at once", name, exc_info=error)
                self._end(error)

        task = asyncio.create_task(work, name=name)
        task.add_done_callback(tell_end)
        return task


def end_now(_: BaseException) -> None:
    logging.shutdown()
    os._exit(EXIT_BUG)
