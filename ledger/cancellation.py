"""Tells a cancellation of the running task from other errors.

gRPC may hide a cancellation: if a call ends at the moment of the cancellation, gRPC raises only the error of the
call, or returns the end of the stream. And code that a task awaits, such as a listener of the program, may raise
CancelledError because something else was cancelled.
"""

from __future__ import annotations

import asyncio


def cancellations() -> int:
    """Return how often the running task has been cancelled. The number stays while the task cleans up."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def heed_cancellation(before: int = 0) -> None:
    """Raise CancelledError if the running task has been cancelled more often than `before`."""
    if cancellations() > before:
        raise asyncio.CancelledError
