"""Runs the vital work of a node: if a callback breaks an invariant, or a task fails, the node's process ends at once.

The next start of the node recovers the data from the disk, as after a kill.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from typing import ParamSpec

from raft.core import InvalidMessage
from raft.errors import CutFailedError
from store import CorruptRangeError, ForkedError, StoreError

log = logging.getLogger("ledgermq.node.vital")
Arguments = ParamSpec("Arguments")

EXIT_BUG = 70


class Vital:
    """Runs the callbacks and tasks without which the node cannot work. If one of them fails, the process of the
    node ends. If a vital callback or task fails, `end` is called with the error, and must end the node. The default
    `end` ends the process."""

    def __init__(self, end: Callable[[BaseException], None] | None = None) -> None:
        self._end = end or end_now

    def event(self, work: Callable[Arguments, None]) -> Callable[Arguments, None]:
        """Return a function that does `work`, and ends the node if `work` raises. The returned function raises
        InvalidMessage, CorruptRangeError and ForkedError to its caller. These three errors do not end the node."""

        def run(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
            try:
                work(*arguments, **named)
            except (InvalidMessage, CorruptRangeError, ForkedError):
                raise  # a peer sent a bad message: the caller closes the peer's stream
            except (CutFailedError, StoreError) as error:
                log.critical("this node ends at once: %s", error, exc_info=True)
                self._end(error)
            except Exception as error:
                log.critical("this node ends at once, because an invariant is broken in its memory", exc_info=True)
                self._end(error)

        return run

    def spawn(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        """Start a task named `name`. If the task raises, the node ends."""

        def tell_end(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                why = f": {error}" if isinstance(error, StoreError) else ""
                log.critical("%s failed: this node ends at once%s", name, why, exc_info=error)
                self._end(error)

        task = asyncio.create_task(work, name=name)
        task.add_done_callback(tell_end)
        return task


def end_now(_: BaseException) -> None:
    """End the process with exit status 70, without an orderly stop."""
    logging.shutdown()
    os._exit(EXIT_BUG)
